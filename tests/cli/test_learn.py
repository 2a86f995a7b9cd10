"""`kern learn` and `kern recall`: what a person reads and writes of the learnings."""

import json
from pathlib import Path

import pytest

from tests.conftest import Git, Kern

TEXT = """# Learnings

## 2026-01-01 - Database

Run `make db` before the tests, or every table is missing.

<!-- kern: id=L4 kind=pattern helpful=5 harmful=0 -->

## Ports

Ports below 1024 are taken on the build machine.

## Lost

`src/gone.py` holds the table of names.
"""


@pytest.fixture(autouse=True)
def learned(repo: Path, git: Git) -> Path:
    (repo / "src").mkdir()
    (repo / "src" / "a.py").write_text("x = 1\n")
    (repo / "LEARNINGS.md").write_text(TEXT)
    git("add", "--all")
    git("commit", "--quiet", "--message=learned")
    return repo / "LEARNINGS.md"


def test_entries_are_listed_and_shown(kern: Kern) -> None:
    first, second, third = kern("learn", "list").out.splitlines()
    assert first.split()[:3] == ["L4", "0.86", "pattern"]
    assert second.startswith("L1    0.50  insight   Ports below")
    assert "  [names src/gone.py, which is gone] `src/" in third
    assert all(len(line) <= 80 for line in (first, second, third))
    shown = kern("learn", "show", "4").out
    assert "pattern, score 0.86 (5 helpful, 0 harmful)" in shown
    found = json.loads(kern("learn", "list", "--json").out)
    assert [one["id"] for one in found["entries"]] == ["L4", "L1", "L2"]
    assert json.loads(kern("learn", "show", "L2", "--json").out)["unwanted"].startswith("names src")


def test_a_text_becomes_an_entry_once(learned: Path, kern: Kern) -> None:
    ran = kern("learn", "Never edit src/gen by hand.", "--kind", "decision")
    assert ran.code == 0 and ran.out == "L5 in LEARNINGS.md; review it and commit it\n"
    text = learned.read_text()
    assert text.startswith(TEXT)
    assert text.endswith("<!-- kern: id=L5 kind=decision helpful=0 harmful=0 -->\n")
    shown = kern("learn", "show", "L5", "--json").out
    assert json.loads(shown)["when"] is None
    again = kern("learn", "Never edit src/gen by hand!")
    assert again.code == 2 and "L5 says so already" in again.err
    assert "kern learn vote L5 --helpful" in again.err
    assert learned.read_text() == text


def test_a_text_names_the_work_that_needs_it(learned: Path, kern: Kern) -> None:
    ran = kern("learn", "Money is in cents.", "--when", "prices; a discount.")
    assert ran.code == 0, ran.err
    last = '<!-- kern: id=L5 kind=insight helpful=0 harmful=0 when="prices; a discount" -->\n'
    assert learned.read_text().endswith(f"Money is in cents.\n\n{last}")
    assert "needed for: prices; a discount" in kern("learn", "show", "L5").out
    kern("learn", "vote", "L5", "--helpful")
    assert learned.read_text().endswith(last.replace("helpful=0", "helpful=1"))
    assert (
        "Money is in cents."
        in kern("recall", "take a tenth off what customers pay: a discount").out
    )


def test_a_vote_and_a_retirement_change_one_line(learned: Path, kern: Kern) -> None:
    assert kern("learn", "vote", "L1", "--helpful", "--why", "saved an hour").code == 0
    line = '<!-- kern: id=L1 kind=insight helpful=1 harmful=0 why="saved an hour" -->'
    assert learned.read_text() == TEXT.replace("machine.\n", f"machine.\n\n{line}\n")
    assert "said of it: saved an hour" in kern("learn", "show", "L1").out
    for said in (
        "L4: 5 helpful, 1 harmful, score 0.75\n",
        "L4: 5 helpful, 2 harmful, score 0.67\n",
    ):
        assert kern("learn", "vote", "L4", "--harmful").out == said
    assert kern("learn", "retire", "L4", "--why", "we left make").code == 0
    assert 'harmful=2 retired="we left make" -->' in learned.read_text()
    assert "told to no stage: retired: we left make" in kern("learn", "show", "L4").out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["vote", "L1"], "a vote is --helpful or --harmful"),
        (["vote", "L77", "--helpful"], "LEARNINGS.md has no entry L77"),
        (["show"], "show which entry?"),
        (["?!"], "an entry is a sentence"),
        (["x y", "--kind", "rumour"], "no such kind: rumour"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    learned: Path, kern: Kern, argv: list[str], said: str
) -> None:
    ran = kern("learn", *argv)
    assert ran.code == 2 and said in ran.err
    assert learned.read_text() == TEXT


def test_recall_shows_what_a_task_calls_for(learned: Path, kern: Kern) -> None:
    many = "".join(f"\n## Topic {n}\n\nWords of matter number {n}.\n" for n in range(30))
    learned.write_text(TEXT + many)
    ran = kern("recall", "tables are missing in the tests")
    assert ran.code == 0 and ran.out.startswith("L4  2026-01-01 Database\npattern, score 0.86")
    assert "relevance 0." in ran.out
    assert json.loads(kern("recall", "missing tables", "--json").out)[0]["id"] == "L4"
    assert kern("recall", "tables", "--kind", "sign").out.startswith("nothing in LEARNINGS.md")
    assert "src/gone.py" not in kern("recall", "the table of names").out


def test_recall_ranks_what_no_stage_would_be_told_below_what_one_would(
    learned: Path, kern: Kern
) -> None:
    query = "the tests miss every table on the machine that builds ports"
    assert "A stage is told all of LEARNINGS.md" in kern("recall", query).out
    many = "".join(f"\n## {n}\n\n{'Say it and say it again. ' * 30}{n}.\n" for n in range(30))
    learned.write_text(f"{TEXT}{many}\n## Far\n\nOther builds: {'words of it ' * 40}.\n")
    rows = json.loads(kern("recall", query, "--limit", "9", "--json").out)
    told = [row["told"] for row in rows]
    assert told == sorted(told, reverse=True) and {*told} == {True, False}
    shown = kern("recall", query, "--limit", "9").out
    above, _, below = shown.partition("\nBelow what a stage is told:\n")
    assert above.startswith("L4  ") and f"{rows[-1]['id']}  " in below
    assert "A stage is told all" not in shown
    assert len(json.loads(kern("recall", query, "--limit", "1", "--json").out)) == 1


@pytest.mark.parametrize("columns", [30, 40, 80])
def test_no_line_is_wider_than_the_terminal(
    columns: int, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for argv in (("learn", "list"), ("learn", "show", "L4"), ("recall", "tables of the tests")):
        lines = kern(*argv).out.splitlines()
        assert lines and max(map(len, lines)) <= columns, argv
