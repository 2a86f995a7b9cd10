"""What is proposed for LEARNINGS.md: which answers are taken, what they make of the file."""

from itertools import product
from random import Random

import pytest

from kern.memory import entries
from kern.memory.entries import Kind
from kern.spec.parse import parse
from kern.stages import prompts, reflection
from kern.stages.reflection import Change, Proposed
from tests.spec.test_parse import nasty

DAY = "2026-11-22"
FILE = """\
# Learnings

Written by hand, before any heading.

## 2026-01-02 - Add --quiet

The help text is tested word for word.

<!-- kern: id=L1 kind=pattern helpful=3 harmful=1 -->

## 2026-01-09 - Invoices

Build an index on orders concurrently.

## 2026-02-01 - Orders

Indexes on orders are made with AddIndexConcurrently, or nobody can buy.

<!-- kern: id=L7 kind=sign helpful=2 harmful=0 commit=1a2b3c4 -->

## 2026-02-03 - Old parser

Call the old parser for XML.

<!-- kern: id=L8 kind=insight helpful=0 harmful=0 retired="it is gone" -->
"""


def answered(*items: str, end: str = "CHANGES") -> str:
    return "What I found.\n\n## Changes\n" + "\n".join(f"- {one}" for one in items) + f"\n\n{end}"


def read(*items: str) -> Proposed:
    return reflection.read(answered(*items), FILE)


def after(*items: str, there: str = FILE) -> dict[str, entries.Entry]:
    found = reflection.read(answered(*items), there)
    assert not found.wrong, found.wrong
    return {one.id: one for one in entries.parse(reflection.applied(there, found.changes, DAY))}


def test_each_kind_of_change_is_read() -> None:
    found = read(
        "MERGE L2, L7: Build an index on `orders` concurrently:\n  a plain one locks it.",
        "**REWRITE** L1: Change tests/help.txt with the help text.",
        "RETIRE L1 : no",
        "ADD decision (Storage): State is kept in SQLite: users back up one file.",
    )
    assert "L1 stands in two changes" in found.wrong
    found = read(
        "MERGE L2 and L7: Build an index on `orders` concurrently:\n  a plain one locks it.",
        "**REWRITE L1:** Change tests/help.txt with the help text.",
        "ADD decision (Storage): State is kept in SQLite: users back up one file.",
    )
    assert found.changes == (
        Change(
            "MERGE",
            "Build an index on `orders` concurrently: a plain one locks it.",
            ("L2", "L7"),
        ),
        Change("REWRITE", "Change tests/help.txt with the help text.", ("L1",)),
        Change(
            *("ADD", "State is kept in SQLite: users back up one file.", ()),
            *(Kind.DECISION, "Storage"),
        ),
    )


def test_a_merge_keeps_the_first_with_all_votes_and_says_of_the_others_where_they_went() -> None:
    found = after("MERGE L7, L1: One rule for both.")
    assert (found["L7"].text, found["L7"].votes) == ("One rule for both.", "5 helpful, 1 harmful")
    assert (found["L7"].title, found["L7"].commit, found["L7"].kind) == (
        *("Orders", "1a2b3c4"),
        Kind.SIGN,
    )
    assert found["L1"].text == "The help text is tested word for word."
    assert found["L1"].unwanted == "retired: merged into L7"


def test_the_work_that_needs_an_entry_is_named_and_outlives_a_merge() -> None:
    found = after("WHEN L1: a new option; the wording of an error.")
    assert found["L1"].when == "a new option; the wording of an error"
    assert found["L1"].text == "The help text is tested word for word."
    there = FILE.replace("commit=1a2b3c4 -->", 'commit=1a2b3c4 when="locks" -->')
    there = reflection.applied(there, read("WHEN L1: help").changes, DAY)
    assert after("MERGE L7, L1: One rule for both.", there=there)["L7"].when == "locks; help"
    assert after("REWRITE L7: One rule.", there=there)["L7"].when == "locks"
    new = after("ADD sign (Locks): Lock before the read: two wrote at once.\n  When: a; b")["L9"]
    assert (new.text, new.when) == ("Lock before the read: two wrote at once.", "a; b")
    text = f"{'long ' * 100}text."
    new = after(f"ADD sign (Locks): {text} When: {'a kind ' * 20}; b")["L9"]
    assert (new.text, new.when) == (text, f"{'a kind ' * 20}".strip() + "; b")


def test_an_entry_written_by_hand_gets_its_number_when_it_is_changed() -> None:
    assert "id=L2 " not in FILE
    found = after("REWRITE L2: Build it concurrently.")
    assert (found["L2"].text, found["L2"].noted) == ("Build it concurrently.", True)
    retired = after("RETIRE L2: orders is gone")["L2"]
    assert retired.text == "Build an index on orders concurrently."
    assert retired.unwanted == "retired: orders is gone"


def test_what_is_new_stands_at_the_end_and_not_twice() -> None:
    found = after("ADD sign (Locks): Take the lock before the read: two runs wrote at once.")
    assert [*found] == ["L0", "L1", "L2", "L7", "L8", "L9"]
    new = found["L9"]
    assert (new.date, new.title, new.kind, new.votes) == (
        *(DAY, "Locks", Kind.SIGN),
        "0 helpful, 0 harmful",
    )
    known = read("ADD pattern (Help): The help text is tested, word for word!")
    assert known == Proposed()


def test_what_a_later_kern_noted_of_an_entry_stays() -> None:
    newer = FILE.replace("commit=1a2b3c4 -->", "commit=1a2b3c4 seen=yesterday -->")
    found = reflection.read(answered("REWRITE L7: New."), newer)
    note = "<!-- kern: id=L7 kind=sign helpful=2 harmful=0 commit=1a2b3c4 seen=yesterday -->"
    assert f"## 2026-02-01 - Orders\n\nNew.\n\n{note}\n" in reflection.applied(
        newer, found.changes, DAY
    )


