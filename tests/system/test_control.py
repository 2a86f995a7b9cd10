"""A run that is asked from another terminal to stop; real processes."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kern.errors import Exit
from kern.system import control
from tests.conftest import BUSY, PATIENCE_S, Fake, Git, Kern, wait_for

Background = Callable[..., "subprocess.Popen[str]"]

WORK = "echo work >> work.txt"
GOOD = {"run": [WORK], "result": "did it\n\nSUCCESS"}
ASKED = "asked to stop (kern stop)"


def gate(fake: Fake, stage: str, step: dict[str, Any]) -> Callable[[], None]:
    """The stage waits until the returned function is called."""
    go = fake.folder / "go"
    until = f"while [ ! -e '{go}' ]; do sleep 0.05; done"
    fake.script(**{stage: [{**step, "run": [until, *step.get("run", [])]}, step]})
    return go.touch


def place(repo: Path) -> Path:
    return repo / ".git" / "kern.request"


# ---------------------------------------------------------------- stop


@pytest.mark.parametrize(
    ("stage", "step"),
    [
        ("research", {"result": "- Files: a.txt:1\n\nREADY"}),
        ("implement", GOOD),
        ("commit", {"result": "do the task"}),
    ],
)
def test_a_stop_ends_the_run_after_its_stage_and_the_next_goes_on_there(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background, stage: str, step: Any
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] and another\n")
    git("commit", "--quiet", "--all", "--message=two tasks")
    go = gate(fake, stage, step)
    first = background("2", "0")
    wait_for(lambda: stage in fake.stages)

    (repo / "deep").mkdir()
    asked = kern("stop", cwd=repo / "deep")
    again = kern("stop")
    shown = kern("status").out
    time.sleep(0.2)
    go()
    said = "".join(first.communicate(timeout=PATIENCE_S))

    who = f"the run with pid {first.pid} on branch main"
    assert (asked.code, asked.out) == (Exit.OK, "")
    when = "ends after its current stage, at once where it waits; kern stop --now ends it now"
    assert asked.err == f"{who} {when}\n"
    assert (again.code, again.err) == (0, f"{who} was asked to stop already: it {when}\n")
    assert "stops after this stage" in shown
    assert first.returncode == Exit.OK, said
    assert said.count(ASKED) == 1
    assert f"{ASKED}: ends after stage" in said
    assert "stopped, as asked; the next kern goes on with: " in said
    assert ("is in your working tree" in said) is (stage == "implement")
    before = ["research", "implement", "commit"]
    assert fake.stages == before[: before.index(stage) + 1]
    assert (repo / "SPEC.md").read_text()[:5] == ("- [x]" if stage == "commit" else "- [~]")
    assert "- [ ] and another" in (repo / "SPEC.md").read_text().splitlines()
    assert not place(repo).exists()

    rest = kern("2", "0")
    assert rest.code == Exit.OK, rest.err
    assert fake.stages == before * 2
    assert git("rev-list", "--count", "HEAD") == "4"
    assert git("status", "--porcelain") == ""


@pytest.mark.parametrize("wait", ["delay", "limit", "retry"])
def test_a_stop_during_a_wait_ends_the_run_within_a_second(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background, wait: str
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] and another\n")
    git("commit", "--quiet", "--all", "--message=two tasks")
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
    began = {"delay": "next task in 60 s", "limit": "waiting until", "retry": "again in"}[wait]
    first = background("2", "60")
    assert first.stdout is not None
    assert any(began in line for line in first.stdout)
    asked = kern("stop")
    at = time.monotonic()
    said = "".join(first.communicate(timeout=PATIENCE_S))
    assert time.monotonic() - at < 1.5 * BUSY
    assert asked.code == first.returncode == Exit.OK, said
    assert "asked to stop (kern stop): ends here" in said
    assert kern("2", "0").code == Exit.OK
    stages = ["research", "implement", "commit"] * 2
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
    stranger = subprocess.Popen(["sleep", "60"])
    holder = repo / ".git" / "kern.holder"
    holder.write_text("\n".join([str(stranger.pid), *holder.read_text().split("\n")[1:]]))
    try:
        for argv in (["stop", "--now"], ["stop"]):
            ran = kern(*argv)
            assert ran.code == Exit.HELP_NEEDED
            assert "a killed one" in ran.err
        time.sleep(0.2)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert kern("1", "0").code == Exit.OK  # and ends the agent that the killed one left


@pytest.mark.parametrize(
    "junk", [b"", b"stop", b"stop other\n", b"\xff\xfe", b"resume abc", b"halt abc", b"stop abc x"]
)
def test_only_a_whole_request_of_this_run_counts(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / control.FILE).write_bytes(junk)
    assert not control.asked(tmp_path, "abc")
    control.ask(tmp_path, "abc")
    assert control.asked(tmp_path, "abc")
    assert not control.asked(tmp_path, "abd")
