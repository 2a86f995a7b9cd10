"""Whom a run tells of its end and of what needs help: the command, what it is given, what it may
not do.
"""

import json
from pathlib import Path

import pytest

from kern.errors import Exit
from tests.conftest import Fake, Git, Kern, survivors


def setting(command: str, rest: str = "") -> None:
    """In the person's own file."""
    own = Path.home() / ".config" / "kern" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    rest += own.read_text() if own.exists() else ""
    own.write_text(f"notify = {json.dumps(command)}\n{rest}")


# ---------------------------------------------------------------- what cannot harm


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exit 3", "exit 3"),
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
    ran = kern("1", "0")
    assert ran.code == Exit.OK, ran.err
    warned = [line for line in ran.err.splitlines() if "warning: nobody was notified" in line]
    assert len(warned) == bool(why)
    assert why in "".join(warned)
    assert "\033" not in ran.said
    assert not survivors(fake.folder / "pids")
    assert git("log", "--format=%s", "-1") == "do the task"