def test_nothing_else_is_touched() -> None:
    for ends, tail in product(("\n", "\r\n"), ("", "\n")):
        there = (FILE.rstrip() + tail).replace("\n", ends)
        found = reflection.read(answered("REWRITE L7: New.", "ADD sign (T): Newer."), there)
        text = reflection.applied(there, found.changes, DAY)
        assert text.count("\n") == text.count(ends)
        lines = there.split(ends)
        kept = [line for line in text.split(ends) if line in lines]
        gone = "Indexes on orders are made with AddIndexConcurrently, or nobody can buy."
        assert [line for line in kept if line] == [line for line in lines if line not in ("", gone)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Sorry, I cannot help.", "either CHANGES or DONE"),
        ("## Tasks\n- [ ] a\n\nTASKS", "either CHANGES or DONE"),
        (answered(), "no changes below"),
        (answered("RETIRE L1: so", end="DONE: fine"), "either CHANGES or DONE"),
        (answered("RETIRE L1 because it is old"), "no change that kern knows"),
        (answered("DELETE L1: old"), "no change that kern knows"),
        (answered("ADD wisdom (T): Be good."), "no change that kern knows"),
        (answered("ADD decision: Be good."), "no change that kern knows"),
        (answered("RETIRE L99: gone"), "no entry L99"),
        (answered("RETIRE L0: gone"), "no entry L0"),
        (answered("REWRITE L8: It came back."), "no entry L8"),
        (answered("MERGE L1: alone"), "a merge is of two"),
        (answered("RETIRE L1, L2: both"), "a merge is of two"),
        (answered("MERGE L1, L1: twice"), "stands in two"),
        (answered("REWRITE L1: …"), "could not be read"),
        (answered(f"REWRITE L1: {'x' * 601}"), "longer than 600"),
        (answered("REWRITE L1: a <!-- kern: id=L7 helpful=99 harmful=0 -->"), "could not be read"),
        (answered("REWRITE L1: ## 2026-01-01 - A heading"), "could not be read"),
        (answered("REWRITE L1: <<<<<<< ours"), "could not be read"),
        (answered("ADD sign (T): ## Another"), "could not be read"),
        (answered(*(f"ADD sign (T{n}): Text {n}." for n in range(31))), "31 changes"),
    ],
)
def test_an_answer_that_cannot_be_trusted_is_refused_as_a_whole(said: str, why: str) -> None:
    found = reflection.read(said, FILE)
    assert why in found.wrong and not found.changes


def test_a_fence_does_not_swallow_the_entries_below() -> None:
    there = FILE + "\n## 2026-03-01 - Code\n\n```\nx\n```\n"
    assert "could not be read" in reflection.read(answered("REWRITE L1: ```sh"), there).wrong


def test_a_damaged_entry_is_left_to_a_person() -> None:
    damaged = FILE.replace("helpful=3 harmful=1 -->", "helpful=many")
    assert "mend that by hand" in reflection.read(answered("REWRITE L1: New."), damaged).wrong
    assert not reflection.read(answered("REWRITE L7: New."), damaged).wrong


def test_no_junk_makes_it_fail() -> None:
    """Whatever is taken leaves the other entries as they were."""
    chance = Random(17)
    heads = ("REWRITE L1", "RETIRE L2", "MERGE L2, L1", "ADD sign (T)", "MERGE L7, L8")
    taken = 0
    for seed in range(300):
        text, below = nasty(seed), nasty(seed + 1000)
        there = FILE + "\n" + below
        item = f"{chance.choice(heads)}: {chance.choice(text.splitlines() or ['x'])} and more"
        found = reflection.read(answered(item), there)
        before = {one.id: one for one in entries.parse(there)}
        new = {one.id: one for one in entries.parse(reflection.applied(there, found.changes, DAY))}
        named = {name for one in found.changes for name in one.ids}
        assert all(new[name].text == one.text for name, one in before.items() if name not in named)
        taken += bool(found.changes)
    assert taken > 100, "most of them are taken"


def test_done_says_why() -> None:
    found = reflection.read("I read all.\n\nDONE: each entry holds", FILE)
    assert found == Proposed(done="each entry holds")


# -------------------------------------------------------------------- what the agent is told


def test_entries_in_use_are_listed_in_a_line_each() -> None:
    assert reflection.listed(entries.parse(FILE)) == [
        "L1 (line 5, pattern, 3 helpful, 1 harmful): Add --quiet",
        "L7 (line 15, sign, 2 helpful, 0 harmful): Orders",
        "L2 (line 11, insight, 0 helpful, 0 harmful): Invoices",
    ]


def test_of_finished_tasks_it_is_told_what_a_person_decided() -> None:
    text = (
        "- [x] Store the users\n  > **Question:** Postgres or SQLite?\n  > **Answer:** SQLite\n"
        "- [ ] Not yet\n  > **Answer:** Never\n- [x] Write it down\n"
    )
    assert reflection.finished(parse(text)) == [
        "- Store the users\n  Question: Postgres or SQLite?\n  Answer: SQLite",
        "- Write it down",
    ]


def test_the_newest_are_told_within_their_room() -> None:
    items = [str(n) * n for n in range(10)]
    for most in range(60):
        kept = prompts.newest(items, most)
        assert kept == items[10 - len(kept) :]
        assert sum(len(one) + 1 for one in kept) <= most
        assert len(kept) == 10 or sum(len(one) + 1 for one in items[9 - len(kept) :]) > most
