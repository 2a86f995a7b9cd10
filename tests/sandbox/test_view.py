"""A worktree at the path of the tree that it was made from: real namespaces, a real git."""

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kern.person import Mode
from kern.sandbox import confine, view
from kern.sandbox.confine import Sandbox, chosen
from kern.sandbox.wall import Kind, Tree
from tests.conftest import Git
from tests.sandbox.test_wall import needs_bwrap

pytestmark = needs_bwrap


@dataclass
class World:
    tree: Path
    made: Path  # the worktree
    git_dir: Path
    wanted: Sandbox

    def sh(self, kind: Kind, command: str, **env: str) -> "subprocess.CompletedProcess[str]":
        held = chosen(Mode.BWRAP, self.wanted)
        confined = held.confine(kind, ["sh", "-c", command], {**os.environ, **env})
        return subprocess.run(
            confined.argv,
            cwd=self.made,
            env=dict(confined.env),
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(params=["home/project", "elsewhere/pröject 2"])
def world(tmp_path: Path, repo: Path, git: Git, request: pytest.FixtureRequest) -> World:
    tree, made = tmp_path / request.param, tmp_path / "made" / "project-1"
    tree.parent.mkdir(exist_ok=True)
    repo.rename(tree)
    (tree / ".git/info/exclude").write_text("node_modules\n.venv\ntarget\n.env\n")
    for name in (".venv", "node_modules", "target"):
        (tree / name).mkdir()
        (tree / name / "own").write_text("the person's\n")
    (tree / ".env").write_text("A=1\n")
    git("worktree", "add", "--quiet", str(made), "-b", "work", cwd=tree)
    git_dir = tree / ".git/worktrees/project-1"
    home = tmp_path / "home"
    view.lay(git_dir, tree / ".git", view.of(tree, home, [".env"], [".venv", "node_modules"]))
    confine.homes(tmp_path / "own")
    found = Sandbox(
        Tree(made, git_dir, tree / ".git", documents=(made / "SPEC.md",)),
        home,
        tmp_path / "own",
        programs=confine.programs(home, sys.executable),
        view=view.find(git_dir),
    )
    return World(tree, made, git_dir, found)


def test_what_is_seen_there(world: World) -> None:
    (world.made / "a.txt").write_text("the worktree's\n")
    for kind in Kind:
        done = world.sh(kind, f'pwd; cd "{world.tree}" && cat a.txt node_modules/own .env; ls')
        assert done.stdout.splitlines() == [
            *(str(world.tree), "the worktree's", "the person's", "A=1"),
            *("SPEC.md", "a.txt", "node_modules", "own.txt"),
        ], done.stderr
        assert world.sh(kind, f"ls {world.made.parent}").returncode


def test_what_is_written_there_is_the_worktrees(world: World) -> None:
    assert world.sh(Kind.WORKER, "echo x > new.txt").returncode == 0
    assert (world.made / "new.txt").exists() and not (world.tree / "new.txt").exists()
    for command in ("echo x >> SPEC.md", "echo x > node_modules/x", "echo x > .git", "rm .env"):
        assert world.sh(Kind.WORKER, command).returncode, command
    assert world.sh(Kind.READER, "echo x > new.txt").returncode


def test_git_works_there(world: World, git: Git) -> None:
    (world.made / "a.txt").write_text("changed\n")
    done = world.sh(Kind.CHECK, "git status --porcelain; git rev-parse --show-toplevel HEAD")
    assert done.stdout.splitlines() == [
        " M a.txt",
        str(world.tree),
        git("rev-parse", "HEAD", cwd=world.tree),
    ]
    assert world.sh(Kind.WORKER, "git commit -qam x").returncode
    index = world.git_dir / "private"
    done = world.sh(Kind.COMMITTER, "git add a.txt && git commit -qam x", GIT_INDEX_FILE=str(index))
    assert done.returncode == 0, done.stderr
    assert git("log", "-1", "--format=%s", "work", cwd=world.tree) == "x"
    assert git("status", "--porcelain", cwd=world.tree) == ""
    command = "echo x > $(git rev-parse --git-path kern/view)"
    assert world.sh(Kind.COMMITTER, command).returncode, "it would open what it names"


@pytest.mark.parametrize("world", ["home/project"], indirect=True)
def test_settings_of_git_for_repositories_below_the_home_folder_hold_there(
    world: World, tmp_path: Path
) -> None:
    with (tmp_path / "home/.gitconfig").open("a") as settings:
        settings.write('[includeIf "gitdir:~/"]\n\tpath = .gitconfig-work\n')
    (tmp_path / "home/.gitconfig-work").write_text("[user]\n\temail = me@work.example\n")
    grants = replace(world.wanted.grants, read=(tmp_path / "home/.gitconfig-work",))
    world.wanted = replace(world.wanted, grants=grants)
    assert world.sh(Kind.CHECK, "git config user.email").stdout == "me@work.example\n"


def test_what_the_worktree_has_of_its_own_is_seen_in_place_of_the_persons(world: World) -> None:
    (world.made / ".venv").mkdir()
    (world.made / ".venv/own").write_text("a setup's\n")
    (world.made / "node_modules").symlink_to("/etc")
    assert (
        world.sh(Kind.CHECK, "cat .venv/own; readlink node_modules").stdout == "a setup's\n/etc\n"
    )
    assert world.sh(Kind.CHECK, "echo x > .venv/x").returncode == 0


def test_a_place_behind_a_link_gets_nothing(world: World, tmp_path: Path) -> None:
    """An agent may make any folder of the worktree a link."""
    (world.tree / "packages/a/node_modules").mkdir(parents=True)
    found = view.of(world.tree, tmp_path, [], ["packages/a/node_modules"])
    world.wanted = replace(world.wanted, view=found)
    (tmp_path / "away/a").mkdir(parents=True)
    (world.made / "packages").symlink_to(tmp_path / "away")
    assert world.sh(Kind.WORKER, "true").returncode == 0
    assert [*(tmp_path / "away/a").iterdir()] == []


def test_a_command_and_its_variables_name_what_is_seen(world: World) -> None:
    word = f"{world.made}/x {world.made}2 {world.git_dir}/y"
    done = world.sh(Kind.CHECK, f'echo "$A|$KERN_ROOT|{word}"', A=word, KERN_ROOT=str(world.made))
    aside = f"{world.wanted.view and world.wanted.view.aside}/worktrees/project-1/y"
    seen = f"{world.tree}/x {world.made}2 {aside}"
    assert done.stdout == f"{seen}|{world.made}|{seen}\n"
