"""The process that reads git's objects as long as kern lives."""

import gc
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kern.git import repository
from tests.conftest import Git


@pytest.fixture
def opened(repo: Path, git: Git) -> Iterator[repository.Repo]:
    (repo / "README.md").write_text("hello\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=readme")
    gc.collect()
    found = repository.open_at(repo)
    yield found
    found.store.close()


def helpers(opened: repository.Repo) -> list[psutil.Process]:
    """Its own alone: another test's may live on in this process."""
    alive = [one for one in psutil.Process().children() if at_work(one.pid)]
    return [one for one in alive if one.name() == "git" and one.cwd() == str(opened.root)]


def test_many_questions_start_one_process(opened: repository.Repo) -> None:
    for _ in range(20):
        assert opened.content("HEAD", "README.md") == b"hello\n"
    assert len(helpers(opened)) == 1


def test_a_name_of_two_lines_is_no_second_question(opened: repository.Repo) -> None:
    assert opened.store.id("HEAD\ninfo HEAD") == opened.store.id("nothing") == ""


def test_one_that_was_killed_is_replaced(opened: repository.Repo) -> None:
    for signum in (signal.SIGKILL, signal.SIGTERM):
        assert opened.content("HEAD", "README.md") == b"hello\n"
        for helper in helpers(opened):
            helper.send_signal(signum)
            helper.wait(5)
    assert opened.content("HEAD", "README.md") == b"hello\n"


def test_they_end_with_kern_however_it_does(opened: repository.Repo) -> None:
    code = (
        "import sys, time; from pathlib import Path; from kern.git import repository\n"
        "repo = repository.open_at(Path.cwd())\n"
        "repo.content('HEAD', 'README.md')\n"
        "import psutil; print(*[c.pid for c in psutil.Process().children()], flush=True)\n"
        "time.sleep(60)"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, cwd=opened.root, stdout=subprocess.PIPE, text=True) as kern:
        assert kern.stdout is not None
        pids = [int(word) for word in kern.stdout.readline().split()]
        kern.kill()
    assert len(pids) == 1
    deadline = time.monotonic() + 10
    while any(map(at_work, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def at_work(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
