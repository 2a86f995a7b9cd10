"""Votes and new entries: by evidence alone, and once."""

import pytest

from kern.memory import changes
from kern.memory.changes import Taught, Vote
from kern.memory.entries import parse

TEXT = """# Learnings

## Learnings

- L3 +2 -0 Run `make db` before the tests.
- Ports below 1024 are taken in CI.
- L9 +0 -1 Use tabs everywhere. | retired: formatter
"""
TOLD = {entry.id: entry.text for entry in parse(TEXT).entries}


def counts(text: str) -> dict[str, tuple[int, int]]:
    return {entry.id: (entry.helpful, entry.harmful) for entry in parse(text).entries}


def test_what_was_not_told_gets_no_vote_and_an_edited_file_none_by_mistake() -> None:
    assert changes.of(TEXT, Taught(used=["L3"])).votes == ()
    edited = TEXT.replace("- L3", "- First of all.\n- L3")
    change = changes.of(edited, Taught(told=TOLD, used=["L1"]))
    voted = [one for one in parse(change.text).entries if one.helpful == 1]
    assert [one.text for one in voted] == [TOLD["L1"]] and voted[0].id == change.votes[0].entry
    reworded = TEXT.replace("below 1024", "below 2048")
    assert changes.of(reworded, Taught(told=TOLD, used=["L1"])).votes == ()


def test_what_is_learned_is_an_entry_unless_one_says_it() -> None:
    change = changes.of(TEXT, Taught("Greet late.\nWhen: a greeting"))
    assert change.text == f"{TEXT}- L10 +0 -0 Greet late. | when: a greeting\n"
    change = changes.of(TEXT, Taught("Run make db before any tests."))
    assert (change.new, change.votes) == ((), (Vote("L3", True, "learned again"),))
    used = Taught("Run make db before any tests.", told=TOLD, used=["L3"])
    assert counts(changes.of(TEXT, used).text)["L3"] == (3, 0), "one vote"
    change = changes.of(TEXT, Taught("Use tabs, everywhere"))
    assert change.text == TEXT
    again = changes.of(TEXT, Taught("Run `make db` before the tests."))
    assert again == changes.Change(TEXT), "word for word it is no evidence"
    result = changes.of("", Taught("It took 3 ms.\nWhen: speed", experiment="Try it"))
    assert result.text == "## Learnings\n\n- L1 +0 -0 Try it: It took 3 ms. | when: speed\n"


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_votes_and_entries_of_a_commit_reach_a_file_that_was_edited(ends: str) -> None:
    taught = Taught("Greet late.", told=TOLD, used=["L3", "L1"])
    new = changes.of(TEXT, taught).text
    mine = f"{TEXT}- L10 +0 -0 Mine.\n".replace("\n", ends).replace("below 1024", "below 80")
    text = changes.merged(mine, TEXT, new)
    assert text == mine.replace("+2 -0", "+3 -0") + f"- L11 +0 -0 Greet late.{ends}"
    assert changes.merged(text, TEXT, new) == text, "twice is once"
    gone = TEXT.replace("- Ports below 1024 are taken in CI.\n", "")
    assert "Ports" not in changes.merged(gone, TEXT, new), "a person took it out"


def test_what_two_workers_wrote_is_told_apart_and_the_same_words_stand_once() -> None:
    one = changes.of(TEXT, Taught("Greet late.\nWarm the cache.", told=TOLD, used=["L3"]))
    other = changes.of(TEXT, Taught("Warm the cache!\nBe kind.", told=TOLD, misled=["L3"]))
    text = changes.merged(TEXT, TEXT, one.text)
    text = changes.merged(text, TEXT, other.text)
    ids = {entry.text: entry.id for entry in parse(text).entries}
    assert counts(text)["L3"] == (3, 1)
    assert [ids[said] for said in ("Greet late.", "Warm the cache.", "Be kind.")] == [
        *("L10", "L11", "L12")
    ]
    assert not parse(text).faults and len(ids) == 6
