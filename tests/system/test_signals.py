"""kern whose terminal is closed, and one that outlives it."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kern.errors import Exit
from tests.conftest import HERE, PATIENCE_S, Fake, Git, survivors, wait_for

STAY = "sh -c 'echo $$ >> \"$FAKE_CLAUDE/pids\"; exec sleep 300'"
DEAF = STAY.replace("echo", 'trap "" INT TERM; echo', 1)
SPREAD = [f"{STAY} &", f"setsid nohup {STAY} &", DEAF]


def test_a_closed_terminal_ends_a_run_with_its_own_exit_code(repo: Path, fake: Fake) -> None:
    fake.script(implement=[{"run": SPREAD, "result": "never said\n\nSUCCESS"}])
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "kern", "1", "0"]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "TERM": "xterm"}
    kern = subprocess.Popen(argv, cwd=repo, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    sent = b""
    while b"stage 2/3" not in sent:
        sent += os.read(ours, 1 << 16)
    wait_for(lambda: len(survivors(fake.folder / "pids")) == len(SPREAD))
    os.close(ours)
    kern.send_signal(signal.SIGHUP)
    wait_for(lambda: len(survivors(fake.folder / "pids")) < len(SPREAD))
    kern.send_signal(signal.SIGINT)  # an impatient person
    assert kern.wait(PATIENCE_S) == 128 + signal.SIGHUP
    assert survivors(fake.folder / "pids") == []


def test_kern_under_nohup_outlives_the_terminal(
    repo: Path, git: Git, fake: Fake, background: Callable[..., "subprocess.Popen[str]"]
) -> None:
    until = 'while [ ! -e "$FAKE_CLAUDE/go" ]; do sleep 0.02; done'
    fake.script(implement=[{"run": [until, "echo work > work.txt"], "result": "SUCCESS"}])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what is started inherits that
    try:
        kern = background("1", "0")
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    wait_for(lambda: "implement" in fake.stages)
    kern.send_signal(signal.SIGHUP)
    (fake.folder / "go").touch()
    said = "".join(kern.communicate(timeout=PATIENCE_S))
    assert kern.returncode == Exit.OK, said
    assert git("log", "--format=%s") == "do the task\nstart"
