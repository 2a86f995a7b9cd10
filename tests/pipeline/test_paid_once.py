"""What no change can help is paid once, and what was paid outlasts what happens to it since."""

import shutil
from pathlib import Path

import pytest

from tests.checks.test_gates import attempts, spec, toml
from tests.conftest import Fake, Git, Kern

DONE = {"run": ["echo good > n"], "result": "did it\n\nSUCCESS"}
NOTHING = {"run": [], "result": "It is so already.\n\nSUCCESS"}
NO_TASK = {"result": "It is there.\n\nNO_TASK: done already, a.txt:1"}
READY = {"result": "- Files: a.txt:1-1\n- Pattern: none\n- Constraint: none\n\nREADY"}
PROTECTED = """b=$(git symbolic-ref --short HEAD)
case $b in main) echo "no commits to $b, please"; exit 1;; esac
"""
TICKET = """t=$(git symbolic-ref --short HEAD | grep -oE "[A-Z]+-[0-9]+") || exit 1
sed -i "1s/^/$t: /" "$1"
"""


def hook(repo: Path, name: str, body: str) -> None:
    place = repo / ".git" / "hooks" / name
    place.write_text(f"#!/bin/sh\n{body}")
    place.chmod(0o755)


def tasks(repo: Path, git: Git, *names: str) -> None:
    (repo / "SPEC.md").write_text("".join(f"- [ ] {name}\n" for name in names))
    git("commit", "--quiet", "--all", "--message=tasks")


# ---------------------------------------------------------------- hooks


def test_a_hook_that_refuses_without_the_change_too_ends_the_run_with_the_work_kept(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    tasks(repo, git, "one", "two")
    hook(repo, "pre-commit", PROTECTED)
    fake.script(implement=[DONE], commit=[{"result": "do it"}])

    ran = kern("5", "0")

    assert ran.code == 1, ran.out
    assert fake.stages == ["research", "implement", "commit"]
    refused = 'kern: the pre-commit hook refused: "no commits to main, please"'
    assert f"{refused}. So it does without the task's change: none can help" in ran.err
    assert not attempts(repo)

    (repo / ".git" / "hooks" / "pre-commit").unlink()
    assert kern("1", "0").code == 0
    assert fake.stages == ["research", "implement", "commit"]
    assert git("show", "HEAD:n") == "good"


@pytest.mark.parametrize("name", ["pre-commit", "prepare-commit-msg"])
def test_with_many_at_once_a_hook_sees_the_branch_that_the_work_lands_on(
    repo: Path, git: Git, fake: Fake, kern: Kern, name: str
) -> None:
    tasks(repo, git, "one", "two")
    git("switch", "--quiet", "--create", "main-7" if name == "pre-commit" else "PROJ-7-login")
    hook(repo, name, PROTECTED.replace("main)", "main-7)") if name == "pre-commit" else TICKET)
    work = [{"run": [f"echo {n} > n{n}"], "result": "did it\n\nSUCCESS"} for n in "ab"]
    fake.script(implement=work)
    before = git("rev-parse", "HEAD")

    ran = kern("-j", "2", "5", "0")

    if name == "pre-commit":
        assert ran.code == 1 and "no commits to main-7" in ran.said
        assert git("rev-parse", "HEAD") == before
    else:
        assert ran.code == 0, ran.said
        since = git("log", "--format=%s", f"{before}..").splitlines()
        assert len(since) == 2 and all(one.startswith("PROJ-7: ") for one in since)


# ---------------------------------------------------------------- nothing to do


def test_tasks_that_are_done_already_are_no_failures_and_are_asked_about_twice_at_most(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    toml(repo, git, "[gates]\ncheck = 'true'\n")
    tasks(repo, git, "one", "two", "three", "four")
    fake.script(research=[NO_TASK, NO_TASK, NO_TASK, READY, NO_TASK], implement=[DONE])

    ran = kern("20", "0")

    assert "1 done, 3 need you" in ran.out, ran.said
    assert "[x] four" in spec(repo) and "in a row" not in ran.err
    assert fake.stages.count("research") == 7


def test_a_task_for_which_nothing_needs_to_change_is_paid_twice(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    fake.script(implement=[NOTHING])
    ran = kern("5", "0")
    assert fake.stages.count("implement") == 2, ran.said
    assert "two attempts found nothing to change: tick it, or say what is missing" in ran.out
    assert "**Blocked:**" in spec(repo)


# ---------------------------------------------------------------- a reboot


def test_a_reboot_that_empties_tmp_costs_nothing(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    fake.script(commit=[{"kill": "parent"}, {"result": "do the task"}])
    kern("1", "0")
    run = Path(kern("path").out.strip())
    assert (run / "stage2.json").is_file()
    shutil.rmtree(run.parent)

    ran = kern("1", "0")

    assert ran.code == 0, ran.said
    assert fake.stages == ["research", "implement", "commit", "commit"]
    copies = repo / ".git" / "kern" / "run"
    assert not [file for file in copies.rglob("*") if file.is_file()]
