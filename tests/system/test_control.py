"""A run that is asked from another terminal to stop; real processes."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kern.errors import Exit
from tests.conftest import PATIENCE_S, Fake, Git, Kern, wait_for

Background = Callable[..., "subprocess.Popen[str]"]

GOOD = {"run": ["echo work >> work.txt"], "result": "did it\n\nSUCCESS"}


def place(repo: Path) -> Path:
    return repo / ".git" / "kern.request"


# ---------------------------------------------------------------- stop


@pytest.mark.parametrize("wait", ["delay", "limit", "retry"])
def test_a_stop_during_a_wait_ends_the_run_within_a_second(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background, wait: str
) -> None:
    tasks = ["add a greeting", "and another"][: 2 if wait == "delay" else 1]
    (repo / "SPEC.md").write_text("".join(f"- [ ] {task}\n" for task in tasks))
    git("commit", "--quiet", "--all", "--allow-empty", "--message=tasks")
    info = {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": time.time() + 3600}
    limited: Any = {
        "events": [{"type": "rate_limit_event", "rate_limit_info": info}],
        "result": "You've hit your session limit",
        "fields": {"is_error": True, "api_error_status": 429, "num_turns": 1},
        "exit": 1,
    }
    overloaded: Any = {
        "result": "529 Overloaded",
        "fields": {"is_error": True, "api_error_status": 529},
        "exit": 1,
    }
    good: Any = {"result": "- Files: a.txt:1\n\nREADY"}
    fake.script(research=[{"delay": good, "limit": limited, "retry": overloaded}[wait], good])
    began = {"delay": "next task in 3600 s", "limit": "usage limit", "retry": "again in"}[wait]
    first = background("2", "3600")
    assert first.stdout is not None
    assert any(began in line for line in first.stdout)
    asked = kern("stop")
    said = "".join(first.communicate(timeout=PATIENCE_S))
    assert asked.code == first.returncode == Exit.OK, said
    assert "asked to stop (kern stop): ends here" in said
    assert kern("2", "0").code == Exit.OK
    stages = ["research", "implement", "commit"] * len(tasks)
    assert fake.stages == (stages if wait == "delay" else ["research", *stages])


# ---------------------------------------------------------------- whom it reaches


def killed(repo: Path, fake: Fake, kern: Kern, background: Background) -> "subprocess.Popen[str]":
    """A run that was asked to stop, and killed before it could."""
    fake.script(implement=[{"sleep": 60, "result": "never"}, GOOD])
    first = background("1", "0")
    wait_for(lambda: "implement" in fake.stages)
    assert kern("stop").code == Exit.OK
    first.kill()
    first.wait()
    assert place(repo).exists()
    return first


def test_a_pid_that_another_process_has_by_now_is_never_signalled(
    repo: Path, fake: Fake, kern: Kern, background: Background
) -> None:
    killed(repo, fake, kern, background)
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    holder = repo / ".git" / "kern.holder"
    holder.write_text("\n".join([str(stranger.pid), *holder.read_text().split("\n")[1:]]))
    try:
        ran = kern("stop")
        assert ran.code == Exit.HELP_NEEDED
        assert "no run in progress" in ran.err
    finally:
        assert stranger.communicate("lives")[0] == "lives"
    assert stranger.returncode == 0
    assert kern("1", "0").code == Exit.OK  # and ends the agent that the killed one left


def test_a_run_of_another_machine_is_asked_by_its_name(repo: Path, kern: Kern) -> None:
    (repo / ".git" / "kern.holder").write_text("1\nelsewhere\nabc\nmain\n")
    assert "kill -INT 1 on host elsewhere ends it now" in kern("stop").err
