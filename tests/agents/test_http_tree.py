"""No path leads out of the working tree, into git's folders, or writes what is kern's."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kern.agents.http_tree import Closed, Refused, Tree
from tests.conftest import Git


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("s3cret")
    return folder


@pytest.fixture
def tree(repo: Path) -> Iterator[Tree]:
    made = Tree(str(repo))
    yield made
    os.close(made._top)


def test_files_are_read_and_written_as_they_are(tree: Tree, repo: Path) -> None:
    assert tree.read("a.txt").startswith(b"one\n")
    assert tree.read(str(repo / "a.txt")) == tree.read("./b/../a.txt")
    assert tree.write("new/deep/file.txt", b"\xff\r\n")
    assert (repo / "new/deep/file.txt").read_bytes() == b"\xff\r\n"
    (repo / "a.txt").chmod(0o755)
    assert not tree.write("a.txt", b"x")
    assert (repo / "a.txt").stat().st_mode & 0o777 == 0o755


WAYS = ("link", "folder/secret.txt", "../outside/secret.txt", "deep/up/outside/secret.txt")


def planted(repo: Path, outside: Path) -> None:
    (repo / "link").symlink_to(outside / "secret.txt")
    (repo / "folder").symlink_to(outside)
    (repo / "deep").mkdir()
    (repo / "deep" / "up").symlink_to("../..")
    (repo / "again").symlink_to("link")
    (repo / "dangling").symlink_to(outside / "new.txt")
    (repo / "gitted").symlink_to(".git/hooks/pre-commit")
    (repo / "round").symlink_to("round")


@pytest.mark.parametrize(
    "path",
    [
        *(*WAYS, "again", "dangling", "~/x", "/etc/passwd", "..", "../", "/", "folder"),
        *("deep/up", "folder/../a.txt", "//etc/passwd", "./../outside"),
    ],
)
def test_nothing_outside_is_read_or_written(
    tree: Tree, repo: Path, outside: Path, path: str
) -> None:
    planted(repo, outside)
    if path == "folder/../a.txt":  # beside where the link leads
        (outside.parent / "a.txt").write_text("not yours")
    if path == "~/x":  # a folder of that name, in the tree
        assert tree.write(path, b"x") and (repo / "~/x").exists()
        return
    for act in (lambda: tree.read(path), lambda: tree.write(path, b"x")):
        with pytest.raises(Closed, match="outside of the working tree"):
            act()
    for look in (tree.entries, tree.files):
        with pytest.raises(Refused):
            list(look(path))
    assert [one.name for one in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "s3cret"


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "a/" * 3000, "\ud800", "round", ""])
def test_what_is_no_path_does_no_harm(tree: Tree, repo: Path, outside: Path, path: str) -> None:
    planted(repo, outside)
    for act in (lambda: tree.read(path), lambda: tree.write(path, b"x")):
        with pytest.raises(Refused):
            act()


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git", ".git/hooks/new", ".GIT/config", "a/../.git/HEAD", "gitted"),
        *("inner/.git/config", "inner/.git", ".g\u200cit/config"),
    ],
)
def test_git_s_own_folders_are_closed(tree: Tree, repo: Path, outside: Path, path: str) -> None:
    planted(repo, outside)
    (repo / "inner/.git").mkdir(parents=True)
    for act in (lambda: tree.read(path), lambda: tree.write(path, b"x")):
        with pytest.raises(Closed, match="belongs to git"):
            act()
    listed = {*tree.entries("."), *tree.files(".")}
    assert not any(".git" in name.split("/") for name in listed)
    assert ".git/" not in tree.entries("inner")


def test_in_a_worktree_or_with_a_folder_elsewhere_as_well(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", "wt")
    tree = Tree(str(repo / "wt"))
    with pytest.raises(Closed):
        tree.read(".git")
    with pytest.raises(Closed):
        tree.write("../a.txt", b"x")
    own = tmp_path / "own"
    (own / "data").mkdir(parents=True)
    git("init", "-q", "--separate-git-dir", str(own / "data" / "store"), str(own))
    tree = Tree(str(own))
    for path in ("data/store/config", "data/store/hooks/pre-commit"):
        with pytest.raises(Closed, match="belongs to git"):
            tree.write(path, b"x")
    assert tree.write("data/other", b"x")
    assert tree.entries("data") == ["other"]


@pytest.mark.parametrize(
    "path",
    [
        *("SPEC.md", "./SPEC.md", "spec.md", "LEARNINGS.md", "kern.toml", ".kern/prompts/x.md"),
        *(".kern", "there"),
    ],
)
def test_what_kern_or_a_person_writes_is_read_alone(tree: Tree, repo: Path, path: str) -> None:
    (repo / "there").symlink_to("SPEC.md")
    before = (repo / "SPEC.md").read_text()
    with pytest.raises(Closed, match="may be read"):
        tree.write(path, b"x")
    assert (repo / "SPEC.md").read_text() == before
    assert tree.read("SPEC.md") == tree.read("there") == before.encode()
    assert tree.write("docs/SPEC.md", b"x"), "another one"


def test_what_is_no_file_is_not_waited_for(tree: Tree, repo: Path) -> None:
    os.mkfifo(repo / "pipe")
    for act in (lambda: tree.read("pipe"), lambda: tree.write("pipe", b"x")):
        with pytest.raises(Refused, match="is no file"):
            act()
    with pytest.raises(Refused):
        tree.read(".")
    (repo / "large").touch()
    os.truncate(repo / "large", 9_000_000)
    with pytest.raises(Refused, match="9 MB"):
        tree.read("large")


def test_a_file_with_another_name_outside_is_replaced(
    tree: Tree, repo: Path, outside: Path
) -> None:
    os.link(outside / "secret.txt", repo / "hard")
    tree.write("hard", b"mine")
    assert (outside / "secret.txt").read_text() == "s3cret"
    assert (repo / "hard").read_text() == "mine"


def test_a_link_that_comes_after_the_look_leads_nowhere(
    tree: Tree, repo: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a command that is still running could put one there."""
    (repo / "folder").mkdir()
    (repo / "folder/secret.txt").write_text("mine")
    looked = os.path.realpath

    def late(path: str) -> str:
        found = looked(path)
        if not (repo / "folder").is_symlink():
            (repo / "folder").rename(repo / "away")
            (repo / "folder").symlink_to(outside)
        return found

    monkeypatch.setattr(os.path, "realpath", late)
    for act in (
        lambda: tree.read("folder/secret.txt"),
        lambda: tree.write("folder/secret.txt", b"x"),
        lambda: tree.write("folder/new/file", b"x"),
        lambda: tree.entries("folder"),
    ):
        if (repo / "folder").is_symlink():
            (repo / "folder").unlink()
            (repo / "away").rename(repo / "folder")
        with pytest.raises(Refused):
            act()
    (repo / "folder").unlink()
    (repo / "away").rename(repo / "folder")
    assert not any(map(tree.text, tree.files("folder")))
    assert [one.name for one in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "s3cret"


def test_links_that_come_and_go_never_lead_out(tree: Tree, repo: Path, outside: Path) -> None:
    place, other, spare = repo / "flip", repo / "link", repo / "real"
    spare.write_text("mine")
    other.symlink_to(outside / "secret.txt")
    place.write_text("mine")
    ended = threading.Event()

    def flip() -> None:
        while not ended.is_set():
            for one in (other, spare):
                temporary = repo / "tmp"
                if one.is_symlink():
                    temporary.symlink_to(outside / "secret.txt")
                else:
                    temporary.write_text("mine")
                temporary.replace(place)

    flipping = threading.Thread(target=flip)
    flipping.start()
    try:
        for _ in range(2000):
            try:
                assert tree.read("flip") in (b"mine", b"", b"x")
                tree.write("flip", b"x")
            except Refused:
                continue
    finally:
        ended.set()
        flipping.join()
    assert (outside / "secret.txt").read_text() == "s3cret"


def test_a_walk_goes_through_no_link_and_leaves_out_what_tools_keep(
    tree: Tree, repo: Path, outside: Path
) -> None:
    planted(repo, outside)
    for name in ("node_modules/x.js", "cache/CACHEDIR.TAG", "cache/y", "env/pyvenv.cfg", "src/b"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("x")
    found = {name: tree.text(name) for name in tree.files(".")}
    assert {"a.txt", "src/b", "SPEC.md"} <= found.keys()
    assert not [one for one in found if one.startswith(("node", "cache", "env", "folder/", "deep"))]
    assert found["link"] == ""
    assert "s3cret" not in "".join(filter(None, found.values()))
    assert [*tree.files("node_modules")] == ["node_modules/x.js"]
    assert [*tree.files("a.txt")] == ["a.txt"]
    assert "folder -> " in " ".join(tree.entries("."))
