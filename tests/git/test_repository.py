"""git through kern's eyes: heads, trees, merges, refs, the index; the git CLI is the oracle."""

import os
import subprocess
from pathlib import Path

import pytest

from kern.errors import UsageError
from kern.git import environment, history, in_place, landing, refs, repository
from kern.git.environment import GitFailed
from kern.git.repository import Entry, Repo
from kern.model import Key
from tests.conftest import Git

KEY = Key("", "add a greeting")


def commit(git: Git, root: Path, message: str = "more", **files: str) -> str:
    for name, text in files.items():
        (root / name.replace("_txt", ".txt")).write_text(text)
    git("add", "--all", cwd=root)
    git("commit", "--quiet", f"--message={message}", cwd=root)
    return git("rev-parse", "HEAD", cwd=root)


# ---------------------------------------------------------------- opening


def test_what_is_no_working_tree_is_refused_with_the_reason(
    repo: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "--quiet", "--bare", str(tmp_path / "bare"))
    (tmp_path / "plain").mkdir()
    for folder, said in (
        (tmp_path / "plain", "not a git repository"),
        (tmp_path / "bare", "must be run in a work tree"),
        (repo / ".git", "must be run in a work tree"),
    ):
        with pytest.raises(UsageError, match=said):
            repository.open_at(folder)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UsageError, match="dubious ownership") as raised:
        repository.open_at(repo)
    assert "safe.directory" in raised.value.hint


def test_what_is_a_person_s_own_stays_in_the_environment() -> None:
    theirs = {
        *("GIT_AUTHOR_NAME", "GIT_COMMITTER_DATE", "GIT_SSH_COMMAND", "GIT_ASKPASS"),
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "HOME"),
    }
    environ = dict.fromkeys((*theirs, "GIT_DIR", "GIT_TRACE", "GIT_ATTR_SOURCE"), "1")
    environ["GIT_TRACE2_PARENT_SID"] = "20261121T000000.1Z-H1-P1/20261121T000000.1Z-H1-P2"
    environ["GIT_TRACE2_EVENT"] = "/tmp/a trace"  # a file of its own disturbs nobody
    environment.drop(environ)
    assert environ.keys() == theirs | {"GIT_TRACE2_EVENT"}


def test_objects_are_read_as_they_are_whatever_replaces_them(repo: Path, git: Git) -> None:
    base = git("rev-parse", "HEAD")
    (repo / "b.txt").write_text("evil\n")
    other = git("hash-object", "-w", "b.txt")
    tip = commit(git, repo, "second", a_txt="good\n")
    git("replace", git("rev-parse", "HEAD:a.txt"), other)
    (repo / ".git" / "info" / "grafts").write_text(f"{tip}\n")
    found = repository.open_at(repo)
    assert git("show", "HEAD:a.txt") == "evil"
    assert found.content(tip, "a.txt") == b"good\n"
    assert history.commit(found, tip).parents == (base,)
    git("replace", "--graft", base, other_root(git))
    assert [one.sha for one in history.since(found, base, tip)] == [tip]


def other_root(git: Git) -> str:
    return git("commit-tree", "-m", "an older history", git("rev-parse", "HEAD^{tree}"))


@pytest.mark.parametrize(
    "left",
    [
        *("merge side", "rebase side", "rebase --apply side", "am -3 .git/p", "am .git/p"),
        *("cherry-pick side", "cherry-pick HEAD~1..side", "revert HEAD~1"),
        "init .git/rebase-apply",
    ],
)
def test_whatever_an_agent_leaves_under_way_is_cleared(repo: Path, git: Git, left: str) -> None:
    commit(git, repo, a_txt="1\n")
    git("switch", "-qc", "side")
    commit(git, repo, a_txt="2\n")
    (repo / ".git" / "p").write_text(git("format-patch", "-1", "--stdout"))
    git("switch", "-q", "main")
    commit(git, repo, a_txt="3\n")
    found = repository.open_at(repo)
    head = found.head()
    subprocess.run(["git", *left.split()], cwd=repo, capture_output=True)
    assert history.begun(found)
    assert in_place.undo_mistakes(found, head)[0].startswith("it left a mess")
    assert history.begun(found) == "" and found.head() == head
    assert not {"MERGE_MSG", "AUTO_MERGE", "sequencer"} & {*os.listdir(repo / ".git")}


# ---------------------------------------------------------------- trees


