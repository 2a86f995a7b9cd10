"""kern pr: the text of a pull request on standard output; pushed and opened by a yes alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Fake, Git, Kern

TOP = Path(__file__).parent.parent.parent
GH = """#!/bin/sh
printf '%s\\n' "$@" > "$FAKE_CLAUDE/gh"
cat > "$FAKE_CLAUDE/body"
"""


@pytest.fixture
def remote(repo: Path, git: Git, fake: Fake, kern: Kern) -> Path:
    """One task done on a branch of its own, a remote, and a stand-in for `gh`."""
    assert kern("1", "0", "--branch", "kern/tonight").code == 0
    git("init", "--bare", "--quiet", "../remote.git")
    git("remote", "add", "origin", "../remote.git")
    git("push", "--quiet", "origin", "main")
    gh = fake.folder / "bin" / "gh"
    gh.write_text(GH)
    gh.chmod(0o755)
    return repo.parent / "remote.git"


def pushed(git: Git, remote: Path) -> list[str]:
    return git("--git-dir", str(remote), "for-each-ref", "--format=%(refname:short)").split()


def test_without_a_yes_it_prints_the_text_and_names_the_commands(
    repo: Path, git: Git, fake: Fake, kern: Kern, remote: Path
) -> None:
    ran = kern("pr")
    assert ran.code == 0
    assert ran.out.startswith("1 done, 1 unverified in 1 run; ") and "## Done" in ran.out
    assert "  git push --set-upstream origin HEAD:kern/tonight\n" in ran.err
    assert "  gh pr create --title 'add a greeting' --body-file -\n" in ran.err
    assert pushed(git, remote) == ["main"] and not (fake.folder / "gh").exists()


def test_a_yes_pushes_and_opens_it(
    repo: Path, git: Git, fake: Fake, kern: Kern, remote: Path
) -> None:
    ran = kern("pr", "--yes")
    assert ran.code == 0, ran.err
    assert pushed(git, remote) == ["kern/tonight", "main"]
    said = (fake.folder / "gh").read_text().splitlines()
    assert said == ["pr", "create", "--title", "add a greeting", "--body-file", "-"]
    assert ran.out.startswith((fake.folder / "body").read_text())
    assert git("rev-parse", "--abbrev-ref", "@{upstream}") == "origin/kern/tonight"


@pytest.mark.parametrize("follows", ["origin/main", "main", "team/fork/main"])
def test_it_is_never_pushed_onto_the_branch_that_it_follows(
    repo: Path, git: Git, fake: Fake, kern: Kern, remote: Path, follows: str
) -> None:
    git("remote", "add", "team/fork", "../remote.git")
    git("fetch", "--quiet", "--all")
    git("branch", "--quiet", f"--set-upstream-to={follows}")
    ran = kern("pr", "--yes")
    assert ran.code == 0, ran.err
    assert pushed(git, remote) == ["kern/tonight", "main"]
    assert git("rev-parse", "main") == git("--git-dir", str(remote), "rev-parse", "main")
    to = "team/fork" if follows.startswith("team/fork") else "origin"
    assert git("rev-parse", "--abbrev-ref", "@{upstream}") == f"{to}/kern/tonight"


@pytest.mark.parametrize(("answer", "there"), [("y", ["kern/tonight", "main"]), ("", ["main"])])
def test_a_person_is_asked_with_the_very_commands(
    repo: Path, git: Git, fake: Fake, remote: Path, answer: str, there: list[str]
) -> None:
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    kern = subprocess.run(
        [sys.executable, "-m", "kern", "pr"],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
    )
    os.close(theirs)
    os.close(ours)
    assert kern.returncode == 0, kern.stderr
    assert "This runs:\n  git push --set-upstream origin HEAD:kern/tonight\n" in kern.stderr
    assert "Push and open the pull request? [y/N]" in kern.stderr
    assert pushed(git, remote) == there


def test_what_is_lacking_is_said_with_what_to_type(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    nothing = kern("pr")
    assert nothing.code == 1 and "knows of no task that was done on main" in nothing.err
    assert kern("1", "0").code == 0
    alone = kern("pr", "--yes")
    assert alone.code == 0 and "there is no remote to open a pull request at" in alone.err
    git("remote", "add", "origin", "../nowhere")
    assert "main is what a pull request would go into" in kern("pr", "--yes").err
    git("switch", "--quiet", "--create", "side")
    journal = repo / ".git" / "kern" / "events.jsonl"
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps({**row, "branch": "side"}) + "\n" for row in rows))
    (fake.folder / "bin" / "git").symlink_to("/usr/bin/git")
    env = {"PATH": str(fake.folder / "bin")}
    assert "gh, GitHub's command, is not installed" in kern("pr", "--yes", env=env).err
    git("checkout", "--quiet", "--detach")
    assert "git switch -c NAME" in kern("pr").err
