"""LEARNINGS.md as entries: what is read of it, whatever stands there, and what kern writes."""

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kern.memory import entries
from kern.memory.entries import Entry, Kind, parse

TWO = """# Learnings

What later tasks need to know and cannot see from the code. kern appends entries; edit them freely.

## 2026-11-22 - Add a --version flag

tests/conftest.py unsets HOME.

<!-- kern: id=L7 kind=sign helpful=3 harmful=1 commit=8cf7b5f -->

## By hand

Ports below 1024 are taken in CI.
"""


def ids(text: str) -> list[str]:
    return [entry.id for entry in parse(text)]


@pytest.mark.parametrize(
    ("helpful", "harmful", "score"),
    [(0, 0, 0.50), (1, 0, 0.67), (5, 0, 0.86), (16, 0, 0.94), (1, 2, 0.40)],
)
def test_the_score_is_the_mean_after_the_votes(helpful: int, harmful: int, score: float) -> None:
    assert round(Entry("", "", "", "", 1, "", helpful=helpful, harmful=harmful).score, 2) == score


def test_entries_with_and_without_a_comment_are_read() -> None:
    first, second = parse(TWO)
    assert (first.id, first.kind, first.votes) == ("L7", Kind.SIGN, "3 helpful, 1 harmful")
    assert (first.date, first.title, first.task) == ("2026-11-22", *["Add a --version flag"] * 2)
    assert (first.text, first.commit) == ("tests/conftest.py unsets HOME.", "8cf7b5f")
    assert (second.id, second.title, second.date) == ("L1", "By hand", "")
    assert (second.noted, second.score, second.line) == (False, 0.5, 11)
    assert TWO.count(first.raw) == TWO.count(second.raw) == 1
    assert entries.faults([first, second]) == []


def test_what_kern_init_writes_holds_no_entry() -> None:
    example = Path(__file__).parents[2] / "LEARNINGS.example.md"
    assert parse(example.read_text()) == []
    assert [entry.id for entry in parse("# Notes\n\nUse tabs.\n\n## A\n\nb\n")] == ["L0", "L1"]
    assert parse("") == parse("\n\n") == parse("# Learnings\n") == []


def test_headings_in_code_and_comments_begin_no_entry() -> None:
    text = "## A\n\n```\n## no\n```\n<!--\n## no\n-->\n\n~~~~\n## no\n~~~\n~~~~\n## B\n\nb\n"
    assert [entry.title for entry in parse(text)] == ["A", "B"]


@pytest.mark.parametrize("opened", ["```", "~~~~~", "<!-- never closed", "<!-- kern: id=L3"])
def test_what_is_never_closed_swallows_nothing(opened: str) -> None:
    assert [one.title for one in parse(f"## A\n\n{opened}\n\n## B\n\nb\n")] == ["A", "B"]


@pytest.mark.parametrize(
    ("comment", "votes"),
    [
        ("<!-- kern: id=L3 helpful=x harmful=2 -->", "0 helpful, 2 harmful"),
        ("<!-- kern: id=L3 helpful=4", "4 helpful, 0 harmful"),
        ("<!-- kern: helpful=4 -->", "4 helpful, 0 harmful"),
        ("<!-- kern: id=L3 ??? helpful=4 -->", "4 helpful, 0 harmful"),
        ("<!-- kern: -->", "0 helpful, 0 harmful"),
        ("<!-- kern: id=L3 helpful=99999999999999 -->", "0 helpful, 0 harmful"),
    ],
)
def test_a_damaged_comment_is_said_and_never_rewritten(comment: str, votes: str) -> None:
    (entry,) = parse(f"## A\n\nb\n\n{comment}\n")
    assert entry.votes == votes
    assert entries.faults([entry]) == [
        "line 5: a damaged comment of kern's, read as far as it goes"
    ]
    new = entries.renoted(replace(entry, helpful=9))
    assert comment in new
    (again,) = parse(new)
    assert (again.helpful, again.id) == (9, entry.id)


def test_an_unfinished_merge_counts_both_sides_and_is_said() -> None:
    mine = "<!-- kern: id=L2 kind=pattern helpful=2 harmful=0 -->"
    theirs = "<!-- kern: id=L2 kind=pattern helpful=1 harmful=3 -->"
    text = f"## A\n\nb\n\n<<<<<<< HEAD\n{mine}\n=======\n{theirs}\n>>>>>>> other\n\n## C\n\nd\n"
    first, second = parse(text)
    assert (first.id, first.votes, first.text) == ("L2", "2 helpful, 3 harmful", "b")
    assert (second.id, second.text) == ("L1", "d")
    assert entries.faults([first]) == ["line 5: an unfinished merge; both sides count"]
    assert "=======" in parse("## A\n\nb\n=======\n")[0].text  # an underline, not a merge


def test_two_entries_of_one_id_stay_two_and_that_is_said() -> None:
    note = "<!-- kern: id=L1 kind=insight helpful=1 harmful=0 -->"
    text = f"## A\n\na\n\n{note}\n\n## B\n\nb\n\n{note}\n\n## C\n\nc\n"
    assert ids(text) == ["L1", "L2", "L3"]
    assert entries.faults(parse(text)) == [
        "line 7: L1 stands for two entries; this is the later one"
    ]
    voted = entries.swapped(text, parse(text)[1].raw, entries.renoted(parse(text)[1]))
    assert ids(voted) == ["L1", "L2", "L3"]
    assert entries.faults(parse(voted)) == []
    twice = f"## A\n\na\n\n{note}\n\n## A\n\na\n\n{note.replace('l=1', 'l=5')}\n"
    (one,) = parse(twice)
    assert one.helpful == 5
    assert "a second time" in one.faults[0]


