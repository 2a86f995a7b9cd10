"""Which learnings a stage is told: where all fit, where they are searched, and what it leaves."""

import os
import re
import subprocess
import sys
from pathlib import Path

from kern.git import repository
from kern.memory.entries import parse
from kern.memory.index import FILE
from kern.memory.select import Selection, cost
from kern.stages import recall
from tests.conftest import Git, Kern
from tests.test_house import TOP

TOPICS = {
    "Uploads": "Retry an upload with the same key: the bucket answers twice and bills twice.",
    "Uploads again": "The upload bucket is only reachable through the proxy of the build machine.",
    "Dates": "Store each date in UTC and format it in the browser of the reader.",
    "Mail": "Mail is sent by a queue worker; a test that waits for it must drain the queue.",
}


def text_of(topics: dict[str, str], others: int = 80) -> str:
    entries = "".join(f"\n## {title}\n\n{text}\n" for title, text in topics.items())
    rest = (f"\n## Matter {n}\n\nPiece {n} of lint{n} is cut by saw{n}.\n" for n in range(others))
    return f"# Learnings\n{''.join(rest)}{entries}"


def told(repo: Path, text: str, query: str, budget: int = 400, **how: bool) -> Selection:
    found = repository.open_at(repo)
    return recall.told(found, parse(text), text.encode(), query, budget, **how)


def titles(found: Selection) -> list[str]:
    return [one.entry.title for one in found.chosen]


def test_where_all_fit_nobody_searches(repo: Path) -> None:
    text = text_of(TOPICS, others=0)
    found = told(repo, text, "make the upload retry")
    assert titles(found) == [*TOPICS]
    assert not (repo / ".git" / "kern" / FILE).exists()


def test_where_they_do_not_the_relevant_are_told_and_the_rest_is_counted(repo: Path) -> None:
    text = text_of(TOPICS)
    found = told(repo, text, "make the upload retry when the bucket is slow")
    assert set(titles(found)[:2]) == {"Uploads", "Uploads again"}
    assert "Dates" not in titles(found) and found.tokens <= 400
    assert found.remark == ""
    assert (repo / ".git" / "kern" / FILE).exists()
    assert told(repo, text, "quantum gardening").chosen == ()
    room = cost(found.chosen[0].entry)
    assert len(told(repo, text, "make the upload retry", room).chosen) == 1


def test_a_look_leaves_no_index_and_one_that_cannot_be_used_is_worked_around(repo: Path) -> None:
    text = text_of(TOPICS)
    place = repo / ".git" / "kern" / FILE
    assert titles(told(repo, text, "upload retry", reading=True))[0] == "Uploads"
    assert not place.exists()
    place.mkdir(parents=True)
    found = told(repo, text, "upload retry")
    assert titles(found)[0] == "Uploads"
    assert "cannot be used" in found.remark


def test_one_text_without_headings_is_cut_and_not_left_out(repo: Path) -> None:
    found = told(repo, "Use tabs. " * 1000, "anything")
    assert [one.why for one in found.chosen] == ["the only one, cut"]


def test_only_what_the_repository_had_is_gone(repo: Path, git: Git) -> None:
    (repo / "src").mkdir()
    (repo / "src" / "here.py").write_text("")
    (repo / ".gitignore").write_text("src/made/\n")
    (repo / "linked").symlink_to("src")
    named = ("src/here.py", "src/gone.py", "src/made/x.js", "theirs/a.py", "linked/gone.py")
    text = "".join(f"\n## {path}\n\nLook at `{path}` first.\n" for path in named)
    entries = parse(text)
    lost = recall.gone(repository.open_at(repo), entries[:4])
    assert lost == {"L2": "src/gone.py"}
    assert isinstance(recall.gone(repository.open_at(repo), entries), dict)


def test_a_look_at_ten_learnings_loads_no_database(repo: Path, kern: Kern) -> None:
    (repo / "LEARNINGS.md").write_text(text_of(TOPICS, others=6))

    def loaded(*argv: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "kern", *argv],
            cwd=repo,
            env={**os.environ, "PYTHONPATH": str(TOP)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert "Uploads" in done.stdout or "-nv" not in argv
        return set(re.findall(r"^import time:.*\| +([\w.]+)$", done.stderr, re.M))

    assert not loaded("-nv") & {"sqlite3", "kern.memory.index", "numpy"}
    assert not {one for one in loaded("--help") if one.startswith("kern.memory")}
