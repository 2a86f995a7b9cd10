"""Commits travel as bytes: thin where the other side has something, whole or refused."""

import subprocess
from pathlib import Path

import pytest

from kern.errors import KernError
from kern.git import bundles
from kern.git.repository import Repo, open_at
from tests.conftest import Git

NAME, OURS = "refs/heads/work", "refs/kern/here"


@pytest.fixture
def other(tmp_path: Path) -> Repo:
    """An empty bare repository."""
    place = tmp_path / "cache.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(place)], check=True)
    return Repo(place, place, place)


def commit(repo: Path, git: Git, text: str) -> str:
    (repo / "a.txt").write_text(text)
    git("commit", "--quiet", "--all", f"--message={text[:20]}")
    return git("rev-parse", "HEAD")


def test_a_full_bundle_goes_into_an_empty_repository_and_a_thin_one_on_top(
    repo: Path, git: Git, other: Repo
) -> None:
    blob = "".join(f"{number * 7919 % 10007}\n" for number in range(20_000))
    first, here = commit(repo, git, blob), open_at(repo)
    whole = bundles.pack(here, {NAME: first})
    bundles.unpack(other, whole, {NAME: OURS})
    assert other.text("rev-parse", OURS) == first
    assert other.content(OURS, "a.txt") == blob.encode()
    second = commit(repo, git, blob + "more\n")
    thin = bundles.pack(here, {NAME: second}, [first, "0" * 40])
    assert len(thin) < len(whole) / 20, "the delta's base is not sent along"
    assert bundles.head(thin) == ({NAME: second}, [first])
    bundles.unpack(other, thin, {NAME: OURS})
    assert other.content(OURS, "a.txt") == (blob + "more\n").encode()
    assert bundles.pack(here, {NAME: second}, [second]) == b""


def test_what_it_builds_on_is_said_before_anything_is_written(
    repo: Path, git: Git, other: Repo
) -> None:
    first = git("rev-parse", "HEAD")
    thin = bundles.pack(open_at(repo), {NAME: commit(repo, git, "x")}, [first])
    with pytest.raises(bundles.Lacking, match=first):
        bundles.unpack(other, thin, {NAME: OURS})
    assert not other.text("for-each-ref")


def test_a_torn_bundle_is_refused_wherever_it_is_torn(repo: Path, git: Git, other: Repo) -> None:
    whole = bundles.pack(open_at(repo), {NAME: commit(repo, git, "text\n" * 999)})
    pack = whole.index(b"PACK")
    flipped = whole[: pack + 40] + bytes([whole[pack + 40] ^ 1]) + whole[pack + 41 :]
    cuts = (0, 10, pack - 1, pack + 2, pack + 40, len(whole) // 2, len(whole) - 1)
    for data in (b"", b"nonsense", flipped, *(whole[:cut] for cut in cuts)):
        with pytest.raises(KernError, match="torn"):
            bundles.unpack(other, data, {NAME: OURS})
        assert not other.text("for-each-ref")
    assert not list(other.common_dir.glob(".kern-*"))


def test_only_the_names_that_are_asked_for_are_written(repo: Path, git: Git, other: Repo) -> None:
    now = git("rev-parse", "HEAD")
    data = bundles.pack(open_at(repo), {NAME: now, "refs/heads/main": now})
    with pytest.raises(KernError, match="lacks refs/heads/other"):
        bundles.unpack(other, data, {NAME: OURS, "refs/heads/other": "refs/kern/x"})
    assert not other.text("for-each-ref")
    bundles.unpack(other, data, {NAME: OURS})
    assert other.text("for-each-ref", "--format=%(refname)") == OURS


def test_a_shallow_clone_says_what_to_do(repo: Path, git: Git, tmp_path: Path) -> None:
    commit(repo, git, "x")
    git("clone", "--quiet", "--depth=1", f"file://{repo}", "shallow", cwd=tmp_path)
    with pytest.raises(KernError) as told:
        bundles.pack(open_at(tmp_path / "shallow"), {NAME: git("rev-parse", "HEAD")})
    assert told.value.hint == "git fetch --unshallow"
