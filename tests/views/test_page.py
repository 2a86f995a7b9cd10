"""The report as a page: what it tells, that nothing from outside can become a tag, and how a real
browser lays it out.
"""

import html
import re
import time
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from kern import plain
from kern.journal.history import fold
from kern.views import report

START = 1_794_000_000  # 2026-11-06, some time in the evening
NASTY = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style></title></svg>]]>&amp;--><!--",
    "שלום \u202eabc\u202c 🎉 \x1b[31mred\x1b[0m \x00\x9b \ud800",
    "x" * 5000,
)


class Told:
    """Records as a run writes them, at times of the test's choosing."""

    def __init__(self, run: str = "r1", now: float = START) -> None:
        self.run = run
        self.now = now
        self.found: list[dict[str, Any]] = []

    def __call__(self, kind: str, task: str = "", *, after: float = 0, **values: Any) -> None:
        self.now += after
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.now)) + ".000Z"
        seq = len(self.found) + 1
        mark = {"v": 1, "id": f"{self.run}-{seq}", "time": when, "run": self.run, "seq": seq}
        self.found.append({**mark, "branch": "main", "task": task, "kind": kind, **values})

    def stage(self, stage: str, task: str, seconds: float, cost: float | None = 0.5) -> None:
        self("stage", task, stage=stage, did="start", attempt=1, model="opus")
        ended = {"did": "end", "attempt": 1, "model": "opus", "seconds": seconds}
        self("stage", task, after=seconds, stage=stage, cost_usd=cost, **ended)

    def task(self, name: str, cost: float | None = 0.5) -> None:
        self("task", name, did="start")
        for stage in ("research", "implement", "commit"):
            self.stage(stage, name, 60, cost)
        self("task", name, did="done", proved="verified by gate check")
        self("commit", name, commit="ab" * 20)


def page(found: list[dict[str, Any]]) -> str:
    return report.page(fold(found))


def shown(found: list[dict[str, Any]]) -> ET.Element:
    """As strictly as XML is read."""
    return ET.fromstring(page(found).partition("\n")[2])


def words(root: ET.Element) -> str:
    return " ".join(" ".join(root.itertext()).split())


def marked(root: ET.Element, word: str) -> list[ET.Element]:
    return [one for one in root.iter() if one.get("class") == word]


# -------------------------------------------------------------------- nothing from outside


@pytest.mark.parametrize("text", NASTY)
def test_what_comes_from_outside_is_text_and_nothing_else(text: str) -> None:
    sound, told = Told(), Told()
    for tell, said in ((sound, "plain"), (told, text)):
        tell.run = said
        tell("run", root=f"/{said}", did="start")
        tell("task", said, did="start", detail=said)
        tell("stage", said, stage=said, did="start", attempt=said, model=said)
        tell("stage", said, stage=said, did="failed", reason=said, attempt=said, cost_usd=1)
        tell.stage("implement", said, 5)
        tell("gate", said, gate=said, code=1, red=True, output=said, seconds=2)
        tell("gate", said, gate=f"judge of {said}", red=True, output=said)
        tell("attempt", said, attempt=said, reason=said, ref=said)
        tell("learning", said, text=said)
        tell("limit", said, text=said)
        tell("commit", said, commit=said)
        tell("task", said, did=said, detail=said, proved=said)
        tell("run", did="end", exit=said)
        for record in tell.found:
            record["branch"] = said
        tell.found[0]["time"] = tell.found[-1]["time"] = said
    tags = [[one.tag for one in shown(tell.found).iter()] for tell in (sound, told)]
    assert tags[0] == tags[1]
    attributes = {name for one in shown(told.found).iter() for name in one.attrib}
    assert attributes == {name for one in shown(sound.found).iter() for name in one.attrib}
    whole = page(told.found)
    assert plain.line(text, 100).rstrip("…") in html.unescape(whole)
    assert not plain.UNSAFE.search(whole)
    assert max(map(len, words(shown(told.found)).split())) < 1100


def test_a_page_brings_all_that_it_needs_and_forbids_the_rest() -> None:
    told = Told()
    told.task("a")
    whole = page(told.found)
    (policy,) = (
        str(one.get("content")) for one in shown(told.found).iter("meta") if one.get("http-equiv")
    )
    assert policy.split("; ")[:2] == ["default-src 'none'", "style-src 'unsafe-inline'"]
    assert re.findall(r"(?:src|href|action)=\"(?!#)|url\((?!#)|@import|://", whole) == []


# -------------------------------------------------------------------- what it tells


def of_many() -> list[dict[str, Any]]:
    """Two workers at once, and a landing's gate."""
    parent, one, two = Told("parent"), Told("one"), Told("two")
    parent("run", did="start", root="/home/me/project")
    one("run", did="start", root="/tmp/worktree")
    one.stage("research", "first", 60)
    two.now += 10
    two("stage", "second", stage="research", did="start")
    one("run", did="end", exit=0, after=5)
    two("stage", "second", after=80, stage="research", did="end", seconds=80)
    two("stage", "second", stage="implement", did="start")
    parent("gate", "first", gate="check", seconds=20, red=False, code=0, after=85)
    parent("run", did="end", exit=0, after=20)
    for worker, told in enumerate((one, two), 1):
        told.found = [{**record, "fleet": "parent", "worker": worker} for record in told.found]
    found = [*parent.found, *one.found, *two.found]
    return sorted(found, key=lambda record: record["time"])


def test_many_at_once_are_one_run_with_a_lane_for_each_worker() -> None:
    (run,) = fold(of_many()).runs.values()
    assert (run.start["root"], run.exit) == ("/home/me/project", 0)
    root = shown(of_many())
    assert [words(row) for row in marked(root, "row")] == ["landing", "worker 1", "worker 2"]


@pytest.mark.parametrize("seconds", [None, -5, 1e9])
@pytest.mark.parametrize("when", ["yesterday", "9999-12-31T23:59:59Z"])
def test_a_time_that_is_none_leaves_each_bar_in_its_box(seconds: Any, when: str) -> None:
    told = Told()
    told.stage("research", "a", 60)
    told("stage", "a", stage="implement", did="end", seconds=seconds, cost_usd=None)
    told.found[-1]["time"] = when
    told.stage("commit", "a", 60)
    styles = [str(bar.get("style")) for bar in shown(told.found).iter("span")]
    places = [re.findall(r"(?:left|width):([\d.]+)%", one) for one in styles if "width" in one]
    assert all(float(left) + float(width) <= 100.01 for left, width in places)
