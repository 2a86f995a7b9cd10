"""One kern per working tree, with real second processes, some of them killed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kern.errors import Exit
from kern.system import lock, workspace
from tests.conftest import HERE, PATIENCE_S, Fake, Git, wait_for

Background = Callable[..., "subprocess.Popen[str]"]

HOLD = """
import pathlib, sys, time
from kern.git import repository as repo
from kern.system import lock
with lock.hold(repo.open_at(pathlib.Path(sys.argv[1])).git_dir):
    print("held", flush=True)
    time.sleep(60)
"""


def killed(repo: Path) -> None:
    """A process that held the lock of the project."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    argv = [sys.executable, "-c", HOLD, str(repo)]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        process.kill()
    assert (repo / ".git" / lock.HOLDER).exists()


def waiting(fake: Fake) -> Callable[[], None]:
    """The implement stage waits until the returned function is called."""
    go = fake.folder / "go"
    until = f"while [ ! -e '{go}' ]; do sleep 0.05; done"
    fake.script(implement=[{"run": [until, "echo work > work.txt"], "result": "did it\n\nSUCCESS"}])
    return go.touch


# ---------------------------------------------------------------- a dead one


def test_of_six_kerns_over_a_stale_lock_exactly_one_runs(
    repo: Path, git: Git, fake: Fake, background: Background
) -> None:
    killed(repo)
    go = waiting(fake)
    kerns = [background("1", "0") for _ in range(6)]
    wait_for(lambda: sum(process.poll() is not None for process in kerns) == 5)
    (winner,) = [process for process in kerns if process.poll() is None]
    wait_for(lambda: "implement" in fake.stages)
    shown = workspace.scope(repo, "main").lock
    assert (shown / "pid").read_text().splitlines()[0] == str(winner.pid)
    go()
    assert winner.wait(PATIENCE_S) == Exit.OK
    for process in kerns:
        if process is not winner:
            assert process.returncode == Exit.HELP_NEEDED
            assert "another kern is at work" in process.communicate()[1]
    assert fake.stages == ["research", "implement", "commit"]
    assert git("log", "--format=%s") == "do the task\nstart"
    assert not shown.exists()
