"""The process that reads git's objects as long as kern lives."""

import gc
from pathlib import Path

import psutil

from kern.git import repository
from tests.conftest import Git, commit_all


def test_many_questions_start_one_process_and_one_that_was_killed_is_replaced(
    repo: Path, git: Git
) -> None:
    (repo / "README.md").write_text("hello\n")
    commit_all(git, "readme")
    gc.collect()
    opened = repository.open_at(repo)
    for _ in range(2):
        for _ in range(20):
            assert opened.content("HEAD", "README.md") == b"hello\n"
            assert opened.store.id("HEAD\ninfo HEAD") == opened.store.id("nothing") == ""
        own = [one for one in psutil.Process().children() if one.cwd() == str(repo)]
        assert [one.name() for one in own] == ["git"]
        own[0].kill()
        own[0].wait(5)
    assert opened.content("HEAD", "README.md") == b"hello\n"
    opened.store.close()
