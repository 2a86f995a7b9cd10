"""Whom a run tells of its end and of what needs help: the command, what it is given, what it may
not do.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kern.errors import Exit
from tests.conftest import BUSY, Fake, Git, Kern, survivors

NO_TASK = {"result": "NO_TASK: there is nothing to do"}
KEEP = 'cat >> "$FAKE_CLAUDE/told"; env > "$FAKE_CLAUDE/env"; pwd > "$FAKE_CLAUDE/cwd"'


def setting(command: str, rest: str = "") -> None:
    """In the person's own file."""
    own = Path.home() / ".config" / "kern" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    rest += own.read_text() if own.exists() else ""
    own.write_text(f"notify = {json.dumps(command)}\n{rest}")


def told(fake: Fake) -> list[dict[str, Any]]:
    place = fake.folder / "told"
    return [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []


# ---------------------------------------------------------------- what is told


def test_the_end_of_a_run_and_each_task_that_needs_help_are_told(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    setting(KEEP)
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] and “another”\n")
    git("commit", "--quiet", "--all", "--message=two tasks")
    ready = {"result": "- Files: a.txt:1\n\nREADY"}
    fake.script(research=[ready, NO_TASK], commit=[{"result": "do the task", "fields": {}}])
    ran = kern("2", "0", env={"KERN_SECRET": "x"})
    assert ran.code == Exit.HELP_NEEDED, ran.err
    needs, ended = told(fake)
    run = json.loads((repo / ".git/kern/events.jsonl").read_text().splitlines()[0])["run"]
    where = {"root": str(repo), "branch": "main", "run": run}
    why = {"task": "and “another”", "why": needs["why"]}
    assert needs == {"event": "needs-help", **where, **why, "outcome": "skipped"}
    assert "there is nothing to do" in needs["why"]
    assert (ended["event"], ended["exit"], ended["needs_help"]) == ("run-ended", 1, [why])
    assert (fake.folder / "cwd").read_text().strip() == str(repo)
    names = [line.partition("=")[0] for line in (fake.folder / "env").read_text().splitlines()]
    # The variables by which what the command leaves behind is found.
    assert {n for n in names if n.startswith("KERN_")} == {"KERN_RUN_ID", "KERN_CHILD"}
    assert git("status", "--porcelain") == " M SPEC.md"


# ---------------------------------------------------------------- what cannot harm


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exit 3", "exit 3"),
        ("head -c 3000000 /dev/zero", "it printed too much"),
        ("printf '\\033[2J\\377'; exit 1", "exit 1"),
        ("exec <&-; exit 0", ""),
        ("setsid sh -c 'echo $$ >> \"$FAKE_CLAUDE/pids\"; exec sleep 300' & sleep 0.3", ""),
        (
            'trap "" INT TERM; echo $$ >> "$FAKE_CLAUDE/pids"; while :; do sleep 1; done',
            "not done after 2 s",
        ),
    ],
)
def test_whatever_the_command_does_the_run_goes_on(
    repo: Path, git: Git, fake: Fake, kern: Kern, command: str, why: str
) -> None:
    setting(command)
    began = time.monotonic()
    ran = kern("1", "0")
    assert ran.code == Exit.OK, ran.err
    assert time.monotonic() - began < 20 * BUSY
    warned = [line for line in ran.err.splitlines() if "warning: nobody was notified" in line]
    assert len(warned) == bool(why)
    assert why in "".join(warned)
    assert "\033" not in ran.said
    assert not survivors(fake.folder / "pids")
    assert git("log", "--format=%s", "-1") == "do the task"
