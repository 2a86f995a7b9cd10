"""One kern per working tree, with real second processes, one of them killed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.conftest import PATIENCE_S, Fake, Git, wait_for

Background = Callable[..., "subprocess.Popen[str]"]


def test_of_four_kerns_over_a_stale_lock_exactly_one_runs(
    repo: Path, git: Git, fake: Fake, background: Background
) -> None:
    work = {"wait": "go", "run": ["echo work > work.txt"], "result": "did it\n\nSUCCESS"}
    fake.script(implement=[{"wait": "never"}, work])
    killed = background("1", "0")
    wait_for(lambda: "implement" in fake.stages)
    killed.kill()
    killed.wait()
    kerns = [background("1", "0") for _ in range(4)]
    wait_for(lambda: sum(process.poll() is not None for process in kerns) == 3)
    (winner,) = [process for process in kerns if process.poll() is None]
    wait_for(lambda: fake.stages.count("implement") == 2)
    shown = repo.parent / "kern/project-main.lock.d"
    assert (shown / "pid").read_text().splitlines()[0] == str(winner.pid)
    (fake.folder / "go").touch()
    assert winner.wait(PATIENCE_S) == 0
    for process in kerns:
        if process is not winner:
            assert process.returncode == 1
            assert "another kern is at work" in process.communicate()[1]
    assert fake.stages == ["research", "implement", "implement", "commit"]
    assert git("log", "--format=%s") == "do the task\nstart"
    assert not shown.exists()
