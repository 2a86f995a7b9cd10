"""One kern per working tree, with real second processes, some of them killed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kern.errors import Exit
from kern.system import workspace
from kern.system.workspace import Scope
from tests.conftest import HERE, PATIENCE_S, Fake, Git, wait_for

Background = Callable[..., "subprocess.Popen[str]"]

HOLD = """
import pathlib, sys, time
from kern.git import repository as repo
from kern.system import lock, workspace
root = pathlib.Path(sys.argv[1])
with lock.hold(workspace.scope(root, "main"), repo.open_at(root).git_dir):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def where(repo: Path) -> Scope:
    return workspace.scope(repo, "main")


@pytest.fixture
def hold(repo: Path) -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    """A second process that holds the lock of the project."""
    started: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(repo)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def stale(where: Scope, hold: Callable[[], "subprocess.Popen[str]"]) -> Path:
    """The marker of a kern that was killed."""
    killed = hold()
    killed.kill()
    killed.wait()
    return where.lock / "pid"


def waiting(fake: Fake) -> Callable[[], None]:
    """The implement stage waits until the returned function is called."""
    go = fake.folder / "go"
    until = f"while [ ! -e '{go}' ]; do sleep 0.05; done"
    fake.script(implement=[{"run": [until, "echo work > work.txt"], "result": "did it\n\nSUCCESS"}])
    return go.touch


# ---------------------------------------------------------------- a dead one


def test_of_six_kerns_over_a_stale_lock_exactly_one_runs(
    repo: Path, git: Git, fake: Fake, background: Background, stale: Path
) -> None:
    go = waiting(fake)
    kerns = [background("1", "0") for _ in range(6)]
    wait_for(lambda: sum(process.poll() is not None for process in kerns) == 5)
    (winner,) = [process for process in kerns if process.poll() is None]
    wait_for(lambda: "implement" in fake.stages)
    go()
    assert winner.wait(PATIENCE_S) == Exit.OK
    for process in kerns:
        if process is not winner:
            assert process.returncode == Exit.HELP_NEEDED
            assert f"pid {winner.pid}" in process.communicate()[1]
    assert fake.stages == ["research", "implement", "commit"]
    assert git("log", "--format=%s") == "do the task\nstart"
