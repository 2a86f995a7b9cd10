"""Where a sandbox is, agents work in a room of kern's: a person's tree and git change only when
proven work lands.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, open_to_tests, wait_for
from tests.sandbox.test_wall import needs_bwrap

pytestmark = needs_bwrap
RAGE = (
    "rm -rf .env deps data; echo gone > own.txt; rm -f mine.py; git stash -q; git reset -q --hard; "
    "git clean -qfdx; git checkout -q -b away; git commit -q --allow-empty -m mine; true"
)


@pytest.fixture(autouse=True)
def project(repo: Path, git: Git, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    open_to_tests(Path.home(), fake.folder)
    (repo / ".gitignore").write_text(".env\ndeps/\n*.sqlite\n")
    (repo / "kern.toml").write_text('[gates]\ntest = "! grep -q bad work.txt"\n')
    (repo / "SPEC.md").write_text("- [ ] first\n- [ ] second\n")
    git("add", "--all")
    git("commit", "-qm", "begin")
    (repo / ".env").write_text("KEY=mine")
    (repo / "deps").mkdir()
    (repo / "deps" / "d.py").write_text("v = 1\n")
    (repo / "data").mkdir()
    (repo / "data" / "dev.sqlite").write_text("rows")
    (repo / "own.txt").write_text("my uncommitted line\n")
    (repo / "mine.py").write_text("y = 1\n")
    git("add", "mine.py")


def theirs(repo: Path, git: Git) -> dict[str, str]:
    """What a person has that no commit holds, and what git says of it."""
    names = (".env", "deps/d.py", "data/dev.sqlite", "own.txt", "mine.py")
    found = {name: (repo / name).read_text() for name in names}
    status = git("status", "--porcelain").splitlines()
    found["status"] = "\n".join(sorted(one for one in status if not one.endswith("SPEC.md")))
    return found | {"stash": git("stash", "list"), "branches": git("branch", "--list")}


def implement(fake: Fake, *lines: str) -> None:
    fake.script(implement=[{"run": [*lines], "result": "Did it.\n\nSUCCESS"}])


def subjects(git: Git) -> list[str]:
    return git("log", "--format=%s").splitlines()


def test_work_lands_beside_your_own(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    before = theirs(repo, git)
    implement(fake, RAGE, "echo good >> work.txt; echo new > new.txt")
    ran = kern("1", "0")
    assert "verified by test" in ran.out, ran.said
    assert theirs(repo, git) == before
    assert git("show", "--format=", "--name-only").split() == ["SPEC.md", "new.txt", "work.txt"]
    assert (repo / "work.txt").read_text() == "good\n" and (repo / "new.txt").exists()
    assert "- [x] first" in (repo / "SPEC.md").read_text()


def test_nothing_of_yours_changes_where_nothing_lands(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    before = theirs(repo, git)
    implement(fake, RAGE, "echo bad >> work.txt")
    kern("1", "0")
    assert theirs(repo, git) == before and subjects(git) == ["begin", "start"]
    assert not (repo / "work.txt").exists()
    assert "bad" in git("show", "kern/attempts/" + kept(git)[0])


def kept(git: Git) -> list[str]:
    out = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts")
    return [line.removeprefix("refs/kern/attempts/") for line in out.splitlines()]


@pytest.mark.parametrize(
    "does",
    [
        "echo mine >> a.txt",
        "git stash -q && git stash pop -q",
        "git switch -q -c side && git switch -q main",
        "git commit -q -m own mine.py",
    ],
)
def test_what_you_do_meanwhile_is_yours(
    repo: Path,
    git: Git,
    fake: Fake,
    background: Callable[..., "subprocess.Popen[str]"],
    does: str,
) -> None:
    go, there = fake.folder / "go", fake.folder / "there"
    wait = f"touch {there}; while [ ! -e {go} ]; do sleep 0.02; done"
    implement(fake, wait, "echo good >> work.txt")
    running = background("1", "0")
    wait_for(there.exists)
    subprocess.run(["sh", "-c", does], cwd=repo, check=True)
    before = theirs(repo, git), (repo / "a.txt").read_text()
    go.touch()
    out, err = running.communicate(timeout=120)
    assert "verified by test" in out, out + err
    assert (theirs(repo, git), (repo / "a.txt").read_text()) == before
    assert "work.txt" in git("show", "--format=", "--name-only")


def test_an_edit_in_the_way_is_kept_and_the_work_lands_later(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "a.txt").write_text("my own\n")
    implement(fake, "echo more >> a.txt")
    ran = kern("1", "0")
    assert ran.code == 1 and "your changes are in the way of the finished task" in ran.err, ran.said
    assert (repo / "a.txt").read_text() == "my own\n" and subjects(git)[0] == "begin"
    git("stash", "push", "-q", "a.txt")
    ran = kern("1", "0")
    assert ran.code == 0 and "landed, the way is free" in ran.said
    assert "seven\nmore\n" in (repo / "a.txt").read_text()
    assert "- [x] first" in (repo / "SPEC.md").read_text()


def test_an_untracked_file_in_the_way_is_kept(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    (repo / "new.txt").write_text("my own\n")
    implement(fake, "echo theirs > new.txt")
    ran = kern("1", "0")
    assert ran.code == 1 and "new.txt" in ran.err, ran.said
    assert (repo / "new.txt").read_text() == "my own\n"


def test_what_an_agent_installs_is_there_for_gates_and_the_next_task(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "kern.toml").write_text('[gates]\ntest = "[ ! -e work.txt ] || cat deps/new.py"\n')
    step = {"run": ["echo z > deps/new.py; echo w >> work.txt"], "result": "Did it.\n\nSUCCESS"}
    other = {"run": ["cat deps/new.py && echo w >> work.txt"], "result": "Did it.\n\nSUCCESS"}
    fake.script(implement=[step, other])
    ran = kern("2", "0")
    assert "all verified by test" in ran.out, ran.said
    assert not (repo / "deps" / "new.py").exists()


def hook(repo: Path, name: str, text: str) -> None:
    place = repo / ".git" / "hooks" / name
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)


def test_hooks_run_over_a_shadow(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    """A fixer's change is proven, a file that it stages belongs to the commit, and what else it
    does to git is nobody's.
    """
    before = theirs(repo, git)
    fix = "grep -q fixed work.txt && exit 0; echo fixed >> work.txt; echo 1 > BUILD; git add BUILD"
    rest = "git stash -q; git stash pop -q; git branch strange; echo x > left.txt"
    hook(repo, "pre-commit", f"{rest}\n{fix}\nexit 1")
    hook(repo, "commit-msg", 'git rev-parse --abbrev-ref HEAD >> "$1"')
    implement(fake, "echo good >> work.txt")
    ran = kern("1", "0")
    assert "now part of the task; the gates run again" in ran.err, ran.said
    assert "verified by test" in ran.out, ran.said
    assert git("show", "HEAD:work.txt") == "good\nfixed" and git("show", "HEAD:BUILD") == "1"
    assert "\nmain" in git("log", "-1", "--format=%B")
    assert theirs(repo, git) == before and not (repo / "left.txt").exists()


def test_a_hook_that_refuses_costs_an_attempt(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    hook(repo, "pre-commit", "git diff --cached --name-only; ! grep -q wrong work.txt")
    wrong = {"run": ["echo wrong >> work.txt"], "result": "Did it.\n\nSUCCESS"}
    right = {"run": ["echo right > work.txt"], "result": "Did it.\n\nSUCCESS"}
    fake.script(implement=[wrong, right])
    ran = kern("1", "0")
    assert "attempt 1 failed: the pre-commit hook refused" in ran.said
    assert git("show", "HEAD:work.txt") == "right", ran.said


def test_killed_anywhere_the_next_run_goes_on(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    before = theirs(repo, git)
    step = {"run": ["echo half > work.txt"], "kill": "parent"}
    good = {"run": ["echo good >> work.txt"], "result": "Did it.\n\nSUCCESS"}
    fake.script(implement=[step, good])
    assert kern("1", "0").code == -9
    assert theirs(repo, git) == before
    ran = kern("1", "0")
    assert "verified by test" in ran.out, ran.said
    assert git("show", "HEAD:work.txt") == "good" and theirs(repo, git) == before
    assert any(name.endswith("1-killed") for name in kept(git)), kept(git)


def test_a_file_that_was_merely_touched_is_in_nobodys_way(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    implement(fake, "echo more >> a.txt")
    (repo / "a.txt").touch()
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert git("show", "HEAD:a.txt").endswith("more")


def test_what_a_hook_makes_and_stages_is_made_once(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "BUILD").write_text("1\n")
    git("add", "BUILD")
    git("commit", "-qm", "build", "BUILD")
    hook(repo, "pre-commit", "echo $(( $(cat BUILD) + 1 )) >BUILD; git add BUILD")
    implement(fake, "echo good >> work.txt")
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert git("show", "HEAD:BUILD") == "2" and (repo / "BUILD").read_text() == "2\n"


def test_a_protected_branch_ends_the_run_with_one_implementation_paid(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    hook(repo, "pre-commit", 'echo "no commits to $(git symbolic-ref --short HEAD)"; exit 1')
    implement(fake, "echo good >> work.txt")
    ran = kern("2", "0")
    assert ran.code == 1 and 'refused: "no commits to main". So it does without' in ran.err
    assert fake.stages == ["research", "implement", "commit"]
    hook(repo, "pre-commit", "exit 0")
    assert kern("1", "0").code == 0
    assert fake.stages == ["research", "implement", "commit"]


def test_a_task_for_which_nothing_needs_to_change_is_paid_twice(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    implement(fake)
    kern("6", "0")
    assert fake.stages.count("implement") == 4  # of two tasks
    assert "two attempts found nothing to change" in (repo / "SPEC.md").read_text()


def test_an_agent_reads_spec_md_as_you_see_it_and_cannot_write_it(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    git("rm", "-q", "--cached", "SPEC.md")
    git("commit", "-qm", "own tasks")
    looks = "grep -q '\\[~\\] first' SPEC.md && echo seen > work.txt; echo no >> SPEC.md; true"
    research = {"run": ["grep -q first SPEC.md"], "result": "- Files: a.txt:1-1\n\nREADY"}
    step = {"run": [looks], "result": "Did it.\n\nSUCCESS"}
    fake.script(research=[research], implement=[step])
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert git("show", "HEAD:work.txt") == "seen"
    assert "no" not in (repo / "SPEC.md").read_text().splitlines()
