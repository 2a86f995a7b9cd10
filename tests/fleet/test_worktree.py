"""Worktrees, what a person's tree lends them, and one task in one by an ordinary kern."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kern.config import Worktree
from kern.errors import UsageError
from kern.fleet import work, worktree
from kern.fleet.work import Job
from kern.fleet.worktree import Yard
from kern.git import repository
from kern.model import Key
from kern.system import workspace
from tests.conftest import Fake, Git

KEY = Key("", "add a greeting")


@pytest.fixture
def yard(repo: Path) -> Yard:
    here, scope = repository.open_at(repo), workspace.scope(repo, "main")
    return Yard(here, scope.folder / worktree.FOLDER, "project", here, Worktree())


def job(git: Git, repo: Path, **more: object) -> Job:
    documents = (("SPEC.md", (repo / "SPEC.md").read_text()),)
    name = work.branch("main", KEY)
    return Job(KEY, 1, git("rev-parse", "HEAD"), name, 2, "f" * 16, "main", documents, **more)  # type: ignore[arg-type]


def test_a_worktree_is_used_again_and_what_git_ignores_stays_in_it(
    repo: Path, git: Git, fake: Fake, yard: Yard
) -> None:
    (repo / ".git/info/exclude").write_text("cache\n")
    worktree.carry_out(yard, job(git, repo))
    root, name = yard.place(2), "kern/work/x-123456"
    for file in ("cache", "left.txt", "a.txt"):
        (root / file).write_text("a gate's\n")
    worktree.make(yard, 2, git("rev-parse", "HEAD"), "-B", name)
    assert (root / "cache").exists() and not (root / "left.txt").exists()
    assert (root / "a.txt").read_text() == (repo / "a.txt").read_text()
    assert worktree.numbers(yard) == {2: name}
    git("worktree", "lock", str(root))
    shutil.rmtree(root)
    assert worktree.of(yard, 2) is None
    assert worktree.make(yard, 2, name).head().branch == name
    (root / ".git").unlink()  # something else lies there
    assert worktree.make(yard, 2, name).head().branch == name
    worktree.remove(yard, 2)
    assert not root.exists() and len(git("worktree", "list").splitlines()) == 1


def test_a_worktree_gets_what_kern_toml_names(repo: Path, git: Git, fake: Fake, yard: Yard) -> None:
    (repo / ".git/info/exclude").write_text(".env\nconf/\nsecret*\n")
    (repo / ".env").write_text("A=1\n")
    (repo / "conf").mkdir()
    (repo / "conf/local.yml").write_text("x\n")
    (repo / "secret1").write_text("s\n")
    (repo / "secret2").write_text("s\n")
    (repo / "unignored").write_text("u\n")
    (repo / ".worktreeinclude").write_text("secret?\n!secret2\nunignored\n")
    (repo / "kern.toml").write_text(
        f'[worktree]\nsetup = "echo $KERN_WORKER $KERN_PORT >> {repo}/../set-up"\n'
    )
    git("add", "kern.toml")
    git("commit", "--quiet", "--message=settings")
    yard = replace(yard, many=Worktree(copy=(".env", "conf")))
    first = job(git, repo)
    for _ in range(2):
        came = worktree.carry_out(yard, first)
        assert (came.code, came.fault) == (0, "")
        git("update-ref", "-d", f"refs/heads/{first.branch}")
    root = yard.place(2)
    assert (root / ".env").read_text() == "A=1\n"
    assert (root / "conf/local.yml").exists()
    assert (root / "secret1").exists()
    assert not (root / "secret2").exists() and not (root / "unignored").exists()
    assert (repo / "../set-up").read_text() == "2 20080\n"  # once, and the worker is told


@pytest.mark.parametrize("path", ["gone", "abs/key", "new.txt", "a.txt"])
def test_what_git_does_not_ignore_or_is_behind_a_link_is_not_copied(
    repo: Path, git: Git, tmp_path: Path, path: str
) -> None:
    """A link that git tracks is in the worktree as well: behind it both paths are one file."""
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh/key").write_text("KEY\n")
    (repo / "abs").symlink_to(tmp_path / "ssh")
    (repo / ".gitignore").write_text("*.local\nkey\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=a link")
    (repo / "new.txt").write_text("mine\n")
    with pytest.raises(UsageError, match=f"worktree.copy in kern.toml names {path}: "):
        worktree.check(repository.open_at(repo), Worktree(copy=(path,)))


def test_of_a_folder_what_git_ignores_is_copied_and_no_link_is_followed(
    repo: Path, git: Git, fake: Fake, yard: Yard, tmp_path: Path
) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away/x").write_text("theirs\n")
    (repo / "conf/x.local/in").mkdir(parents=True)
    (repo / "conf/tracked").write_text("committed\n")
    (repo / ".git/info/exclude").write_text("*.local\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=settings")
    (repo / "conf/tracked").write_text("changed\n")
    (repo / "conf/x.local/in/x").write_text("mine\n")
    yard = replace(yard, many=Worktree(copy=("conf",)))
    conf = yard.place(2) / "conf"
    for _ in range(2):
        assert worktree.carry_out(yard, job(git, repo)).fault == ""
        assert (conf / "x.local/in/x").read_text() == "mine\n"
        assert (conf / "tracked").read_text() == "committed\n"
        # What a task has left in the worktree leads nowhere either.
        shutil.rmtree(conf / "x.local/in")
        (conf / "x.local/in").symlink_to(tmp_path / "away")
        git("update-ref", "-d", f"refs/heads/{job(git, repo).branch}")
    assert (tmp_path / "away/x").read_text() == "theirs\n"


def test_hooks_that_git_does_not_track_run_in_a_worktree(
    repo: Path, git: Git, fake: Fake, yard: Yard
) -> None:
    folder = repo / ".husky/_"
    folder.mkdir(parents=True)
    (folder / ".gitignore").write_text("*\n")
    (folder / "h").write_text("echo no secrets; exit 1\n")
    hook = folder / "pre-commit"
    hook.write_text('#!/bin/sh\n. "$PWD/.husky/_/h"\n')
    hook.chmod(0o755)
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", "--message=hooks")
    git("config", "core.hooksPath", ".husky/_")
    came = worktree.carry_out(yard, job(git, repo))
    assert came.commit == ""
    assert "the pre-commit hook refused" in came.fault and came.under_way


# ---------------------------------------------------------------- what leads back

SITE = ".venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (f"echo {{root}}/src > {SITE}/_p.pth", "_p.pth"),
        (
            f'echo \'MAPPING = {{{{"p": "{{root}}/src"}}}}\' > {SITE}/__editable___p.py',
            "__editable",
        ),
        ("echo CMAKE_HOME_DIRECTORY:INTERNAL={root} > .venv/CMakeCache.txt", "CMakeCache.txt"),
        ("ln -s {root}/packages/a .venv/a", "a"),
        ("ln -s {root}/.venv/lib .venv/lib64", ""),
        (f"echo {{root}}2/src > {SITE}/_p.pth; echo import os > {SITE}/r.pth", ""),
        ("ln -s {root}2/x .venv/x; echo {root} > .venv/bin-activate", ""),
    ],
)
def test_what_is_copied_leads_nowhere_back(repo: Path, yard: Yard, make: str, found: str) -> None:
    (repo / ".git/info/exclude").write_text(".venv\n")
    (repo / SITE).mkdir(parents=True)
    subprocess.run(["sh", "-ec", make.format(root=repo)], cwd=repo, check=True)
    wanted, home = Worktree(copy=(".venv",)), repository.open_at(repo)
    if not found:
        worktree.check(home, wanted)
        return
    with pytest.raises(UsageError, match=f"leads back to your tree .*{found}.*: a worker would"):
        worktree.check(home, wanted)
