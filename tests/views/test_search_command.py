"""`kern search`: where a project says something about a question."""

import json
from pathlib import Path

import pytest

from tests.conftest import Kern

LEARNED = "# Learnings\n\n- L7 +2 -0 Retry an upload thrice; the server drops connections.\n"
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
    return repo


def test_learnings_tasks_and_their_notes_are_searched(project: Path, kern: Kern) -> None:
    ran = kern("search", "uploads", "fail")
    assert (ran.code, ran.err) == (0, "")
    first = {line for line in ran.out.splitlines() if line[0] != " "}
    assert {
        "LEARNINGS.md:3  learning L7",
        "SPEC.md:4  research Keep invoices for ten years",
    } <= first
    assert "    Retry an upload thrice; the server drops connections.\n" in ran.out
    (found,) = json.loads(kern("search", "table", "--json", "--limit", "1").out)
    assert found == {
        "place": "SPEC.md:6",
        "kind": "attempt",
        "about": "Keep invoices for ten years",
        "text": "gate check is red: no such table (kept: kern/attempts/x/1)",
    }


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
    out = kern("search", "zebra").out
    assert f"{walk}/stage1.json  research Old task" in out
    assert f"{walk}/attempt1.json  attempt Old task" in out
