"""The bundled set is whole: what a figure is measured on cannot shrink or rot unnoticed."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from kern.memory import capture, entries
from tests.bench.memory import bundled

FILES = sorted(bundled.HERE.glob("*.toml"))


def test_it_is_as_large_as_it_says() -> None:
    projects, combined = bundled.projects(), bundled.combined()
    assert len(projects) >= 6
    assert all(len(one.entries) >= 20 for one in projects)
    assert len(combined.entries) == sum(len(one.entries) for one in projects) >= 120
    assert len(combined.tasks) == sum(len(one.tasks) for one in projects)
    assert sum(bool(task.belong) for task in combined.tasks) >= 40
    assert sum(not task.belong for task in combined.tasks) >= 10
    assert any(entry.unwanted for entry in combined.entries)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_names_its_own_entries_once(path: Path) -> None:
    read = tomllib.loads(path.read_text("utf-8"))
    assert read["project"] == path.stem
    ids = [one["id"] for one in read["learning"]]
    assert len({*ids}) == len(ids) and all(name.startswith(f"{path.stem}-") for name in ids)
    for one in read["learning"]:
        assert one.keys() == {"id", "date", "title", "text", "when", "kind", "votes"}
        assert capture.when(one["when"]) == one["when"], "as kern would keep it"
        assert 10 <= len(one["text"]) <= 400
    for task in read["task"]:
        assert task.keys() - {"also"} == {"text", "belong", "research"}
        assert 20 <= len(task["research"].split()) <= 120
        assert {*task["belong"]} <= {*ids}, task["text"]
        assert len(task["belong"]) == len({*task["belong"]}) <= 5
        assert not {*task.get("also", ())} & {*ids}, "of other projects alone"
    texts = Counter(one["text"] for one in (*read["learning"], *read["task"]))
    texts += Counter(one["when"] for one in read["learning"])
    assert texts.most_common(1)[0][1] == 1


def test_an_entry_of_another_project_exists() -> None:
    read = [tomllib.loads(path.read_text("utf-8")) for path in FILES]
    ids = {one["id"] for part in read for one in part["learning"]}
    also = {name for part in read for task in part["task"] for name in task.get("also", ())}
    assert also and also <= ids


@pytest.mark.parametrize("bundle", [*bundled.projects(), bundled.combined()], ids=lambda b: b.name)
def test_the_learnings_are_read_as_they_were_written(bundle: bundled.Bundle) -> None:
    assert not entries.parse(bundle.learnings).faults
    assert [one.id for one in bundle.entries] == [f"L{n + 1}" for n in range(len(bundle.entries))]
    ids = {one.id for one in bundle.entries if not one.unwanted}
    for task in bundle.tasks:
        assert task.belong <= ids, f"{task.text}: what is harmful belongs to nothing"


def test_the_combined_set_says_the_same_of_each_task() -> None:
    everything = bundled.combined()
    words = {one.id: one.text for one in everything.entries}
    for project in bundled.projects():
        own = {one.id: one.text for one in project.entries}
        there = [task for task in everything.tasks if task.project == project.name]
        for task, same in zip(project.tasks, there, strict=True):
            assert task.text == same.text
            assert {own[name] for name in task.belong} <= {words[name] for name in same.belong}
