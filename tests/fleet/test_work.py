"""What is handed out next, and what a worker's SPEC.md says of it, in the person's text."""

from collections.abc import Collection
from pathlib import Path

import pytest

from kern.fleet import work
from kern.fleet.work import choose
from kern.model import Key
from kern.spec.parse import parse
from tests.conftest import Git


def order(text: str, busy: Collection[str] = (), passed_over: Collection[str] = ()) -> list[str]:
    """All that can be handed out while nothing ends, in order."""
    spec = parse(text)
    taken, over = ({t.key for t in spec.tasks if t.text in of} for of in (busy, passed_over))
    found = []
    while task := choose(spec, taken, over):
        found.append(task.text)
        taken.add(task.key)
    return found


@pytest.mark.parametrize(
    ("text", "busy", "found"),
    [
        ("- [ ] a\n- [ ] b\n- [x] c\n", (), ["a", "b"]),
        ("- [ ] a\n- [ ] b\n", ("a",), ["b"]),
        ("- [ ] a\n- [ ] b\n  > **After:** a\n", (), ["a"]),
        ("- [x] a\n- [ ] b\n  > **After:** a\n", (), ["b"]),
        ("- [ ] a\n  - [ ] a1\n  - [ ] a2\n- [ ] b\n", (), ["a1", "b"]),
        ("- [ ] a\n  - [x] a1\n  - [ ] a2\n- [ ] b\n", (), ["a2", "b"]),
        ("- [ ] a\n  - [ ] a1\n    - [ ] a11\n  - [ ] a2\n", ("a2",), []),
        ("- [ ] a\n  > **Skipped:** x\n- [ ] b\n", (), ["b", "a"]),
        ("- [ ] a\n  - [ ] a1\n    > **Skipped:** x\n  - [ ] a2\n", (), ["a2"]),
        ("- [ ] a\n  > **Held:** x\n- [ ] b\n  > **Question:** y?\n- [ ] c\n", (), ["c"]),
        ("- [~] a\n- [ ] b\n", (), ["b"]),  # in progress in the person's own tree
        ("", (), []),
    ],
)
def test_in_order_and_what_waits_waits(text: str, busy: Collection[str], found: list[str]) -> None:
    assert order(text, busy) == found
    assert order("- [ ] a\n- [ ] b\n- [ ] c\n", (), ("a", "b")) == ["c", "a", "b"]


def test_of_a_person_s_notes_those_of_now_count() -> None:
    mine, kerns = "- [ ] a\n  > **Gate:** new\n", "  > **Skipped:** no\n"
    assert work.noted(mine, Key("", "a"), mine.replace("new", "old") + kerns) == mine + kerns


def test_a_work_branch_is_told_by_task_and_by_the_branch_that_it_lands_on(
    repo: Path, git: Git
) -> None:
    one = Key("", "Add a flag", 1)
    odd = [Key("", text) for text in ("", "..", "a/../b", "@{", "x.lock", "ü ✓", "-n", "~^:?*[")]
    keys = [one, one._replace(parent="above"), one._replace(nth=2), *odd]
    names = [work.branch("main", key) for key in keys] + [work.branch("other", one)]
    assert len({*names}) == len(names)
    assert [git("check-ref-format", "--branch", name) for name in names] == names


SPEC = """# Mine
- [ ] all
  > **Judge:** is it whole?
  - [x] first
  - [ ] last
- [ ] sum
  - [ ] part
"""


def test_a_parent_is_done_with_its_last_subtask_unless_nobody_checked_it() -> None:
    part, last = Key("sum", "part"), Key("all", "last")
    whole = SPEC.replace("[ ] part", "[x] part").replace("[ ] last", "[x] last")
    assert "- [x] sum" in work.ticked(SPEC, part, whole)
    assert "- [ ] all" in work.ticked(SPEC, last, whole), "its judge was not asked"
    assert "- [x] all" in work.ticked(SPEC, last, whole.replace("[ ] all", "[x] all"))


BEFORE = "# T\n\n- [ ] one\n- [ ] two\n  > **After:** one\n- [x] three\n"
TWO = parse(BEFORE).tasks[1].key


def test_notes_and_subtasks_come_once_and_what_a_person_wrote_meanwhile_stays() -> None:
    mine = BEFORE.replace("- [ ] two\n", "- [ ] two\n  > my hint\n  > **Held:** until Friday\n")
    theirs, after = BEFORE.replace("three", "3"), "  > **After:** one\n"
    theirs = theirs.replace(after, f"{after}  > **Attempt 1:** red (kept: r)\n  - [ ] sub\n")
    text = work.noted(mine, TWO, theirs)
    assert "  > my hint\n" in text and "**Held:** until Friday" in text and "three" in text
    assert text.count("**Attempt 1:** red (kept: r)") == text.count("**After:** one") == 1
    assert [task.text for task in parse(text).tasks] == ["one", "two", "sub", "three"]
    assert work.noted(text, TWO, theirs) == text, "a second time changes nothing"
    gone = BEFORE.replace("- [ ] two\n", "")
    assert work.noted(gone, TWO, theirs) == gone
