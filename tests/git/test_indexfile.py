"""git's index file against git's own listing of it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kern.git import indexfile
from kern.git.faults import GitFailed
from tests.conftest import Git

NAMES = ("a", "ab", "deep/er/file", "deep/er/other", "ünïcode", "x" * 200, "z" * 5000)


def listed(git: Git) -> list[tuple[str, int, str, int]]:
    rows = [row.partition("\t") for row in git("ls-files", "-s", "-z").split("\0") if row]
    heads = [head.split(" ") for head, _, _ in rows]
    return [
        (path, int(mode, 8), blob, int(stage))
        for (mode, blob, stage), (_, _, path) in zip(heads, rows, strict=True)
    ]


def read(root: Path, width: int = 20) -> list[tuple[str, int, str, int]]:
    found = indexfile.read(root / ".git/index", width)
    return [
        (os.fsdecode(one.path), one.mode, one.blob.hex(), (one.flags & indexfile.UNMERGED) >> 12)
        for one in found
    ]


def filled(root: Path, git: Git) -> None:
    """What has a long name is in the index alone."""
    for name in NAMES[:-1]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{len(name)}\n")
    (root / "link").symlink_to("a")
    git("add", "--all")
    blob = git("hash-object", "a").strip()
    git("update-index", "--add", "--cacheinfo", f"100644,{blob},{NAMES[-1]}")


@pytest.mark.parametrize("version", ["2", "4"])
def test_it_has_what_git_lists(version: str, repo: Path, git: Git) -> None:
    filled(repo, git)
    git("update-index", "--index-version", version)
    assert indexfile.version(repo / ".git/index") == int(version)
    assert read(repo) == listed(git)
    known = {os.fsdecode(one.path): one for one in indexfile.read(repo / ".git/index", 20)}
    info = (repo / "deep/er/file").stat()
    there = known["deep/er/file"]
    assert (there.size, there.changed) == (info.st_size, int(info.st_ctime))


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_only_what_changed_of_late_is_read_where_that_is_asked(
    version: str, repo: Path, git: Git
) -> None:
    filled(repo, git)  # what was not looked at has no time: it is older than all
    if version == "3":
        mark(git, repo, "INTENDED")
    else:
        git("update-index", "--index-version", version)
    everything = [*indexfile.read(repo / ".git/index", 20)]
    newest = max(one.changed for one in everything)
    late = [*indexfile.read(repo / ".git/index", 20, newest)]
    assert late == [one for one in everything if one.changed >= newest]
    assert 0 < len(late) < len(everything)


def mark(git: Git, root: Path, name: str) -> None:
    if name == "INTENDED":
        (root / "new").write_text("new\n")
        git("add", "-N", "new")
    else:
        option = {"SKIPPED": "--skip-worktree", "ASSUMED": "--assume-unchanged"}[name]
        git("update-index", option, "ab")


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("name", ["SKIPPED", "ASSUMED", "INTENDED"])
def test_it_has_the_marks(name: str, version: str, repo: Path, git: Git) -> None:
    filled(repo, git)
    git("update-index", "--index-version", version)
    mark(git, repo, name)
    path = "new" if name == "INTENDED" else "ab"
    found = [
        os.fsdecode(one.path)
        for one in indexfile.read(repo / ".git/index", 20)
        if one.flags & getattr(indexfile, name)
    ]
    assert found == [path]
    assert read(repo) == listed(git)
    plain = indexfile.version(repo / ".git/index") == indexfile.PLAIN
    assert plain == (version == "2" and name == "ASSUMED")


def test_it_has_the_sides_of_a_conflict(repo: Path, git: Git) -> None:
    filled(repo, git)
    git("commit", "-q", "-m", "filled")
    for branch, text in (("left", "one\n"), ("right", "another\n")):
        git("checkout", "-q", "-b", branch, "main")
        (repo / "ab").write_text(text)
        git("commit", "-q", "-a", "-m", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "left")
    assert [stage for path, _, _, stage in read(repo) if path == "ab"] == [1, 2, 3]
    assert read(repo) == listed(git)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize("damage", [_cut, lambda data: b"JUNK" + data[4:], lambda data: b""])
def test_a_damaged_one_is_no_index(damage: Callable[[bytes], bytes], repo: Path, git: Git) -> None:
    filled(repo, git)
    place = repo / ".git/index"
    place.write_bytes(damage(place.read_bytes()))
    with pytest.raises(GitFailed, match="index file corrupt"):
        read(repo)