def test_nothing_in_a_comment_ends_it_or_begins_another() -> None:
    (entry,) = parse("## A\n\nb\n")
    note = entries.comment(replace(entry, when="a ---> b <!--- c --> d"))
    assert (note.count("-->"), note.count("<!--")) == (1, 1)


def test_a_comment_is_written_once_and_keeps_what_it_does_not_know() -> None:
    by_hand = parse(TWO)[1]
    new = entries.renoted(replace(by_hand, helpful=1, kind=Kind.PATTERN))
    assert new == by_hand.raw + "\n\n<!-- kern: id=L1 kind=pattern helpful=1 harmful=0 -->"
    text = entries.swapped(TWO, by_hand.raw, new)
    assert text.startswith(TWO.rstrip())
    assert parse(text)[1].helpful == 1
    assert entries.swapped(text, new, by_hand.raw) == TWO
    (known,) = parse('## A\n\nb\n\n<!-- kern: id=L4 mood="so so" -->\n')
    assert entries.renoted(replace(known, harmful=1)).endswith(
        '<!-- kern: id=L4 kind=insight helpful=0 harmful=1 mood="so so" -->'
    )


def test_line_ends_stay_as_they_are() -> None:
    text = "## A\r\n\r\nb\r\n\r\n## C\r\n\r\nd\r\n"
    for entry in parse(text):
        text = entries.swapped(text, entry.raw, entries.renoted(replace(entry, helpful=1)))
    assert "\n" not in text.replace("\r\n", "")
    assert [entry.helpful for entry in parse(text)] == [1, 1]


@pytest.mark.parametrize(
    "task", ['a "b" --> c', "<!-- x -->", "two\nlines", "x" * 500, "\x1b[31mred", "", "id=L9"]
)
def test_no_task_text_breaks_the_comment(task: str) -> None:
    (entry,) = parse("## A\n\nb\n")
    written = replace(entry, task=task, retired=task, commit="8cf7b5f")
    (again,) = parse(entries.renoted(written))
    assert (again.id, again.faults, again.text) == ("L1", (), "b")


def test_a_proven_harmful_or_retired_entry_is_unwanted() -> None:
    (entry,) = parse("## A\n\nb\n")
    assert not entry.unwanted
    assert not replace(entry, harmful=1).unwanted
    assert not replace(entry, helpful=2, harmful=2).unwanted
    assert replace(entry, helpful=1, harmful=2).unwanted == "harmful: 1 helpful, 2 harmful"
    assert replace(entry, retired="old").unwanted == "retired: old"


def test_whatever_stands_there_is_read_and_an_edit_keeps_the_rest() -> None:
    pieces = [
        *("## A", "## 2026-01-01 - B", "```", "~~~", "<!--", "-->", "<<<<<<< x", "=======", ""),
        *(">>>>>>> y", "<!-- kern: id=L1 helpful=1 -->", "<!-- kern: id=L2", "\x00\udcff", "text"),
        *("<!-- kern: id=L0 -->", "# T", "##", "##  ", "\u2028", "## A\r", "<!-- kern: id=L1 -->"),
    ]
    dice = random.Random(7)
    for _ in range(600):
        text = "\n".join(dice.choices(pieces, k=dice.randrange(14)))
        found = parse(text)
        assert len({entry.id for entry in found}) == len(found), text
        for entry in found:
            assert entry.raw in text
            if entry.id == "L0":
                continue
            new = entries.swapped(text, entry.raw, entries.renoted(replace(entry, helpful=77)))
            assert lost(text, new) <= 1, (text, new)
            assert 77 in [one.helpful for one in parse(new)], (text, new)


def lost(old: str, new: str) -> int:
    """How many lines of the one are not in the other: a comment may be replaced."""
    there = new.replace("\r", "").split("\n")
    return sum(line not in there for line in old.replace("\r", "").split("\n"))


def test_large_files_and_long_lines_are_read_in_time() -> None:
    began = time.perf_counter()
    assert len(parse("## A\n\n" + "x" * 1_000_000 + "\n\n## B\n\n" + "`" * 1_000_000)) == 2
    many = "".join(f"## 2026-01-01 - Topic {n}\n\n{'word ' * 80}\n\n" for n in range(20_000))
    assert len(parse(many)) == 20_000
    hostile = "".join(f"{'`' * (3 + n % 50)}\n<!--\n" for n in range(20_000))
    assert len(parse("## A\n" + hostile)) == 1
    assert time.perf_counter() - began < 20  # it takes one


def test_entry_is_a_value() -> None:
    assert Entry("L1", "a", "", "b", 1, "## a\n\nb") == parse("## a\n\nb")[0]


def test_two_branches_that_both_learned_are_read_whole() -> None:
    """As git leaves a file to whose end both have added."""
    mine = "## B\n\nb\n\n<!-- kern: id=L2 kind=sign helpful=1 harmful=0 -->"
    theirs = "## C\n\nc\n\n<!-- kern: id=L2 kind=sign helpful=0 harmful=1 -->"
    text = f"## A\n\na\n\n<<<<<<< HEAD\n{mine}\n=======\n{theirs}\n>>>>>>> other\n"
    found = parse(text)
    assert [(one.id, one.title, one.text) for one in found] == [
        ("L1", "A", "a"),
        ("L2", "B", "b"),
        ("L3", "C", "c"),
    ]
    assert (found[1].helpful, found[2].harmful) == (1, 1)
    assert len(entries.faults(found)) == 4  # three places of the merge, one number for two
