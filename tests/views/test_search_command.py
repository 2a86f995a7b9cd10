"""`kern search`: where a project says something about a question."""

import json
import subprocess
from pathlib import Path

import pytest

from kern.memory import vectors
from tests.conftest import Kern

LEARNED = """# Learnings

## 2026-11-01 - Uploads

Retry an upload three times; the server drops connections.

<!-- kern: id=L7 kind=sign helpful=2 harmful=0 -->
"""
SPEC = """# Spec

- [x] Keep invoices for ten years
  > **Research:**
  >   - Files: billing.py:1-40, where an upload ends
  > **Attempt 1:** gate check is red: no such table (kept: kern/attempts/x/1)
- [ ] Something else
"""


@pytest.fixture
def project(repo: Path) -> Path:
    (repo / "LEARNINGS.md").write_text(LEARNED)
    (repo / "SPEC.md").write_text(SPEC)
    (repo / "docs").mkdir()
    (repo / "docs/guide.md").write_text("# Guide\n\n## Network\n\nA broken upload is repeated.\n")
    (repo / "docs/built.md").write_text("an upload that git ignores\n")
    (repo / ".gitignore").write_text("built.md\n")
    return repo


def test_learnings_and_tasks_are_searched(project: Path, kern: Kern) -> None:
    ran = kern("search", "uploads", "--fts")
    assert (ran.code, ran.err) == (0, "")
    first = [line for line in ran.out.splitlines() if line and line[0] != " "]
    assert sorted(line.rpartition("  ")[0] for line in first) == [
        "LEARNINGS.md:3-7  L7 sign",
        "SPEC.md:4-5  research",
    ]
    assert "    Retry an upload three times; the server drops connections.\n" in ran.out
    assert "two hundred" not in kern("search", "uploads", "--fts").out
    (project / "LEARNINGS.md").write_text(LEARNED.replace("three", "two hundred"))
    assert "two hundred" in kern("search", "uploads", "--fts").out


def test_json_has_the_neighbours_and_kinds_bound_it(project: Path, kern: Kern) -> None:
    (found,) = json.loads(
        kern("search", "table", "--kind", "attempt", "--kind", "sign", "--fts", "--json").out
    )
    assert (found["path"], found["first"], found["last"]) == ("SPEC.md", 6, 6)
    assert (found["kind"], found["id"]) == ("attempt", None)
    assert found["heading"] == "Keep invoices for ten years"
    assert "upload ends" in found["before"] and found["after"] == "Something else"
    assert 0 < found["relevance"] <= 1
    many = json.loads(kern("search", "upload invoices else", "--fts", "--json", "--limit", "2").out)
    assert len(many) == 2


def test_meaning_is_searched_where_it_can_be(project: Path, kern: Kern) -> None:
    ran = kern("search", "network outage while sending files", "--semantic", "--limit", "1")
    if vectors.load() is None:
        assert ran.code == 2 and "KERN_EXTRAS=semantic kern --update" in ran.err
        pytest.skip("the rest needs kern[semantic]")
    assert ran.out.startswith("LEARNINGS.md:3-7  L7 sign")
    assert kern("search", "invoices").out == kern("search", "invoices", "--hybrid").out


def test_finished_tasks_that_spec_md_lost_are_still_found(
    project: Path, kern: Kern, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERN_DIR", str(tmp_path / "kern"))
    walk = tmp_path / "kern/project/main/history/20261101T100000Z-old"
    walk.mkdir(parents=True, mode=0o700)
    for folder in walk.parents:
        if folder.is_relative_to(tmp_path / "kern"):
            folder.chmod(0o700)
    said = {"result": "- Files: zebra.py:1-9\n\nREADY", "kern": {"task": "Old task"}}
    (walk / "stage1.json").write_text(json.dumps(said))
    (walk / "attempt1.json").write_text(json.dumps({**said, "result": "zebra did not do"}))
    (walk / "attempt2.json").write_text("torn {")
    out = kern("search", "zebra", "--fts").out
    assert f"{walk}/stage1.json:1  research" in out
    assert f"{walk}/attempt1.json:1  attempt" in out


def test_a_damaged_index_is_said_and_made_again(project: Path, kern: Kern) -> None:
    sound = kern("search", "uploads", "--fts").out
    place = project / ".git/kern/search.sqlite"
    place.write_bytes(b"junk" * 1000)
    ran = kern("search", "uploads", "--fts")
    assert (ran.code, ran.out) == (0, sound)
    assert ran.err == f"kern: {place} was damaged, and was made again\n"
    place.unlink()
    place.mkdir()
    ran = kern("search", "uploads", "--fts")
    assert (ran.code, ran.out) == (0, sound)
    assert "cannot be used" in ran.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((" ",), "nothing to search for"),
        (("x", "--kind", "sin"), "no such kind: sin"),
        (("x", "--limit", "0"), "--limit must be 1 or more"),
        (("x", "--fts", "--hybrid"), "exclude each other"),
    ],
)
def test_what_cannot_be_meant_is_said(
    project: Path, kern: Kern, argv: tuple[str, ...], said: str
) -> None:
    ran = kern("search", *argv)
    assert (ran.code, ran.out) == (2, "") and said in ran.err and "hint: " in ran.err


def test_an_empty_repository_has_nothing_to_find(tmp_path: Path, kern: Kern) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "project")], check=True)
    ran = kern("search", "anything", "--fts")
    assert (ran.code, ran.out, ran.err) == (0, "nothing found in 0 texts\n", "")
