"""What a gate sees in a room: exactly a tree, at the project's own path. Real git, namespaces and
overlays.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kern.git.repository import open_at, outermost
from kern.git.room import Room
from kern.person import Holding, Mode
from kern.sandbox import closed, confine, wall
from kern.sandbox.confine import Sandbox, chosen
from kern.sandbox.means import Overlays
from kern.sandbox.wall import Kind, Tree
from tests.conftest import Git, commit_all
from tests.sandbox.test_wall import needs_bwrap

pytestmark = needs_bwrap
Run = Callable[[str], "subprocess.CompletedProcess[str]"]


def held(root: Path, tmp_path: Path) -> Sandbox:
    confine.homes(tmp_path / "own")
    wanted = Sandbox(
        Tree(root, root / ".git", root / ".git"),
        tmp_path / "home",
        tmp_path / "own",
        Holding(network=("*",)),
        programs=confine.programs(tmp_path / "home", sys.executable),
        relay=tmp_path / "relay",
    )
    return chosen(Mode.BWRAP, wanted)


def room_of(root: Path) -> Room:
    repo = open_at(root)
    return Room(repo, "room", repo, outermost(repo))


def filled(root: Path, tree: str, git: Git) -> Room:
    room = room_of(root)
    room.fill(git("rev-parse", tree, cwd=root))
    return room


def seen_in(
    sandbox: Sandbox, room: Room, command: str, laid: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    seen = wall.Room(room.tree, room.index, room.over, room.mounts, laid=laid)
    confined = sandbox.confine(Kind.CHECK, ["sh", "-c", command], os.environ, room=seen)
    return subprocess.run(
        confined.argv, env=dict(confined.env), capture_output=True, text=True, check=False
    )


@pytest.fixture(params=["as it is", "read-only"])
def here(request: pytest.FixtureRequest, repo: Path, git: Git, tmp_path: Path) -> tuple[Room, Run]:
    """With overlays as the machine has them, and where it has none."""
    (repo / ".gitignore").write_text(".env\nbuild/\nnode_modules/\n")
    (repo / "lib.py").write_text("x = 1\n")
    commit_all(git, "begin")
    (repo / ".env").write_text("A=1\n")
    for name in ("build/there", "packages/a/node_modules/x"):
        (repo / name).parent.mkdir(parents=True)
        (repo / name).write_text("yours\n")
    sandbox = held(repo, tmp_path)
    assert sandbox.overlays is not Overlays.NONE
    if request.param == "read-only":
        sandbox = replace(sandbox, overlays=Overlays.NONE)
    room = room_of(repo)

    return room, partial(seen_in, sandbox, room)


def test_exactly_the_tree_is_there_at_the_projects_path(
    here: tuple[Room, Run], repo: Path, git: Git
) -> None:
    room, run = here
    (repo / "mine.py").write_text("mine\n")
    (repo / "lib.py").write_text("x = 2\n")
    (repo / "build/new").write_text("of an agent\n")
    room.fill(git("rev-parse", "HEAD^{tree}"))
    said = run("pwd; cat lib.py .env build/there packages/a/node_modules/x; ls; git status -s")
    assert said.stdout.split("\n")[:5] == [str(repo), "x = 1", "A=1", "yours", "yours"], said.stderr
    assert "mine.py" not in said.stdout and " M lib.py" not in said.stdout
    done = run("git diff --exit-code && git describe --always && cd packages/a && git log -1")
    assert done.returncode == 0, done.stderr


def test_what_a_gate_does_there_is_gone_and_yours_is_as_it_was(
    here: tuple[Room, Run], repo: Path, git: Git
) -> None:
    room, run = here
    git("config", "core.ignoreStat", "true")
    room.fill(git("rev-parse", "HEAD^{tree}"))
    git("update-index", "--add", "--cacheinfo", f"100644,{git('rev-parse', 'HEAD:lib.py')},src/b")
    room.fill(tree := git("write-tree"))
    run("echo x > lib.py; echo y > new; rm .env; echo z > build/made; rm -r build/there; mkdir d")
    run("mkfifo src/pipe; git init -q src")  # of which git says nothing
    assert room.candidate() != tree
    room.fill(tree)
    assert room.candidate() == tree
    there = run("cat lib.py .env build/there; ls new build/made d src/pipe src/.git").stdout
    assert there == "x = 1\nA=1\nyours\n"
    assert (repo / ".env").read_text() == "A=1\n"
    assert [path.name for path in (repo / "build").iterdir()] == ["there"]
    assert (repo / "lib.py").read_text() == "x = 1\n" and not (repo / "new").exists()


def test_a_second_filling_writes_what_differs(here: tuple[Room, Run], repo: Path, git: Git) -> None:
    room, run = here
    os.utime(repo / "a.txt", (1_000_000_000, 1_000_000_000))
    room.fill(git("rev-parse", "HEAD^{tree}"))
    assert int((room.tree / "a.txt").stat().st_mtime) == 1_000_000_000, "a build is warm"
    before = (room.tree / "a.txt").stat().st_ino
    (repo / "lib.py").write_text("x = 3\n")
    git("commit", "-qam", "three")
    room.fill(git("rev-parse", "HEAD^{tree}"))
    assert run("cat lib.py").stdout == "x = 3\n"
    assert (room.tree / "a.txt").stat().st_ino == before


def test_what_you_built_of_a_later_edit_passes_for_no_build_of_the_tree(
    here: tuple[Room, Run], repo: Path, git: Git
) -> None:
    room, run = here
    room.fill(git("rev-parse", "HEAD^{tree}"))
    (repo / "lib.py").write_text("mine\n")
    shutil.copy(repo / "lib.py", repo / "build/lib")
    room.fill(git("rev-parse", "HEAD^{tree}"))
    assert run("[ build/lib -nt lib.py ]").returncode, "make would take it for built"


@pytest.mark.parametrize(
    ("harm", "young"),
    [
        ("echo x = 9 > lib.py; touch -d @1000000000 lib.py", 2_000_000_000),
        ("sleep 1.1; echo x = 9 > lib.py; touch -d @1000000000 lib.py", 0),
        ("chmod 600 lib.py", 2_000_000_000),
    ],
)
def test_a_filling_undoes_what_git_would_not_see(
    here: tuple[Room, Run],
    repo: Path,
    git: Git,
    harm: str,
    young: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kern.git.room._YOUNG_NS", young)
    room, run = here
    git("config", "core.trustctime", "false")
    os.utime(repo / "lib.py", (1_000_000_000, 1_000_000_000))
    git("status")  # its index knows that
    tree = git("rev-parse", "HEAD^{tree}")
    room.fill(tree)
    room.fill(tree)
    done = subprocess.run(["sh", "-c", f"sleep 0.02; {harm}"], cwd=room.tree, check=False)
    assert done.returncode == 0
    room.fill(tree)
    assert run("cat lib.py; stat -c %a lib.py").stdout == "x = 1\n644\n"


def test_nothing_is_written_through_a_link_of_the_tree(
    here: tuple[Room, Run], repo: Path, git: Git, tmp_path: Path
) -> None:
    theirs, conf = tmp_path / "theirs", repo / "conf"
    conf.symlink_to(theirs)
    git("add", "conf")
    tree = git("write-tree")
    git("rm", "-q", "-f", "conf")
    for folder in (theirs, conf):
        folder.mkdir()
        (folder / "kept").touch()
        (folder / ".env").write_text(f"of {folder.name}\n")
    (conf / "build").mkdir()
    (conf / "build/made").touch()
    git("add", "conf")
    os.utime(theirs / "kept", (1_000_000_000, 1_000_000_000))
    room_of(repo).fill(tree)
    assert {path.name for path in theirs.iterdir()} == {".env", "kept"}
    assert (theirs / ".env").read_text() == "of theirs\n"
    assert (theirs / "kept").stat().st_mtime == 1_000_000_000


def test_a_filling_that_was_killed_is_made_anew(here: tuple[Room, Run], git: Git) -> None:
    room, run = here
    tree = git("rev-parse", "HEAD^{tree}")
    room.fill(tree)
    for harm in (
        lambda: room.index.write_bytes(b"DIRC"),
        lambda: shutil.rmtree(room.tree),
        lambda: room.index.with_name("index.lock").touch(),
    ):
        harm()
        room.fill(tree)
        assert run("cat lib.py").stdout == "x = 1\n"


def test_a_path_of_any_name(repo: Path, git: Git, tmp_path: Path) -> None:
    root = tmp_path / "comma,colon:back\\slash and ümlaut"
    repo.rename(root)
    (root / ".gitignore").write_text("o,u:t/\n")
    git("add", "--all", cwd=root)
    git("commit", "-qm", "begin", cwd=root)
    (root / "o,u:t").mkdir()
    (root / "o,u:t/x").write_text("x\n")
    command = "cat 'o,u:t/x' && echo y > 'o,u:t/y' && git status -s"
    done = seen_in(held(root, tmp_path), filled(root, "HEAD^{tree}", git), command)
    assert done.stdout == "x\n", done.stderr


def test_what_is_laid_over_it_leaves_by_no_link_and_leaves_the_room_as_it_is(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    outside, hidden = tmp_path / "outside", tmp_path / "hidden"
    for name in ("tests/sub/t.py", "own.txt", "folder"):
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        (hidden / name).write_text("hidden\n")
    outside.mkdir()
    (outside / "own.txt").write_text("outside\n")
    (repo / "tests").symlink_to(outside)
    (repo / "own.txt").unlink(missing_ok=True)
    (repo / "own.txt").symlink_to(outside / "own.txt")
    (repo / "folder").mkdir()
    (repo / "folder/a").write_text("a\n")
    git("add", "--all")
    tree = git("write-tree")
    room = filled(repo, tree, git)
    command = "cat tests/sub/t.py own.txt folder a.txt; echo x > own.txt; echo x > tests/new"
    done = seen_in(held(repo, tmp_path), room, command, hidden)
    assert done.stdout.split()[:3] == ["hidden"] * 3 and not done.returncode, done.stderr
    assert [one.name for one in outside.iterdir()] == ["own.txt"]
    assert (outside / "own.txt").read_text() == "outside\n"
    assert room.candidate() == tree and not (hidden / "tests/new").exists()


def test_what_agents_see_is_known(repo: Path, tmp_path: Path) -> None:
    sandbox = held(repo, tmp_path)
    for name in ("home/a", "home/data/a", "b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    sandbox = replace(sandbox, grants=Holding(read=(f"{tmp_path}/home/data",), network=("*",)))
    names = "home/a", "home/data/a", repo.name, "b"
    child = sandbox.confine(Kind.WORKER, (), os.environ)
    seen = closed.access(child, *(tmp_path / name for name in names))
    assert [*map(bool, seen)] == [False, True, True, False]
