"""What is proposed for LEARNINGS.md: which answers are taken, what they make of the file."""

from itertools import product
from random import Random

import pytest

from kern.memory import entries
from kern.memory.entries import Kind
from kern.spec.parse import parse
from kern.stages import prompts, reflection
from kern.stages.reflection import Proposed
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

<!-- kern: id=L7 kind=sign helpful=2 harmful=0 commit=1a2b3c4 when="locks" seen=yesterday -->

## 2026-02-03 - Old parser

Call the old parser for XML.

<!-- kern: id=L8 kind=insight helpful=0 harmful=0 retired="it is gone" -->
"""


def answered(*items: str, end: str = "CHANGES") -> str:
    return "What I found.\n\n## Changes\n" + "\n".join(f"- {one}" for one in items) + f"\n\n{end}"


def read(*items: str, there: str = FILE) -> Proposed:
    return reflection.read(answered(*items), there, DAY)


def after(*items: str) -> dict[str, entries.Entry]:
    found = read(*items)
    assert not found.wrong, found.wrong
    return {one.id: one for one in entries.parse(found.text)}


def test_a_merge_keeps_the_first_with_all_votes_and_says_of_the_others_where_they_went() -> None:
    found = after("MERGE L7 and L1: One rule:\n  for both.")
    first = found["L7"]
    assert (first.text, first.votes) == ("One rule: for both.", "5 helpful, 1 harmful")
    assert (first.title, first.commit, first.kind) == ("Orders", "1a2b3c4", Kind.SIGN)
    assert first.when == "locks"
    assert found["L1"].text == "The help text is tested word for word."
    assert found["L1"].unwanted == "retired: merged into L7"


def test_an_entry_written_by_hand_gets_its_number_when_it_is_changed() -> None:
    assert "id=L2 " not in FILE
    found = after("**REWRITE L2:** Build it concurrently.", "WHEN L1: a new option; an error.")
    assert (found["L2"].text, found["L2"].noted) == ("Build it concurrently.", True)
    assert found["L1"].when == "a new option; an error"
    assert found["L1"].text == "The help text is tested word for word."
    retired = after("RETIRE L2 : orders is gone")["L2"]
    assert retired.text == "Build an index on orders concurrently."
    assert retired.unwanted == "retired: orders is gone"


def test_what_is_new_stands_at_the_end_and_not_twice() -> None:
    found = after("ADD sign (Locks): Lock before the read: two wrote.\n  When: a; b")
    assert [*found] == ["L0", "L1", "L2", "L7", "L8", "L9"]
    new = found["L9"]
    assert (new.date, new.title, new.kind) == (DAY, "Locks", Kind.SIGN)
    assert (new.text, new.when) == ("Lock before the read: two wrote.", "a; b")
    known = read("ADD pattern (Help): The help text is tested, word for word!")
    assert known == Proposed(FILE, FILE)


def test_nothing_else_is_touched() -> None:
    for ends, tail in product(("\n", "\r\n"), ("", "\n")):
        there = (FILE.rstrip() + tail).replace("\n", ends)
        text = read("REWRITE L7: New.", "ADD sign (T): Newer.", there=there).text
        assert text.count("\n") == text.count(ends)
        assert f"Orders{ends}{ends}New.{ends}{ends}<!-- kern: id=L7 kind=sign helpful=2" in text
        assert text.count("seen=yesterday") == 1  # of a later kern's
        mine = [line for line in there.split(ends) if line and "L7" not in line]
        mine.remove("Indexes on orders are made with AddIndexConcurrently, or nobody can buy.")
        assert [line for line in text.split(ends) if line in mine] == mine


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("## Tasks\n- [ ] a\n\nTASKS", "either CHANGES or DONE"),
        (answered(), "no changes below"),
        (answered("RETIRE L1: so", end="DONE: fine"), "either CHANGES or DONE"),
        (answered("RETIRE L1 because it is old"), "no change that kern knows"),
        (answered("ADD wisdom (T): Be good."), "no change that kern knows"),
        (answered("RETIRE L0: gone"), "no entry L0"),
        (answered("MERGE L1, L8: It came back."), "no entry L8"),
        (answered("RETIRE L1, L2: both"), "a merge is of two"),
        (answered("MERGE L1, L1: twice"), "stands in two"),
        (answered("RETIRE L1: a", "REWRITE L1: b"), "L1 stands in two"),
        (answered("REWRITE L1: …"), "could not be read"),
        (answered(f"REWRITE L1: {'x' * 601}"), "longer than 600"),
        (answered("REWRITE L1: a <!-- kern: id=L7 helpful=99 harmful=0 -->"), "could not be read"),
        (answered("REWRITE L1: <<<<<<< ours"), "could not be read"),
        (answered("ADD sign (T): ## Another"), "could not be read"),
        (answered(*(f"ADD sign (T{n}): Text {n}." for n in range(31))), "31 changes"),
    ],
)
def test_an_answer_that_cannot_be_trusted_is_refused_as_a_whole(said: str, why: str) -> None:
    found = reflection.read(said, FILE, DAY)
    assert why in found.wrong and not found.text


def test_a_damaged_entry_is_left_to_a_person() -> None:
    damaged = FILE.replace("helpful=3 harmful=1 -->", "helpful=many")
    assert "mend that by hand" in read("REWRITE L1: New.", there=damaged).wrong
    assert not read("REWRITE L7: New.", there=damaged).wrong


def test_no_junk_makes_it_fail() -> None:
    """Whatever is taken leaves the other entries as they were."""
    chance = Random(17)
    heads = ("REWRITE L1", "RETIRE L2", "MERGE L2, L1", "ADD sign (T)", "MERGE L7, L8")
    taken = 0
    for seed in range(300):
        text, head = nasty(seed), chance.choice(heads)
        there = f"{FILE}\n{nasty(seed + 1000)}"
        item = f"{head}: {chance.choice(text.splitlines() or ['x'])} and more"
        if found := read(item, there=there).text:
            taken += 1
            new = {one.id: one.text for one in entries.parse(found)}
            others = (one for one in entries.parse(there) if one.id not in head)
            assert all(new[one.id] == one.text for one in others)
    assert taken > 100, "most of them are taken"


def test_done_says_why() -> None:
    found = reflection.read("I read all.\n\nDONE: each entry holds", FILE, DAY)
    assert found == Proposed(FILE, FILE, done="each entry holds")


def test_what_the_agent_is_told() -> None:
    assert reflection.listed(entries.parse(FILE)) == [
        "L1 (line 5, pattern, 3 helpful, 1 harmful): Add --quiet",
        "L7 (line 15, sign, 2 helpful, 0 harmful): Orders",
        "L2 (line 11, insight, 0 helpful, 0 harmful): Invoices",
    ]
    text = (
        "- [x] Store the users\n  > **Question:** Postgres or SQLite?\n  > **Answer:** SQLite\n"
        "- [ ] Not yet\n  > **Answer:** Never\n- [x] Write it down\n"
    )
    told = "- Store the users\n  Question: Postgres or SQLite?\n  Answer: SQLite"
    assert reflection.finished(parse(text)) == [told, "- Write it down"]
    for room, kept in ((0, []), (2, ["3"]), (4, ["2", "3"]), (99, ["1", "2", "3"])):
        assert prompts.newest(["1", "2", "3"], room) == kept
