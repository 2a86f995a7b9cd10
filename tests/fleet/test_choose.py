"""What is handed out next."""

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


def test_what_this_run_has_passed_over_comes_last() -> None:
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
