"""What many at once say to what they cannot work with, and that nothing is lost by it."""

import re
import shutil
from pathlib import Path

from tests.conftest import Fake, Git, Kern, wait_for
from tests.fleet.test_loop import IMPLEMENT, Background, left_over, spec


def test_a_worktree_that_is_deleted_under_a_worker_is_made_anew(
    repo: Path, git: Git, fake: Fake, background: Background, tmp_path: Path
) -> None:
    spec(repo, git, "one", "two")
    fake.script(implement=[{**IMPLEMENT, "sleep": 3}, IMPLEMENT])
    run = background("-j", "2", "2")
    wait_for(lambda: fake.stages.count("implement") == 2)
    first = next(call["cwd"] for call in fake.calls if call["stage"] == "implement")
    shutil.rmtree(first, ignore_errors=True)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, out + err
    assert re.search(r"worker \d: its worktree is gone: .*; its task is tried again: \w+", err)
    assert (repo / "SPEC.md").read_text().count("- [x] ") == 2
    assert git("log", "--format=%s").splitlines().count("do the task") == 2
    assert left_over(git) == []


def test_a_task_whose_kern_is_killed_again_and_again_needs_a_person_and_is_resumed(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    spec(repo, git, "one", "two")
    killed = {"run": ["touch half"], "kill": "worker"}
    fake.script(implement=[killed, killed, killed, IMPLEMENT])
    ran = kern("-j", "2", "1")
    assert ran.code == 1, ran.said
    needs = ran.out.partition("Needs you:\n")[2]
    assert needs.startswith("   1  one\n      its kern was ended by signal 9 3 times in a row")
    assert "kern -j 2 resumes it" in needs
    ran = kern("-j", "2", "1")
    assert ran.code == 0, ran.said
    assert fake.stages.count("research") == 1
    assert "next: kern -j 2 1 takes the other open task\n" in ran.out
    assert left_over(git) == []
