"""`kern undo`: a commit taken back by a new one, all of it or nothing."""

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern
from tests.kit.stable import Stable

LIST = "- [ ] write a\n- [ ] write b\n  > **After:** write a\n- [ ] whole\n  - [ ] part\n"


def tasks(repo: Path, git: Git, text: str = LIST) -> None:
    (repo / "SPEC.md").write_text(text)
    git("add", "--all")
    git("commit", "--quiet", "--message=tasks")


def did(*commands: str) -> dict[str, object]:
    return {"run": list(commands), "result": "Did it.\n\nSUCCESS"}


def markers(text: str) -> list[str]:
    return [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("- [")]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("done") / "kept"


@pytest.fixture
def done(repo: Path, git: Git, kern: Kern, fake: Fake, kept: Path) -> str:
    """Two tasks done: one makes, changes and deletes a file; the other adds one. The first's
    commit. Later tests get a copy of what the first of them made.
    """
    both = ((repo, kept / "project"), (fake.folder, kept / "fake"))
    if kept.exists():
        for place, made in both:
            shutil.rmtree(place)
            shutil.copytree(made, place, symlinks=True)
        git("update-index", "--refresh")
        return git("rev-parse", "HEAD~1")
    (repo / "gone.txt").write_text("old\n")
    tasks(repo, git)
    first = did("mkdir -p new", "echo a > new/a.txt", "sed -i s/four/FOUR/ a.txt", "rm gone.txt")
    fake.script(implement=[first, did("echo b > b.txt")])
    assert kern("2", "0").code == 0
    for place, made in both:
        shutil.copytree(place, made, symlinks=True)
    return git("rev-parse", "HEAD~1")


def test_the_commit_is_taken_back_by_one_that_opens_the_task(
    repo: Path, git: Git, kern: Kern, done: str
) -> None:
    ran = kern("undo", "write a")
    assert (ran.code, ran.err) == (0, "")
    head = git("rev-parse", "HEAD")
    assert ran.out.splitlines() == [
        f"undone 1: write a: {head[:7]} takes {done[:7]} back, in 3 files",
        "next: kern edit, to say below it what to do otherwise; then: kern",
    ]
    assert git("status", "--porcelain") == ""
    assert git("rev-list", "--count", f"{done}..HEAD") == "2", "history is not rewritten"
    assert (
        git("log", "-1", "--format=%an %s") == f't Revert "{git("log", "-1", "--format=%s", done)}"'
    )
    assert f"This reverts commit {done}." in git("log", "-1", "--format=%b")
    assert markers((repo / "SPEC.md").read_text())[:2] == ["[ ] write a", "[x] write b"]
    assert (repo / "gone.txt").read_text() == "old\n"
    assert not (repo / "new").exists() and (repo / "b.txt").exists()
    assert "four" in (repo / "a.txt").read_text()
    again = kern("undo", "1")
    assert again.code == 2 and "it is not done, so there is nothing to undo" in again.err


def test_what_a_person_has_not_committed_stays_byte_for_byte(
    repo: Path, git: Git, kern: Kern, done: str
) -> None:
    (repo / "own.txt").write_text("changed\n")
    (repo / "staged.txt").write_text("staged\n")
    git("add", "staged.txt")
    spec = repo / "SPEC.md"
    spec.write_text("# Mine\n" + spec.read_text())
    before = git("status", "--porcelain")
    assert kern("undo", "1").code == 0
    assert git("status", "--porcelain") == before
    assert (repo / "own.txt").read_text() == "changed\n"
    text = spec.read_text()
    assert text.startswith("# Mine\n- [ ] write a\n")
    assert not git("show", "HEAD:SPEC.md").startswith("# Mine")
    git("add", "SPEC.md")
    (repo / "b.txt").write_text("mine\n")
    ran = kern("undo", "2")
    assert ran.code == 2 and "what you have not committed: b.txt" in ran.err
    assert "kern undo 2" in ran.err
    git("checkout", "b.txt")
    assert kern("undo", "2").code == 0
    text = spec.read_text()
    assert text.startswith("# Mine\n- [ ] write a\n") and "\n- [ ] write b\n" in text
    assert git("show", ":SPEC.md") == git("show", "HEAD:SPEC.md"), "it is no longer staged"


