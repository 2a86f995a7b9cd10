"""kern interrupted or killed in the middle, and what the next kern finds."""

import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kern.errors import Exit
from tests.conftest import BUSY, HERE, PATIENCE_S, Fake, Git, Inline, agents, survivors, wait_for

SPREAD = [
    "sh -c 'echo $$ >> \"$FAKE_CLAUDE/pids\"; exec sleep 300' &",
    "setsid nohup sh -c 'echo $$ >> \"$FAKE_CLAUDE/pids\"; exec sleep 300' &",
    'setsid sh -c \'trap "" INT TERM; echo $$ >> "$FAKE_CLAUDE/pids"; exec sleep 300\' &',
]
HANG = {
    "run": ["echo half-done >> a.txt", *SPREAD, "sleep 300"],
    "result": "never said\n\nSUCCESS",
}
GOOD = {"run": ["echo work > work.txt"], "result": "did it\n\nSUCCESS"}

Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin(repo: Path, fake: Fake) -> Iterator[Begin]:
    """A kern in a process of its own, `before` being shell lines that run in front of it."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str, before: str = ":") -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            ["sh", "-c", f'{before}; exec "$@"', "sh", sys.executable, "-m", "kern", *argv],
            cwd=repo,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for process in left(fake):
        process.kill()


@pytest.fixture
def deaf(fake: Fake) -> None:
    """The agent and what it starts ignore SIGINT."""
    claude = fake.folder / "bin" / "claude"
    shutil.move(claude, claude.with_name("player"))
    claude.write_text(f"#!/bin/sh\ntrap '' INT\nexec '{claude.with_name('player')}' \"$@\"\n")
    claude.chmod(0o755)


def left(fake: Fake) -> list[psutil.Process]:
    return survivors(fake.folder / "pids")


def spread(fake: Fake) -> bool:
    """Everything that HANG starts is up."""
    return len(left(fake)) == len(SPREAD)


@pytest.mark.usefixtures("deaf")
def test_an_interrupt_ends_everything_now_and_the_next_run_goes_on(
    repo: Path, git: Git, fake: Fake, begin: Begin, inline: Inline
) -> None:
    fake.script(implement=[HANG, GOOD])
    kern = begin("1", "0")
    wait_for(lambda: spread(fake))
    began = time.monotonic()
    for _ in range(2):  # an impatient person
        kern.send_signal(signal.SIGINT)
        time.sleep(0.2)
    said = "".join(kern.communicate(timeout=PATIENCE_S))
    assert kern.returncode == 128 + signal.SIGINT
    assert time.monotonic() - began < 10 * BUSY
    assert left(fake) == []
    assert agents() == []
    assert "interrupted" in said
    assert "Traceback" not in said
    assert git("log", "--format=%s") == "start"
    assert (repo / "SPEC.md").read_text().startswith("- [~]")
    assert not list((repo.parent / "kern").glob("*.lock.d"))
    ran = inline()
    assert ran.code == Exit.OK, ran.err
    assert fake.stages == ["research", "implement", "implement", "commit"]
    assert git("log", "--format=%s") == "do the task\nstart"
    assert git("status", "--porcelain") == ""
    assert "half-done" not in git("show", "HEAD:a.txt")


def test_a_closed_terminal_ends_a_run_with_its_own_exit_code(repo: Path, fake: Fake) -> None:
    fake.script(implement=[HANG])
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "kern", "1", "0"]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "TERM": "xterm"}
    kern = subprocess.Popen(argv, cwd=repo, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    sent = b""
    while b"stage 2/3" not in sent:
        sent += os.read(ours, 1 << 16)
    os.close(ours)
    kern.send_signal(signal.SIGHUP)
    assert kern.wait(PATIENCE_S) == 128 + signal.SIGHUP
    assert left(fake) == []


def test_kern_under_nohup_outlives_the_terminal(git: Git, fake: Fake, begin: Begin) -> None:
    until = 'while [ ! -e "$FAKE_CLAUDE/go" ]; do sleep 0.02; done'
    fake.script(implement=[{**GOOD, "run": [until, *GOOD["run"]]}])
    kern = begin("1", "0", before="trap '' HUP")
    wait_for(lambda: "implement" in fake.stages)
    kern.send_signal(signal.SIGHUP)
    (fake.folder / "go").touch()
    said = "".join(kern.communicate(timeout=PATIENCE_S))
    assert kern.returncode == Exit.OK, said
    assert git("log", "--format=%s") == "do the task\nstart"
