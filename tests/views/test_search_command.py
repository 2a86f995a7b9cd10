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