def edited(found: Repo, **files: str | None) -> str:
    """HEAD's tree with some files replaced."""
    return found.tree_with(
        "HEAD^{tree}",
        {
            name.replace("_txt", ".txt"): None
            if text is None
            else Entry("100644", found.blob(text.encode()))
            for name, text in files.items()
        },
    )


def test_a_merge_guesses_no_move_whatever_a_person_has_set(repo: Path, git: Git) -> None:
    git("config", "merge.directoryRenames", "true")
    found = repository.open_at(repo)
    one, two = (Entry("100644", found.blob(b"%d\n" % number * 9)) for number in range(2))
    base, moved = (found.tree_with("", {f"{d}/a": one, f"{d}/b": two}) for d in ("old", "new"))
    more = found.tree_with(base, {"old/c": one})
    merged, conflicts = history.merge(found, base, moved, more)
    assert (conflicts, found.content(merged, "old/c")) == ([], b"0\n" * 9)


# ---------------------------------------------------------------- the branch


def test_the_branch_moves_from_where_it_stood_alone(repo: Path, git: Git) -> None:
    found = repository.open_at(repo)
    head, tree = found.head(), edited(found, a_txt="task\n")
    made = history.create(found, tree, head.commit, "subject\n\nbody\n")
    git("commit", "-q", "--allow-empty", "-m", "mine")
    mine = git("rev-parse", "HEAD")
    assert not landing.advance(found, head, made, "subject")
    assert git("rev-parse", "HEAD") == mine
    git("reset", "-q", "--soft", head.commit)
    assert landing.advance(found, head, made, "subject")
    assert git("rev-parse", "HEAD^", "HEAD^{tree}") == f"{head.commit}\n{tree}"
    assert git("reflog", "-1", "--format=%gs") == "commit: subject"


# ---------------------------------------------------------------- kern's refs


def test_slugs_are_ref_names_and_tell_equal_texts_apart(repo: Path, git: Git) -> None:
    texts = ["a", "A", "..", "x.lock", "-x", "@{", "\u4e2d", "w " * 200, "~^:?*[\\", "a/b", ""]
    keys = [Key(parent, text, n) for text in texts for parent in ("", "p") for n in (1, 2)]
    slugs = [refs.slug(key) for key in keys]
    assert len(set(slugs)) == len(slugs)
    for slug in slugs:
        git("check-ref-format", f"refs/kern/attempts/{slug}/1")


# ---------------------------------------------------------------- odd repositories


def test_a_checkout_that_ran_out_of_disk_says_so() -> None:
    failed = GitFailed(("read-tree",), 128, "error: unable to write file a.txt\n")
    assert failed.is_environment
    assert "no space left" in str(failed) and "free some space" in failed.hint


def test_an_unmerged_path_of_a_stash_is_in_the_way_of_any_landing(repo: Path, git: Git) -> None:
    (repo / "a.txt").write_text("mine\n")
    git("stash", "--quiet")
    (repo / "a.txt").write_text("theirs\n")
    git("commit", "--quiet", "--all", "--message=theirs")
    (repo / "b.txt").write_text("a task's\n")
    git("add", "b.txt")
    git("commit", "--quiet", "--message=a task's")
    new, old = git("rev-parse", "HEAD"), git("rev-parse", "HEAD^")
    git("reset", "--quiet", "--hard", old)
    here = repository.open_at(repo)
    assert landing.in_the_way(here, old, new) == []
    here.run("stash", "pop")
    assert landing.in_the_way(here, old, new) == ["a.txt"]


def test_nothing_staged_or_ignored_is_overwritten(repo: Path, git: Git) -> None:
    for text in (b"a\r\n", b"A\r\n"):  # not converted yet: unchanged by its time
        (repo / "a.txt").write_bytes(text)
        old, new = git("rev-parse", "HEAD"), commit(git, repo)
    git("reset", "--quiet", "--hard", old)
    (repo / ".git/info/attributes").write_text("*.txt text\n")
    os.utime(repo / ".git/index", (at := (repo / ".git/index").stat().st_mtime + 5, at))
    here = repository.open_at(repo)
    assert landing.in_the_way(here, old, new) == []
    git("mv", "a.txt", "n")
    assert landing.in_the_way(here, old, new) == ["a.txt"]
    (repo / "d").mkdir()
    git("mv", "n", "d/own")
    (repo / "i").touch()
    for made, yours in (("d", "d"), ("i/in", "i")):
        tree = here.tree_with(old, {made: Entry("100644", here.blob(b""))})
        assert landing.in_the_way(here, old, tree) == [yours]
