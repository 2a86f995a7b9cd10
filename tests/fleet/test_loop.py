"""Many at once, from end to end: a small repository, the stand-in agent, real worktrees."""

from pathlib import Path

from tests.conftest import Fake, Git, Kern

# Each task writes a file of its own, named by the branch that it is on.
IMPLEMENT = {
    "run": ["git rev-parse --abbrev-ref HEAD | sed s,kern/work/,, | xargs -I{} touch made-{}"],
    "result": "Wrote it.\n\nSUCCESS",
}


def spec(repo: Path, git: Git, *tasks: str, more: str = "") -> None:
    (repo / "SPEC.md").write_text("".join(f"- [ ] {task}\n" for task in tasks) + more)
    git("commit", "--quiet", "--all", "--message=tasks")


def left_over(git: Git) -> list[str]:
    """Of worktrees, work branches and start refs; each is to be gone at the end."""
    refs = git("for-each-ref", "--format=%(refname)", "refs/heads/kern", "refs/kern/start")
    return [*git("worktree", "list").splitlines()[1:], *refs.split()]


def test_tasks_are_carried_out_at_once_and_land_one_at_a_time(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    spec(repo, git, "one", "two", "three", "four", "five")
    fake.script(implement=[IMPLEMENT])
    (repo / "own.txt").write_text("mine, not committed\n")
    ran = kern("-j", "4")
    assert ran.code == 0, ran.said
    assert left_over(git) == []
    assert (repo / "SPEC.md").read_text().count("- [x] ") == 5
    assert git("log", "--format=%s").splitlines() == ["do the task"] * 5 + ["tasks", "start"]
    assert len([*repo.glob("made-*")]) == 5
    assert git("status", "--porcelain") == " M own.txt"
    assert {call["env"]["KERN_WORKER"] for call in fake.calls} == {"1", "2", "3", "4"}
    assert all(call["cwd"] != str(repo) for call in fake.calls)
    assert "5 done, 5 unverified, 0 open" in ran.out
