"""kern as its users run it, when all goes well: command line, output, files, prompts, commits."""

import os
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Inline


def write_spec(repo: Path, git: Git, text: str) -> None:
    (repo / "SPEC.md").write_text(text)
    git("commit", "--quiet", "--all", "--message=tasks")


# ---------------------------------------------------------------- looking without touching


def test_what_done_tasks_left_goes_with_a_run_s_end_once_it_is_old(
    repo: Path,
    git: Git,
    fake: Fake,
    inline: Inline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n")
    results = ("FAILED: no", "SUCCESS", "NEEDS_ANSWER: which a.txt?")
    fake.script(
        implement=[{"run": [f"echo {n} > n"], "result": one} for n, one in enumerate(results)]
    )
    assert inline(2).code == 1
    history = tmp_path / "kern" / "project" / "main" / "history"

    def kept() -> list[str]:
        return git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").splitlines()

    (done, asked) = kept()
    assert [*history.iterdir()]
    assert inline(1).code == 1
    assert [*history.iterdir()] and kept() == [done, asked], "they are young"
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-02-03T04:05:06Z")
    for ref in kept():
        git("update-ref", ref, git("commit-tree", "-m", "old", f"{ref}^{{tree}}"))
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    for place in history.iterdir():
        os.utime(place, (0, 0))
    assert inline(1).code == 1
    assert [*history.iterdir()] == []
    assert kept() == [asked], "that task is open"
    assert git("show", "HEAD:n") == "1"
