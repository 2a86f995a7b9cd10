"""A reader that goes away: of a page, of a log without an end, of what changes something."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kern.journal import store
from tests.conftest import PATIENCE_S, Fake, Git, Inline
from tests.views.test_views import journal, made, walked

TOP = Path(__file__).parent.parent.parent


def unread(repo: Path, *argv: str, both: bool = False, unbuffered: bool = False) -> tuple[int, str]:
    """kern with a pipe that nobody reads, as `kern … | true`; `both`: as `kern … 2>&1 | true`."""
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "kern", *argv],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(TOP), "PYTHONUNBUFFERED": "1" if unbuffered else ""},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs if both else subprocess.PIPE,
        timeout=PATIENCE_S,
    )
    os.close(theirs)
    return done.returncode, (done.stderr or b"").decode()


@pytest.fixture
def long(repo: Path) -> Path:
    """Where every view is longer than what is buffered."""
    (repo / "SPEC.md").write_text("".join(f"- [ ] task {n} {'x' * 300}\n" for n in range(60)))
    rows = [row for n in range(60) for row in walked(f"task {n} {'x' * 300}", 0.1)]
    start = {"kind": "run", "did": "start", "payer": ""}
    journal(repo).parent.mkdir()
    journal(repo).write_bytes(b"".join(map(store.line, made("run", [start, *rows]))))
    return repo


VIEWS = ("status --all", "report --html", "log", "log -f", "show 1", "help spec", "-h", "-nv")


@pytest.mark.parametrize("words", VIEWS)
def test_no_view_minds_that_nobody_reads_it(long: Path, fake: Fake, words: str) -> None:
    assert unread(long, *words.split(), unbuffered=True) == (0, "")
    if words.startswith("log"):  # of all the rest one says as much
        assert unread(long, *words.split(), both=True)[0] == 0


@pytest.mark.parametrize("unbuffered", [False, True])
def test_what_changes_something_is_done_all_the_same(
    repo: Path, git: Git, unbuffered: bool
) -> None:
    (repo / "SPEC.md").unlink()
    for words in (("init",), ("add", "More of it")):
        assert unread(repo, *words, unbuffered=unbuffered) == (0, "")
    assert (repo / "LEARNINGS.md").exists() and (repo / "kern.toml").exists()
    assert "- [ ] More of it" in (repo / "SPEC.md").read_text()


def test_a_followed_log_ends_with_its_reader(repo: Path, fake: Fake, inline: Inline) -> None:
    """Also where nothing new ever comes."""
    assert inline(1).code == 0
    argv = [sys.executable, "-m", "kern", "log", "-f", "--json"]
    env = {**os.environ, "PYTHONPATH": str(TOP)}
    follower = subprocess.Popen(argv, cwd=repo, env=env, stdout=subprocess.PIPE, text=True)
    assert follower.stdout
    with follower.stdout as out:
        assert json.loads(out.readline())["kind"] == "run"
    assert follower.wait(PATIENCE_S) == 0
