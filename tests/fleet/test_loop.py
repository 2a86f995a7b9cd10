"""Many at once, from end to end: a small repository, the stand-in agent, real worktrees."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Fake, Git, Kern, agents, open_to_tests, wait_for
from tests.sandbox.test_wall import needs_bwrap

Background = Callable[..., "subprocess.Popen[str]"]
RESEARCH = {"result": "- Files: a.txt:1-1\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"}
IMPLEMENT = {"run": ["mktemp made-XXXXXX"], "result": "Wrote it.\n\nSUCCESS"}


def spec(repo: Path, git: Git, *tasks: str, more: str = "") -> None:
    (repo / "SPEC.md").write_text("".join(f"- [ ] {task}\n" for task in tasks) + more)
    git("commit", "--quiet", "--all", "--message=tasks")


def left_over(git: Git) -> list[str]:
    """Of worktrees, work branches, start refs, stage files; each is to be gone at the end."""
    refs = git("for-each-ref", "--format=%(refname)", "refs/heads/kern", "refs/kern/start")
    files = [*Path(git("rev-parse", "--absolute-git-dir")).glob("kern/run/*/*-[0-9]")]
    return [*git("worktree", "list").splitlines()[1:], *refs.split(), *map(str, files)]


@needs_bwrap
def test_in_a_sandbox_a_worker_tests_its_own_tree_whatever_leads_back(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    """What is installed names the person's tree by its path, where the worktree is seen."""
    (repo / ".gitignore").write_text("node_modules\ncopied\n")
    (repo / "value").write_text("1\n")
    holds = '. ./{}/installed; [ "$(cat value)" = "$value" ] && unset value'
    (repo / "test.sh").write_text(" && ".join(map(holds.format, ("node_modules", "copied"))))
    for folder in (repo / "node_modules", repo / "copied"):
        folder.mkdir()
        (folder / "installed").write_text(f"value=$(cat {repo}/expected)\n")
        (folder / "workspace").symlink_to(repo)
    (repo / "expected").write_text("1\n")
    table = '[worktree]\ncopy = ["copied"]\n'
    (repo / "kern.toml").write_text(f'[gates]\ntest = "sh test.sh"\n{table}')
    git("add", "--all")
    spec(repo, git, "one")
    walled = {"KERN_SANDBOX": "bwrap"}
    open_to_tests(tmp_path / "home", tmp_path)
    fake.script(implement=[{"run": ["echo 2 > expected"], "result": "SUCCESS"}])
    ran = kern("-j", "1", "1", env=walled)
    assert ran.code == 1 and "gate test is red" in ran.said
    assert (repo / "expected").read_text() == "1\n"
    spec(repo, git, "two")
    both = ["echo 2 > expected", "echo 2 > value"]
    fake.script(implement=[{"run": both, "result": "SUCCESS"}])
    ran = kern("-j", "1", "1", env=walled)
    assert ran.code == 0 and "verified by test" in ran.said, ran.said
    assert (repo / "expected").read_text() == "2\n"
    assert left_over(git) == []


@pytest.mark.parametrize("how", ["at once", "stop"])
def test_all_end_at_once_or_with_their_stages_and_the_next_run_goes_on(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background, how: str
) -> None:
    (repo / "kern.py").write_text("raise SystemExit('no worker starts this one')\n")
    git("add", "kern.py")
    spec(repo, git, "one", "two")
    go, stop = repo.parent / "go", how == "stop"
    waits = {**IMPLEMENT, "run": [f"until [ -e {go} ]; do sleep 0.1; done", *IMPLEMENT["run"]]}
    fake.script(implement=[waits, waits, IMPLEMENT])
    first = background("-j", "2")
    wait_for(lambda: fake.stages.count("implement") == 2)
    if stop:
        assert kern("stop").code == 0
        wait_for(lambda: len([*(repo / ".git/worktrees").glob("*/kern.request")]) == 2)
        go.touch()
    else:
        first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == (0 if stop else 130), out + err
    assert ("goes on with: 2 tasks in progress" in out + err) is stop
    assert ("2 tasks in progress: kern -j 2 goes on" in out + err) is not stop
    assert "SIGTERM" not in kern("report").out
    assert agents() == [] and len(left_over(git)) >= 4  # they wait to be resumed
    ran = kern("-j", "2")
    assert ran.code == 0, ran.said
    assert left_over(git) == [] and fake.stages.count("research") == 2
    assert fake.stages.count("implement") == (2 if stop else 4)


def test_the_budget_holds_for_all_workers_together(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    spec(repo, git, "one", "two", "three")
    paid = {"fields": {"total_cost_usd": 1.0}, "sleep": 0.5}
    fake.script(research=[{**RESEARCH, **paid}], implement=[{**IMPLEMENT, **paid}])
    ran = kern("-j", "2", "--max-cost", "2")
    assert ran.code == 3, ran.said
    assert "the run's budget is used up: $" in ran.said
    assert "and run kern -j 2: it resumes" in ran.said
    assert len(fake.stages) <= 3  # what began before the second dollar was spent
    assert left_over(git)  # with more to spend, the next run goes on


def test_a_rebase_beside_the_run_is_waited_for(
    repo: Path, git: Git, fake: Fake, background: Background
) -> None:
    spec(repo, git, "one", "two")
    git("branch", "side")
    for branch, message in (("side", "side"), ("main", "mine")):
        git("switch", "-q", branch)
        (repo / "own.txt").write_text(f"{branch}\n")
        git("commit", "-qam", message)
    fake.script(implement=[{**IMPLEMENT, "wait": "go"}])
    run = background("-j", "2")
    wait_for(lambda: fake.stages.count("implement") == 2)
    subprocess.run(["git", "rebase", "-q", "side"], cwd=repo, capture_output=True)
    (fake.folder / "go").touch()
    waits = "a rebase is under way: until it ends nothing lands"
    assert run.stderr and any(waits in line for line in run.stderr)
    assert "do the task" not in git("log", "-3", "--format=%s", "main")
    (repo / "own.txt").write_text("both\n")
    git("add", "own.txt")
    git("-c", "core.editor=true", "rebase", "--continue")
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, out + err
    subjects = git("log", "--format=%s").splitlines()
    assert subjects == ["do the task", "do the task", "mine", "side", "tasks", "start"]
    assert (repo / "own.txt").read_text() == "both\n" and git("status", "--porcelain") == ""
    assert left_over(git) == []
