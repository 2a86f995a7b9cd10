"""`kern learn --tidy`: one agent reads, a person is shown what it would change in LEARNINGS.md."""

from pathlib import Path

import pytest

from tests.conftest import Fake, Git, commit_all
from tests.kit.terminal import on_terminal

LEARNINGS = """\
# Learnings

## Learnings

- L1 +0 -0 The help text is tested word for word.
- L2 +1 -0 Build an index on orders concurrently.
"""
CHANGES = """I read it.

## Changes
- L1 +0 -0 The help text is tested word for word. | retired: the test is gone
- State is kept in SQLite: users back up one file.

CHANGES"""


@pytest.fixture(autouse=True)
def learned(repo: Path, git: Git) -> None:
    (repo / "LEARNINGS.md").write_text(LEARNINGS)
    asked = "  > **Question:** Postgres?\n  > **Answer:** SQLite, as everywhere\n"
    (repo / "SPEC.md").write_text(f"- [x] Store the users\n{asked}- [ ] Show them\n")
    commit_all(git, "learned")


def text(repo: Path) -> str:
    return (repo / "LEARNINGS.md").read_text()


def test_what_changed_while_it_was_shown_is_not_written_over(repo: Path, fake: Fake) -> None:
    fake.script(planner=[{"result": CHANGES}])
    mine = LEARNINGS + "- Written meanwhile.\n"
    code, said = on_terminal(
        *("learn", "--tidy"),
        cwd=repo,
        typed="y\n",
        at="[y/N]",
        then=lambda: (repo / "LEARNINGS.md").write_text(mine),
    )
    assert code == 1
    assert "the file has changed since" in said
    assert text(repo) == mine
