"""A run that is asked from another terminal to stop, to pause and to go on; real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kern.errors import Exit
from kern.events import Steered
from kern.model import Outcome, Request
from kern.system import control, lock
from kern.system.control import answer, due
from kern.views.console import Console
from tests.conftest import BUSY, PATIENCE_S, Fake, Git, Inline, Kern, survivors, wait_for

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


def journal(repo: Path) -> list[dict[str, Any]]:
    path = repo / ".git" / "kern" / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def paused(repo: Path) -> bool:
    return (journal(repo) or [{}])[-1].get("did") == "paused"


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
    at_once = "kern stop --now ends it at once"
    assert asked.err == f"{who} will end after its {stage} stage; {at_once}\n"
    assert again.code == Exit.OK
    assert f"{who} was asked to stop already: it ends after its {stage} stage" in again.err
    assert "stops after this stage" in shown
    assert first.returncode == Exit.OK, said
    assert said.count(ASKED) == 1
    assert f"{ASKED}: ends after stage" in said
    assert "stopped, as asked; the next kern goes on with: " in said
    assert ("is in your tree, uncommitted" in said) is (stage == "implement")
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


def test_a_stop_is_heeded_before_the_next_gate(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background
) -> None:
    go, log = fake.folder / "go", fake.folder / "gates"
    one = f"echo one >> {log}; test ! -e work.txt || while [ ! -e {go} ]; do sleep 0.05; done"
    (repo / "kern.toml").write_text(f"[gates]\none = '{one}'\ntwo = 'echo two >> {log}'\n")
    git("add", "kern.toml")
    git("commit", "--quiet", "--message=gates")
    fake.script(implement=[GOOD])
    first = background("1", "0")
    wait_for(lambda: (repo / "work.txt").exists() and log.read_text().count("one") == 2)
    assert "will end after what it is doing now" in kern("stop").err
    go.touch()
    said = "".join(first.communicate(timeout=PATIENCE_S))
    assert first.returncode == Exit.OK, said
    assert log.read_text().split() == ["one", "two", "one"]
    assert "ends after gate one" in said
    assert kern("1", "0").code == Exit.OK
    assert fake.stages == ["research", "implement", "commit"]
    assert log.read_text().split() == ["one", "two", "one", "one", "two"]


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
    if wait != "retry":
        assert "will end now" in asked.err
    assert "asked to stop (kern stop): ends here" in said
    assert kern("2", "0").code == Exit.OK
    stages = ["research", "implement", "commit"] * 2
    assert fake.stages == (stages if wait == "delay" else ["research", *stages])


def test_a_task_that_needs_help_is_told_by_the_exit_code_of_a_stopped_run_too(
    repo: Path, fake: Fake, background: Background, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] and another\n")
    fake.script(research=[{"result": "NO_TASK: there is nothing to do"}])
    first = background("2", "60")
    assert first.stdout is not None
    assert any("next task in" in line for line in first.stdout)
    assert kern("stop").code == Exit.OK
    assert first.wait(PATIENCE_S) == Exit.HELP_NEEDED


def test_stop_now_ends_the_agent_as_an_interrupt_does(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background
) -> None:
    hang = "sh -c 'echo $$ >> \"$FAKE_CLAUDE/pids\"; exec sleep 300'"
    fake.script(implement=[{"run": [hang], "result": "never"}, GOOD])
    first = background("1", "0")
    wait_for(lambda: survivors(fake.folder / "pids"))
    began = time.monotonic()
    asked = kern("stop", "--now")
    assert time.monotonic() - began < 8 * BUSY
    assert asked.code == Exit.OK
    assert f"the run with pid {first.pid} on branch main and its agent end now" in asked.err
    assert "it has ended" in asked.err
    assert not survivors(fake.folder / "pids")
    assert first.wait(PATIENCE_S) == 128 + signal.SIGINT
    assert kern("1", "0").code == Exit.OK
    assert fake.stages == ["research", "implement", "implement", "commit"]


# ---------------------------------------------------------------- pause and resume


def test_a_paused_run_waits_with_its_lock_held_and_goes_on(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background
) -> None:
    go = gate(fake, "research", {"result": "- Files: a.txt:1\n\nREADY"})
    first = background("1", "0")
    wait_for(lambda: "research" in fake.stages)
    asked = kern("pause")
    assert "will wait after its research stage, its lock held; kern resume goes on" in asked.err
    assert "pauses after this stage" in kern("status").out
    go()
    wait_for(lambda: paused(repo))
    shown = kern("status").out
    assert f"pid {first.pid}\npaused\n" in shown
    assert "is paused already" in kern("pause").err
    assert kern("1", "0").code == Exit.HELP_NEEDED
    (repo / "own.txt").write_text("edited in the pause\n")
    assert fake.stages == ["research"]
    resumed = kern("resume")
    assert (resumed.code, resumed.err.endswith("on branch main goes on\n")) == (Exit.OK, True)
    said = "".join(first.communicate(timeout=PATIENCE_S))
    assert first.returncode == Exit.OK, said
    assert fake.stages == ["research", "implement", "commit"]
    lines = [line[22:] for line in said.splitlines()]
    assert [line for line in lines if "(kern " in line] == [
        "asked to pause (kern pause): waits after stage 1/3 research",
        "paused (kern resume goes on, kern stop ends)",
        "asked to go on (kern resume)",
    ]
    assert git("show", "HEAD:own.txt") == "mine"
    assert [r["did"] for r in journal(repo) if r["kind"] == "request"] == [
        *("pause", "paused", "resume")
    ]


def test_a_stop_ends_a_paused_run_and_a_pause_does_not_undo_a_stop(
    repo: Path, fake: Fake, kern: Kern, background: Background
) -> None:
    go = gate(fake, "implement", GOOD)
    first = background("1", "0")
    wait_for(lambda: "implement" in fake.stages)
    assert "is not paused: it goes on as it is" in kern("resume").err
    assert kern("stop").code == Exit.OK
    refused = kern("pause")
    assert refused.code == Exit.HELP_NEEDED
    assert "was asked to stop: it ends after its implement stage" in refused.err
    assert "kern resume takes that back" in refused.err
    assert "goes on: it was to stop after its implement stage" in kern("resume").err
    assert kern("pause").code == Exit.OK
    go()
    wait_for(lambda: paused(repo))
    assert "will end now" in kern("stop").err
    assert first.wait(2 * BUSY) == Exit.OK
    assert fake.stages == ["research", "implement"]
    assert kern("1", "0").code == Exit.OK
    assert fake.stages == ["research", "implement", "commit"]


def test_what_was_edited_in_a_pause_before_stage_2_is_not_the_task_s(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    """And a pause in a usage limit's wait ends that wait."""
    info = {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": 1_800_003_600}
    limited: Any = {
        "events": [{"type": "rate_limit_event", "rate_limit_info": info}],
        "result": "You've hit your session limit",
        "fields": {"is_error": True, "api_error_status": 429, "num_turns": 1},
        "exit": 1,
    }
    fake.script(implement=[limited, GOOD])
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            run = (lock.noted(repo / ".git") or lock.Holder(0)).run
            place(repo).write_text(f"pause {run}\n")
        if len(slept) == 6:
            (repo / "own.txt").write_text("edited\n")
            place(repo).unlink()

    ran = inline(1, sleep=sleep, clock=lambda: 1_800_000_000.0)
    assert ran.code == Exit.OK, ran.err
    assert len(slept) == 6
    told = [(e.asked, e.at_once) for e in ran.events if isinstance(e, Steered)]
    assert told == [(Request.PAUSE, True), (Request.RESUME, True)]
    assert fake.stages == ["research", "implement", "implement", "commit"]
    assert git("show", "HEAD:own.txt") == "mine"


def test_a_pause_shows_a_sign_of_life_every_ten_minutes_on_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console(out=sys.stdout)
    console(Steered(Request.PAUSE, at_once=True))
    for seconds in range(0, 1900, 5):
        console.paused(seconds)
    said = [line[22:] for line in capsys.readouterr().out.splitlines()]
    assert said[1:] == [f"paused for {minutes} min" for minutes in (10, 20, 30)]


# ---------------------------------------------------------------- whom it reaches


@pytest.mark.slow
def test_where_no_run_is_on_it_says_so(repo: Path, kern: Kern) -> None:
    for argv in (["stop"], ["stop", "--now"], ["pause"], ["resume"]):
        ran = kern(*argv)
        assert ran.code == Exit.HELP_NEEDED
        assert ran.err == f"kern: no run in progress in {repo}\n  hint: kern status\n"
        assert not place(repo).exists()


def test_a_run_of_another_working_tree_is_named_and_left_alone(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background, tmp_path: Path
) -> None:
    git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    go = gate(fake, "implement", GOOD)
    other = background("1", "0", cwd=tmp_path / "linked")
    wait_for(lambda: "implement" in fake.stages)
    for argv in (["stop"], ["stop", "--now"]):
        ran = kern(*argv)
        assert ran.code == Exit.HELP_NEEDED
        assert f"in another working tree: branch side (pid {other.pid})" in ran.err
    go()
    assert other.wait(PATIENCE_S) == Exit.OK
    assert fake.stages == ["research", "implement", "commit"]


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


def test_what_a_killed_run_was_asked_is_void_for_the_next(
    repo: Path, fake: Fake, kern: Kern, background: Background
) -> None:
    first = killed(repo, fake, kern, background)
    ran = kern("stop")
    assert ran.code == Exit.HELP_NEEDED
    assert f"a killed one (pid {first.pid}) left its lock" in ran.err
    again = kern("1", "0")
    assert again.code == Exit.OK
    assert "asked to stop" not in again.said
    assert fake.stages == ["research", "implement", "implement", "commit"]
    assert not place(repo).exists()


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


def test_a_run_on_another_host_is_named(repo: Path, kern: Kern) -> None:
    (repo / ".git" / "kern.holder").write_text("4711\nelsewhere.example\nabc\nmain\n")
    ran = kern("stop")
    assert ran.code == Exit.HELP_NEEDED
    assert "the lock here belongs to pid 4711 on host elsewhere.example" in ran.err
    assert not place(repo).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs a file of another user")
def test_a_run_of_another_user_is_left_to_them(repo: Path, kern: Kern) -> None:
    holder = repo / ".git" / "kern.holder"
    holder.write_text(f"{os.getpid()}\n{lock.HOST}\nabc\nmain\n")
    os.chown(holder, 12345, -1)
    ran = kern("stop", "--now")
    assert ran.code == Exit.HELP_NEEDED
    assert "the run here belongs to another user: 12345" in ran.err


@pytest.mark.parametrize(
    "junk", [b"", b"stop", b"stop other\n", b"\xff\xfe", b"resume abc", b"halt abc", b"stop abc x"]
)
def test_only_a_whole_request_of_this_run_counts(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / control.FILE).write_bytes(junk)
    assert control.asked(tmp_path, "abc") is None
    for wanted in (Request.STOP, Request.PAUSE):
        control.ask(tmp_path, wanted, "abc")
        assert control.asked(tmp_path, "abc") is wanted
        assert control.asked(tmp_path, "abd") is None


def test_what_stands_in_the_place_of_a_request_ends_no_run(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    place(repo).mkdir()
    ran = inline(1)
    assert fake.stages == ["research", "implement", "commit"], ran.err
    assert ran.code == Exit.OK, ran.err


def test_when_a_request_is_heeded_is_told_from_the_records() -> None:
    asked = {"kind": "request", "did": "stop"}
    later, now = "after what it is doing now", "now"
    begun = {"kind": "stage", "did": "start", "stage": "commit"}
    for records, when in (
        ([], later),
        ([begun], "after its commit stage"),
        ([begun, asked], "after its commit stage"),
        ([begun, {"kind": "retry", "stage": "research"}], later),
        ([begun, {"kind": "stage", "did": "end", "stage": "implement"}], later),
        ([{"kind": "limit"}, asked], now),
        ([{"kind": "task", "did": "done"}], now),
        *(([{"kind": "task", "did": str(outcome)}], now) for outcome in Outcome),
        ([{"kind": "task", "did": "done"}, {"kind": "commit"}], now),
        ([{"kind": "task", "did": "start"}], later),
    ):
        assert due(records, paused=False) == when
        assert due(records, paused=True) == now
    waits = [begun, {"kind": "request", "did": "paused"}]
    assert control.is_paused(waits, Request.PAUSE)
    assert not control.is_paused(waits, None)
    assert not control.is_paused([*waits, {"kind": "request", "did": "resume"}], Request.PAUSE)


def test_many_at_once_heed_a_request_when_no_worker_has_a_stage_in_progress() -> None:
    stage: dict[str, object] = {"kind": "stage", "did": "start", "stage": "x"}
    one, two = ({**stage, "worker": n, "branch": f"kern/work/{n}"} for n in (1, 2))
    waits = {"kind": "request", "did": "paused", "worker": 1}
    at_work: list[dict[str, object]] = [one, two, {**one, "did": "end"}, waits]
    assert due(at_work, paused=False) == "after the stages in progress"
    assert not control.is_paused(at_work, Request.PAUSE)
    over = [*at_work, {"kind": "run", "did": "end", "worker": 2}]
    assert due(over, paused=False) == "now"
    assert control.is_paused(over, Request.PAUSE) and not control.is_paused(over, Request.STOP)
    assert control.standing("stop", paused=False, many=True) == "stops after the stages in progress"
    resumed = {**one, "worker": 2}  # the first one's kern was killed, and said no more
    assert due([one, resumed], paused=False) == "after the stages in progress"
    assert due([one, resumed, {**resumed, "did": "end"}], paused=False) == "now"


@pytest.mark.parametrize("wanted", Request)
@pytest.mark.parametrize("asked", [None, Request.STOP, Request.PAUSE])
@pytest.mark.parametrize("paused", [True, False])
def test_every_request_is_answered_and_changes_nothing_the_second_time(
    wanted: Request, asked: Request | None, paused: bool
) -> None:
    first = answer(wanted, asked, "the run", "after its commit stage", paused=paused)
    assert first.text.startswith("the run ")
    if first.changes:
        now = None if wanted is Request.RESUME else wanted
        second = answer(wanted, now, "the run", "after its commit stage", paused=paused)
        assert not second.changes
        assert not second.refused
