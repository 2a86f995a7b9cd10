"""LEARNINGS.md as entries: what is read of it, whatever stands there, and what kern writes."""

from pathlib import Path

import pytest

from kern.memory.entries import Entry, appended, counted, parse, written

TEXT = """# Learnings

## Learnings

- L7 +3 -1 tests/conftest.py unsets HOME. | when: a new option; login
- Ports below 1024 are taken in CI.
<!-- of mine -->
- L9 +0 -0 Call the old parser. | when: XML | retired: it is gone
"""
EARLIER = """# Learnings

What later tasks need to know and cannot see from the code. kern appends entries; edit them freely.

## 2026-11-22 - Add a --version flag

tests/conftest.py
unsets HOME.

<!-- kern: id=L7 kind=sign helpful=3 harmful=1 commit=8cf7b5f when="login" -->

## Ports below 1024 are…

Ports below 1024 are taken.
"""


@pytest.mark.parametrize(
    ("helpful", "harmful", "score", "wanted"),
    [(0, 0, 0.50, 1), (1, 0, 0.67, 1), (5, 0, 0.86, 1), (0, 1, 0.33, 1), (1, 2, 0.40, 0)],
)
def test_the_votes_say_what_an_entry_is_worth(
    helpful: int, harmful: int, score: float, wanted: int
) -> None:
    entry = Entry("L1", "x", helpful, harmful)
    assert round(entry.score, 2) == score and bool(entry.unwanted) is not bool(wanted)


def test_a_line_is_an_entry_with_and_without_a_number() -> None:
    first, second, third = parse(TEXT).entries
    assert first == Entry("L7", "tests/conftest.py unsets HOME.", 3, 1, when="a new option; login")
    assert second == Entry("L1", "Ports below 1024 are taken in CI.")
    assert (third.when, third.unwanted) == ("XML", "retired: it is gone")
    assert parse(TEXT).faults == ()
    assert first.line in TEXT and third.line in TEXT
    assert parse("# Notes\n\n- Use tabs.\n").entries == (Entry("L1", "Use tabs."),)


def test_what_kern_init_writes_holds_no_entry() -> None:
    example = (Path(__file__).parents[2] / "LEARNINGS.example.md").read_text()
    for text in (example, "", "\n\n", "# Learnings\n"):
        assert parse(text) == ((), ())
    assert appended(example, [Entry("L1", "Use tabs.")]) == f"{example}\n- L1 +0 -0 Use tabs.\n"


def test_what_an_earlier_kern_wrote_is_read_whole() -> None:
    first, second = parse(EARLIER).entries
    text = "Add a --version flag: tests/conftest.py unsets HOME."
    assert first == Entry("L7", text, 3, 1, when="login")
    assert second == Entry("L1", "Ports below 1024 are taken.")
    assert counted(EARLIER, {"L7": (4, 1)}) == EARLIER
    found = written(EARLIER, parse(EARLIER).entries)
    assert parse(found) == (parse(EARLIER).entries, ())
    assert found.startswith("# Learnings\n\nWhat later tasks need") and found.count("## ") == 1


def test_a_file_is_written_anew_with_each_entry_once_and_what_stands_above_them() -> None:
    example = (Path(__file__).parents[2] / "LEARNINGS.example.md").read_text()
    for top in ("", "# Mine\n\n<!-- x -->\n", example, f"{example}\n"):
        text = f"{top}- a b\n- c d\n"
        new = written(text, parse(text).entries)
        assert parse(new) == (parse(text).entries, ()) and new.startswith(top.rstrip())
        assert written(new, parse(new).entries) == new


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("- L3 +x -0 Use tabs.", "line 3 is no entry, and not read: - L3 +x -0 Use tabs."),
        ("<<<<<<< HEAD", "line 3 is no entry, and not read: <<<<<<< HEAD"),
        ("of no use", "line 3 is no entry, and not read: of no use"),
        ("- " + "x" * 1_000_000, "line 3 is no entry, and not read: - xx"),
        ("- L8 +0 -0 Greet late.", "line 4: L8 stands there a second time"),
        ("- L8 +0 -0 Use tabs.", "line 4: L8 stands there a second time"),
    ],
)
def test_damage_is_a_line_that_is_not_read_and_is_said(line: str, said: str) -> None:
    text = f"## Learnings\n\n{line}\n- L8 +1 -0 Greet late.\n"
    found = parse(text)
    assert [one.text for one in found.entries][-1:] == ["Greet late."]
    (fault,) = found.faults
    assert fault.startswith(said)
    late = found.entries[-1]
    line = line.replace("+0 -0 Greet", "+5 -0 Greet")  # the first of twins
    assert counted(text, {late.id: (5, late.harmful)}).startswith(f"## Learnings\n\n{line}\n")


def test_both_sides_of_half_a_merge_count() -> None:
    torn = "<<<<<<< HEAD\n- L2 +1 -0 One.\n=======\n- L2 +0 -1 Two.\n>>>>>>> other\n"
    found = parse(f"## Learnings\n\n- L1 +0 -0 Zero.\n{torn}")
    assert [(one.id, one.text) for one in found.entries] == [
        *(("L1", "Zero."), ("L2", "One."), ("L3", "Two."))
    ]
    assert len(found.faults) == 4  # three lines of git's, and one number for two


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_votes_and_new_entries_leave_every_other_byte_as_it_was(ends: str) -> None:
    text = TEXT.replace("\n", ends)
    first = parse(text).entries[0]
    votes = {"L7": (3, 2), "L1": (1, 0)}
    new = text.replace("+3 -1", "+3 -2").replace("- Ports", "- L1 +1 -0 Ports")
    assert counted(text, votes) == new
    more = appended(text, [Entry("L10", "a\nb | c", when="x"), Entry("L11", "d")])
    assert more == f"{text}- L10 +0 -0 a b | c | when: x{ends}- L11 +0 -0 d{ends}"
    assert appended("a", [first]).startswith("a\n\n## Learnings\n\n- L7 +3")
    assert appended("## Learnings", [first]).startswith("## Learnings\n\n- L7 +3")
    assert appended(EARLIER, [first]) == f"{EARLIER}\n## Learnings\n\n{first.line}\n"
