"""What is proposed for LEARNINGS.md: which answers are taken, what they make of the file."""

import pytest

from kern.errors import UsageError
from kern.memory.entries import Entry, parse
from kern.stages import plan

FILE = """\
# Learnings

## Learnings

- L1 +3 -1 The help text is tested word for word.
- Build an index on orders concurrently.
- L7 +2 -0 Indexes on orders are made with AddIndexConcurrently. | when: locks
- L8 +0 -0 Call the old parser. | retired: it is gone
"""


def answered(*items: str, end: str = "CHANGES") -> str:
    return "What I found.\n\n## Changes\n" + "\n".join(f"- {one}" for one in items) + f"\n\n{end}"


def after(*items: str) -> dict[str, Entry]:
    found = plan.changes(answered(*items), FILE)
    assert found.before == FILE
    return {one.id: one for one in parse(found.text).entries}


def test_one_is_reworded_retired_or_new_and_the_others_stay() -> None:
    found = after(
        "L2 +9 -9 Build it concurrently.\n  | when: a list; an index",
        "L1 +3 -1 The help text is tested. | retired: src/ is gone",
        "Lock before the read: two wrote. | when: a; b",
    )
    assert found["L2"].line == "- L2 +0 -0 Build it concurrently. | when: a list; an index"
    assert found["L1"].unwanted == "retired: src/ is gone" and found["L1"].helpful == 3
    assert found["L9"] == Entry("L9", "Lock before the read: two wrote.", when="a; b")
    assert [*found] == ["L1", "L2", "L7", "L8", "L9"]
    assert all(found[name].line in FILE for name in ("L7", "L8"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("## Tasks\n- [ ] a\n\nTASKS", "either CHANGES or DONE"),
        (answered(), "no entry below"),
        (answered("L1 +0 -0 The help text", end="DONE: fine"), "either CHANGES or DONE"),
        (answered("a new one\nand prose"), "is no entry"),
        (answered("L10 +0 -0 a b"), "no entry L10"),
        (answered("L8 +0 -0 It came back."), "no entry L8"),
        (answered("L1 +0 -0 …"), "empty or longer"),
        (answered(f"L1 +0 -0 {'x' * 601}"), "longer than 600"),
    ],
)
def test_an_answer_that_cannot_be_trusted_is_refused_as_a_whole(said: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan.changes(said, FILE)