def test_an_untracked_file_in_the_way_is_not_overwritten(
    repo: Path, git: Git, kern: Kern, done: str
) -> None:
    (repo / ".git/info/exclude").write_text("gone.txt\n")
    (repo / "gone.txt").write_text("mine\n")
    head = git("rev-parse", "HEAD")
    ran = kern("undo", "1")
    assert ran.code == 2 and "gone.txt" in ran.err
    assert (repo / "gone.txt").read_text() == "mine\n" and git("rev-parse", "HEAD") == head


def test_what_later_commits_build_on_is_refused_and_nothing_changes(
    repo: Path, git: Git, kern: Kern, done: str
) -> None:
    (repo / "a.txt").write_text((repo / "a.txt").read_text().replace("FOUR", "Four!"))
    git("commit", "--quiet", "--all", "--message=build on it")
    before = git("rev-parse", "HEAD"), (repo / "SPEC.md").read_bytes()
    ran = kern("undo", "1")
    assert ran.code == 2
    assert f"later commits build on {done[:7]}, in a.txt; nothing was changed" in ran.err
    assert f"git revert {done[:7]}" in ran.err
    assert (git("rev-parse", "HEAD"), (repo / "SPEC.md").read_bytes()) == before
    assert git("status", "--porcelain") == ""


def test_what_was_never_done_or_is_not_there_is_told(repo: Path, git: Git, kern: Kern) -> None:
    tasks(repo, git)
    for words, said, hint in (
        ("write a", "it is not done, so there is nothing to undo: 1: write a", "kern show 1"),
        ("nobody", "no task is named", "kern status"),
    ):
        ran = kern("undo", words)
        assert ran.code == 2 and said in ran.err and hint in ran.err, words
    tasks(repo, git, LIST + "- [x] old\n- [~] busy\n")
    ran = kern("undo", "old")
    assert ran.code == 2 and "a task is in progress: busy" in ran.err
    assert "kern 1 goes on with it" in ran.err


def test_a_commit_that_holds_more_than_kern_made_is_refused_and_a_rebased_one_is_not(
    repo: Path, git: Git, kern: Kern, done: str
) -> None:
    (repo / "hours.txt").write_text("mine\n")
    git("add", "hours.txt")
    git("commit", "--quiet", "--amend", "--no-edit")
    ran = kern("undo", "write b")
    assert ran.code == 2 and "is not as kern made it here" in ran.err and "git revert" in ran.err
    assert (repo / "hours.txt").exists() and git("status", "--porcelain") == ""
    git("switch", "--quiet", "-c", "upstream", f"{done}~")
    git("commit", "--quiet", "--allow-empty", "--message=beside")
    git("switch", "--quiet", "main")
    git("rebase", "--quiet", "upstream")
    assert kern("undo", "write a").code == 0
    assert (repo / "gone.txt").exists() and git("status", "--porcelain") == ""


def test_a_spec_that_git_ignores_is_opened_after_the_commit(
    repo: Path, git: Git, kern: Kern, fake: Fake
) -> None:
    git("rm", "--quiet", "--cached", "SPEC.md")
    (repo / ".gitignore").write_text("SPEC.md\n")
    git("add", ".gitignore")
    git("commit", "--quiet", "--message=ignore it")
    fake.script(implement=[did("echo x > x.txt")])
    assert kern("1").code == 0
    assert kern("undo", "1").code == 0
    assert markers((repo / "SPEC.md").read_text()) == ["[ ] add a greeting"]
    assert not (repo / "x.txt").exists() and git("status", "--porcelain") == ""


def test_a_kill_anywhere_leaves_all_of_it_or_nothing(
    repo: Path, git: Git, kern: Kern, stable: Stable, done: str
) -> None:
    whole = git("write-tree")
    start = git("rev-parse", "HEAD")
    for number in range(1, 40):
        git("reset", "--quiet", "--hard", start)
        ran = stable.kern(["undo", "1"], repo, str(number))
        if ran.code >= 0:
            break
        moved = git("rev-parse", "HEAD") != start
        if not moved:  # nothing has happened
            assert git("status", "--porcelain") == "" and git("write-tree") == whole, number
        for file in filter(Path.is_file, repo.iterdir()):  # a new time is no change
            os.utime(file, (number, number))
        assert kern("undo", "1").code == (2 if moved else 0), number
        assert git("status", "--porcelain") == "", number
        assert markers((repo / "SPEC.md").read_text())[0] == "[ ] write a"
        assert (repo / "gone.txt").exists() and not (repo / "new").exists()
    assert number > 4
