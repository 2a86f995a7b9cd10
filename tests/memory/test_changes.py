"""Votes and new entries: once each, taken back whole, and by evidence alone."""

import pytest

from kern.memory import changes
from kern.memory.changes import Taught, Vote
from kern.memory.entries import Kind, parse

TEXT = """# Learnings

## 2026-01-01 - Start the database

Run `make db` before the tests.

<!-- kern: id=L3 kind=pattern helpful=2 harmful=0 -->

## By hand

Ports below 1024 are taken in CI.

## Old

Use tabs everywhere.

<!-- kern: id=L9 kind=insight helpful=0 harmful=1 retired="formatter" -->
"""
TOLD = {entry.id: entry.mark for entry in parse(TEXT)}


def counts(text: str) -> dict[str, tuple[int, int]]:
    return {entry.id: (entry.helpful, entry.harmful) for entry in parse(text)}


def after(text: str, change: changes.Change) -> str:
    return changes.applied(text, change.swaps)


def test_what_a_committed_task_used_was_helpful_and_what_misled_it_harmful() -> None:
    taught = Taught(told=TOLD, used=["L3", "L1", "L3"], misled=["L9", "L77"])
    change = changes.succeeded(TEXT, taught, "t")
    assert change.votes == (
        Vote("L3", True, "used"),
        Vote("L1", True, "used"),
        Vote("L9", False, "misled"),
    )
    new = after(TEXT, change)
    assert counts(new) == {"L3": (3, 0), "L1": (1, 0), "L9": (0, 2)}
    assert after(new, change) == new, "once, however often"
    assert changes.undone(new, change.swaps) == TEXT


def test_what_a_failed_attempt_went_by_was_harmful() -> None:
    taught = Taught(learned="Run make db.", told=TOLD, used=["L3", "L1"], misled=["L1"])
    change = changes.failed(TEXT, taught)
    assert change.bodies == ()
    assert counts(after(TEXT, change)) == {"L3": (2, 1), "L1": (0, 1), "L9": (0, 1)}
    assert {vote.entry: vote.why for vote in change.votes} == {
        "L3": "used, and the attempt failed",
        "L1": "misled",
    }


def test_what_was_not_told_gets_no_vote_and_an_edited_file_none_by_mistake() -> None:
    assert changes.succeeded(TEXT, Taught(used=["L3"]), "t").votes == ()
    edited = "## New\n\nfirst\n\n" + TEXT.removeprefix("# Learnings\n\n")
    change = changes.succeeded(edited, Taught(told=TOLD, used=["L1"]), "t")
    voted = [one.title for one in parse(after(edited, change)) if one.helpful == 1]
    assert voted == ["By hand"]
    reworded = TEXT.replace("below 1024", "below 2048")
    assert changes.succeeded(reworded, Taught(told=TOLD, used=["L1"]), "t").votes == ()


def test_a_lesson_becomes_an_entry_with_the_next_number() -> None:
    taught = Taught("Greet late -> no one waits.", overcame=True, commit="8cf7b5f1234")
    (body,) = changes.succeeded(TEXT, taught, "Add it").bodies
    assert body.endswith("\n\n<!-- kern: id=L10 kind=sign helpful=0 harmful=0 commit=8cf7b5f -->")
    (entry,) = parse(f"## 2026-01-02 - Add it\n\n{body}\n")
    assert (entry.id, entry.kind, entry.task) == ("L10", Kind.SIGN, "Add it")


def test_what_is_known_becomes_a_vote_and_no_second_entry() -> None:
    change = changes.succeeded(TEXT, Taught("Run make db before any tests."), "t")
    assert change.bodies == ()
    assert change.votes == (Vote("L3", True, "learned again"),)
    used = Taught("Run make db before any tests.", told=TOLD, used=["L3"])
    assert counts(after(TEXT, changes.succeeded(TEXT, used, "t")))["L3"] == (3, 0), "one vote"
    change = changes.succeeded(TEXT, Taught("Use tabs everywhere."), "t")
    assert (change.votes, change.bodies) == ((), ())
    assert change.refused == (("Use tabs everywhere.", "L9 says so and is retired"),)
    again = changes.succeeded(TEXT, Taught("Run `make db` before the tests."), "Start the database")
    assert again == changes.Change(), "its own entry, which a person committed"


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_votes_and_entries_of_a_commit_reach_a_file_that_was_edited(ends: str) -> None:
    change = changes.succeeded(TEXT, Taught(told=TOLD, used=["L3", "L1"]), "t")
    new = after(TEXT, change) + "\n## 2026-01-02 - t\n\nfresh one\n"
    mine = TEXT.replace("\n", ends) + f"{ends}## Mine{ends}{ends}mine{ends}"
    mine = mine.replace("Ports below 1024 are taken in CI.", "Ports are taken.")
    text, appended = changes.merged(TEXT, mine, new)
    assert appended == ["## 2026-01-02 - t\n\nfresh one"]
    assert counts(text)["L3"] == (3, 0)
    assert counts(text)["L1"] == (0, 0), "reworded by a person since"
    assert text.count("\n") == text.count(ends)
    assert changes.merged(new, text, new) == (text, [])


def test_an_entry_is_found_by_its_number_as_people_write_it() -> None:
    for wanted in ("L3", "l3", "3"):
        found = changes.entry_of(TEXT, wanted)
        assert found is not None and found.id == "L3"
    assert changes.entry_of(TEXT, "L4") is None
