"""A person's index and files go along with their branch; what they have not committed stays."""

import os
from pathlib import Path

import pytest

from kern.git import along, repository
from kern.git.repository import Repo
from tests.conftest import Git

KEEP = ("SPEC.md",)


@pytest.fixture
def moved(repo: Path, git: Git) -> tuple[str, str]:
    """Two commits, the first checked out: content, mode, link, a file for a folder and back."""
    (repo / "run.sh").write_text("echo\n")
    (repo / "gone.txt").write_text("gone\n")
    (repo / "file").write_text("file\n")
    (repo / "folder").mkdir()
    (repo / "folder/one").write_text("one\n")
    (repo / "link").symlink_to("a.txt")
    git("add", "--all")
    git("commit", "-qm", "old")
    old = git("rev-parse", "HEAD")
    (repo / "a.txt").write_text("ONE\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "gone.txt").unlink()
    (repo / "file").unlink()
    (repo / "file").mkdir()
    (repo / "file/inner").write_text("inner\n")
    (repo / "folder/one").unlink()
    (repo / "folder").rmdir()
    (repo / "folder").write_text("now a file\n")
    (repo / "link").unlink()
    (repo / "link").symlink_to("own.txt")
    (repo / "deep/er").mkdir(parents=True)
    (repo / "deep/er/new.txt").write_text("new\n")
    (repo / "SPEC.md").write_text("- [x] add a greeting\n")
    git("add", "--all")
    git("commit", "-qm", "new")
    new = git("rev-parse", "HEAD")
    git("reset", "--quiet", "--hard", old)
    return old, new


def land(found: Repo, git: Git, old: str, new: str) -> list[str]:
    git("update-ref", "refs/heads/main", new, old)
    return along.follow(found, old, new, KEEP)


def test_files_modes_links_and_folders_become_what_the_commit_has(
    repo: Path, git: Git, moved: tuple[str, str]
) -> None:
    found = repository.open_at(repo)
    assert along.blocked(found, *moved, KEEP) == []
    assert git("status", "--porcelain") == "", "to ask writes nothing"
    assert land(found, git, *moved) == []
    assert git("status", "--porcelain") == "M  SPEC.md", "which is the caller's to write"
    assert git("diff", "--stat", "HEAD", "--", ".", ":!SPEC.md") == ""
    assert os.access(repo / "run.sh", os.X_OK) and os.readlink(repo / "link") == "own.txt"
    assert (repo / "SPEC.md").read_text() == "- [ ] add a greeting\n"


@pytest.mark.parametrize(
    ("edit", "blocked"),
    [
        ("echo mine >> a.txt", ["a.txt"]),
        ("echo mine >> a.txt; git add a.txt", ["a.txt"]),
        ("echo mine > run.sh; git add run.sh; git show HEAD:run.sh > run.sh", ["run.sh"]),
        ("mkdir -p deep/er; echo mine > deep/er/new.txt", ["deep/er/new.txt"]),
        ("echo mine > deep", ["deep/er/new.txt"]),
        (
            "echo /deep > .git/info/exclude; mkdir -p deep/er; echo my > deep/er/new.txt",
            ["deep/er/new.txt"],
        ),
        ("echo *.o > .git/info/exclude; mkdir folder/own; echo my > folder/own/x.o", ["folder"]),
        ("rm gone.txt; mkdir gone.txt; echo mine > gone.txt/mine", ["gone.txt"]),
        ("ln -sf SPEC.md link", ["link"]),
        ("rm a.txt", ["a.txt"]),
        ("git update-index --assume-unchanged a.txt; echo mine >> a.txt", ["a.txt"]),
    ],
)
def test_what_a_person_has_not_committed_is_in_the_way_and_stays(
    repo: Path, git: Git, moved: tuple[str, str], edit: str, blocked: list[str]
) -> None:
    found = repository.open_at(repo)
    os.system(f"cd '{repo}' && {edit}")
    before = git("status", "--porcelain", "--ignored"), git("ls-files", "--stage")
    assert set(blocked) & {*along.blocked(found, *moved, KEEP)}
    assert (git("status", "--porcelain", "--ignored"), git("ls-files", "--stage")) == before


@pytest.mark.parametrize(
    "edit",
    [
        "echo mine >> own.txt",
        "echo mine >> own.txt; git add own.txt",
        "echo mine > new-of-mine; mkdir beside; echo mine > beside/it",
        "git rm -q --cached own.txt",
        "echo mine > own.txt; git add own.txt; rm own.txt",
        "echo mine > later; git add -N later",
        "touch -d '2 days ago' a.txt run.sh",
        "echo '- [ ] mine' >> SPEC.md; git add SPEC.md; echo '- [ ] more' >> SPEC.md",
        "chmod +x own.txt",
    ],
)
def test_edits_beside_it_stay_as_they_are(
    repo: Path, git: Git, moved: tuple[str, str], edit: str
) -> None:
    found = repository.open_at(repo)
    os.system(f"cd '{repo}' && {edit}")
    paths = ("--", "own.txt", "new-of-mine", "beside", "later", "SPEC.md")
    before = [git("ls-files", "--stage", *paths), git("diff", *paths)]
    mine = {
        p: p.read_bytes()
        for p in repo.iterdir()
        if p.is_file() and p.name not in git("diff", "--name-only", *moved)
    }
    assert along.blocked(found, *moved, KEEP) == []
    assert land(found, git, *moved) == []
    assert [git("ls-files", "--stage", *paths), git("diff", *paths)] == before
    assert {p: p.read_bytes() for p in mine} == mine
    assert git("diff", "--name-only", "HEAD", "--", "a.txt", "deep", "file", "folder", "link") == ""


def test_it_goes_on_where_a_kill_ended_it(repo: Path, git: Git, moved: tuple[str, str]) -> None:
    found = repository.open_at(repo)
    old, new = moved
    git("update-ref", "refs/heads/main", new, old)
    (repo / "a.txt").write_text("ONE\n")  # some files were written, the index was not
    (repo / "gone.txt").unlink()
    assert along.follow(found, old, new, KEEP) == []
    assert git("status", "--porcelain") == "M  SPEC.md"
    assert along.follow(found, old, new, KEEP) == []


def test_what_a_person_changed_since_the_kill_is_named_and_stays(
    repo: Path, git: Git, moved: tuple[str, str]
) -> None:
    found = repository.open_at(repo)
    old, new = moved
    git("update-ref", "refs/heads/main", new, old)
    (repo / "a.txt").write_text("mine\n")
    (repo / "run.sh").write_text("staged\n")
    git("add", "run.sh")
    (repo / "link").unlink()
    assert along.follow(found, old, new, KEEP) == ["a.txt", "link", "run.sh"]
    assert (repo / "a.txt").read_text() == "mine\n"
    assert (repo / "run.sh").read_text() == git("show", ":run.sh") + "\n" == "staged\n"
    assert git("diff", "--name-only", "HEAD", "--", "deep", "file", "folder") == ""
    assert git("show", ":a.txt") == "ONE" and not (repo / "link").exists()


def test_line_ends_and_submodules_are_as_git_would_have_them(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    git("init", "-q", str(other))
    git("commit", "-q", "--allow-empty", "-m", "one", cwd=other)
    first = git("rev-parse", "HEAD", cwd=other)
    git("commit", "-q", "--allow-empty", "-m", "two", cwd=other)
    second = git("rev-parse", "HEAD", cwd=other)
    git("clone", "-q", str(other), str(repo / "sub"))
    git("checkout", "-q", first, cwd=repo / "sub")
    (repo / ".gitattributes").write_text("*.dos text eol=crlf\n")
    (repo / "x.dos").write_bytes(b"one\r\n")
    git("add", "--all")
    git("commit", "-qm", "old")
    old = git("rev-parse", "HEAD")
    (repo / "x.dos").write_bytes(b"two\r\n")
    git("add", "x.dos")
    git("update-index", "--cacheinfo", f"160000,{second},sub")
    git("commit", "-qm", "new")
    new = git("rev-parse", "HEAD")
    for killed in (False, True):
        git("reset", "-q", "--hard", old)
        if killed:
            (repo / "x.dos").write_bytes(b"two\r\n")
        found = repository.open_at(repo)
        assert along.blocked(found, old, new, KEEP) == ([] if not killed else ["x.dos"])
        assert land(found, git, old, new) == []
        assert (repo / "x.dos").read_bytes() == b"two\r\n"
        assert git("rev-parse", "HEAD", cwd=repo / "sub") == first, "its files are not touched"
        assert git("diff", "--cached", "--name-only") == ""
