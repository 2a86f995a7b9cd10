"""Edits of SPEC.md: what must change changes, every other byte stays."""

import re

import pytest

from kern.spec import edit
from kern.spec.parse import Kind, Spec, Task, parse


def under(text: str, nth: int = 0) -> tuple[Spec, Task]:
    parsed = parse(text)
    return parsed, parsed.tasks[nth]


# -------------------------------------------------------------------- notes


@pytest.mark.parametrize(
    "words",
    [
        *("x" * 5000, "two\r\nlines\n\n> **Skipped:** a false note\n- [ ] a false task", "```"),
        *("\x1b[31mred\x1b[0m, bell \x07, nul \x00, c1 \x9b", "\u202egnihtemos", "\udcff", "<!--"),
        *("wide " * 200, ""),
    ],
)
def test_a_note_is_one_harmless_line_of_at_most_300_characters(words: str) -> None:
    line = edit.note(Kind.ATTEMPT, words, 3)
    assert line.startswith("> **Attempt 3:**")
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202e\udcff]", line)
    text = "- [~] a\n- [ ] b\n"
    again = parse(edit.annotate(text, under(text)[1], [line]))
    assert [task.text for task in again.tasks] == ["a", "b"]
    (note,) = again.tasks[0].notes
    assert (note.kind, note.number) == (Kind.ATTEMPT, 3)
    assert len(note.text) <= 300
    assert again.diagnostics == ()


def test_the_research_note_has_the_form_of_the_readme() -> None:
    lines = edit.research([("Files", "a.py:1-2"), ("Pattern", "b\nc"), ("Constraint", "y" * 400)])
    assert lines[:3] == ["> **Research:**", ">   - Files: a.py:1-2", ">   - Pattern: b c"]
    text = "- [~] a\n  - [ ] sub\n"
    new = edit.annotate(text, under(text)[1], lines)
    assert new.split("\n")[1:3] == ["  > **Research:**", "  >   - Files: a.py:1-2"]
    (note,) = parse(new).tasks[0].notes
    found = note.text.split("\n")
    assert [line.partition(":")[0] for line in found] == ["- Files", "- Pattern", "- Constraint"]
    assert all(len(line.partition(": ")[2]) <= 300 for line in found)
    assert found[2].endswith("…")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_note_goes_with_its_line_and_comes_back_as_it_was(end: str) -> None:
    text = f"- [ ] a{end}- [ ] b{end}  > **Attempt 1:** no"
    bare = edit.without(text, under(text, 1)[1].notes)
    assert bare == f"- [ ] a{end}- [ ] b"
    assert edit.annotate(bare, under(bare, 1)[1], ["> **Attempt 1:** no"]) == text


# -------------------------------------------------------------------- subtasks


def test_a_subtask_that_is_there_already_is_not_added_again() -> None:
    text = "- [~] a\n  - [x] one\n- [ ] two\n"
    parsed, task = under(text)
    new = edit.add_subtasks(text, parsed, task, ["one", "two"])
    assert new == text.replace("- [ ] two\n", "  - [ ] two\n- [ ] two\n")
    parsed, task = under(new)
    assert edit.add_subtasks(new, parsed, task, ["one", "two"]) == new


# -------------------------------------------------------------------- new tasks


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("", "- [ ] a\n"),
        ("# Tasks", "# Tasks\n\n- [ ] a\n"),
        ("# Tasks\n", "# Tasks\n\n- [ ] a\n"),
        ("# Tasks\r\n", "# Tasks\r\n\r\n- [ ] a\r\n"),
        ("# T\r\n- [x] old", "# T\r\n- [x] old\r\n- [ ] a"),
        ("- [x] old\n\nprose\n", "- [x] old\n- [ ] a\n\nprose\n"),
        ("- [x] old\n\npasted\r\n", "- [x] old\n- [ ] a\n\npasted\r\n"),
    ],
)
def test_the_first_task_of_a_text_stands_at_its_end(text: str, new: str) -> None:
    assert edit.add_tasks(text, parse(text), ["- [ ] a"]) == new


def ticked(text: str, nth: int) -> str:
    parsed, task = under(text, nth)
    return edit.tick(text, parsed, task)


@pytest.mark.parametrize(
    ("text", "nth", "expected"),
    [
        ("- [~] a\n", 0, "- [x] a\n"),
        ("- [ ] a\n  - [~] b\n  - [ ] c\n", 1, "- [ ] a\n  - [x] b\n  - [ ] c\n"),
        ("- [ ] a\n  - [~] b\n  - [~] c\n", 1, "- [ ] a\n  - [x] b\n  - [~] c\n"),
        ("- [ ] a\n  - [~] b\n\t- [X] c\n", 1, "- [x] a\n  - [x] b\n\t- [X] c\n"),
        ("- [X] a\n  - [~] b\n", 1, "- [X] a\n  - [x] b\n"),
        ("- [ ] a\n  - [ ] b\n    - [~] c\n", 2, "- [x] a\n  - [x] b\n    - [x] c\n"),
        ("- [ ] a\n - [ ] b\n  - [~] c\n - [ ] d", 2, "- [ ] a\n - [x] b\n  - [x] c\n - [ ] d"),
        ("- [ ] a\n- [ ] a\n  - [~] b\n- [ ] a\n", 2, "- [ ] a\n- [x] a\n  - [x] b\n- [ ] a\n"),
    ],
)  # fmt: skip
def test_what_a_tick_ticks(text: str, nth: int, expected: str) -> None:
    assert ticked(text, nth) == expected
