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


def test_a_note_is_found_with_its_line(project: Path, kern: Kern) -> None:
    found = json.loads(kern("search", "uploads", "ends", "--json").out)[:2]
    assert [one["place"] for one in found] == ["SPEC.md:4", "LEARNINGS.md:3"]


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
