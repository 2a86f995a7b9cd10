"""Hook frameworks, in rooms and in place: what their fixers change is proven, and nothing that they
take out of a tree, stash or stage is a person's.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kern.errors import Exit
from kern.system import process
from tests.conftest import (
    BUSY,
    PATIENCE_S,
    Fake,
    Git,
    Inline,
    at_home,
    open_to_tests,
    wait_for,
)
from tests.kit import frameworks
from tests.sandbox.test_wall import needs_bwrap

LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
WORK = {"run": ["sed -i s/seven/SEVEN/ a.txt"], "result": "Shouted.\n\nSUCCESS"}
# A fixer. Until it is told not to, it says that it is there and stays.
TASK = (
    "#!/bin/sh\nsed -i s/SEVEN/Seven/ a.txt\n"
    '[ -e "$FAKE_CLAUDE/quick" ] && exit 0\ntouch "$FAKE_CLAUDE/there"\nsleep 60\n'
)
MINE = "mine, which took me two days\n"

Background = Callable[..., "subprocess.Popen[str]"]
real = (
    pytest.mark.real,
    pytest.mark.skipif(
        not frameworks.HOOKS, reason="KERN_TEST_HOOKS names no folder with hook frameworks"
    ),
)
ALL = (frameworks.STAND_IN, *(pytest.param(name, marks=real) for name in frameworks.REAL))
HELD = (
    pytest.param("stand-in in bwrap", marks=needs_bwrap),
    *(pytest.param(f"{name} in bwrap", marks=(*real, needs_bwrap)) for name in frameworks.REAL),
)


@pytest.fixture
def framework(
    request: pytest.FixtureRequest,
    repo: Path,
    git: Git,
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[str]:
    """The project has it, and where there are rooms the person an edit that is not staged."""
    name, _, sandbox = str(request.param).partition(" in ")
    monkeypatch.setenv("PATH", os.pathsep.join((os.environ["PATH"], frameworks.PATH)))
    task = fake.folder / "task"
    task.write_text(TASK)
    task.chmod(0o755)
    for file, text in frameworks.files(name, task).items():
        (repo / file).parent.mkdir(exist_ok=True)
        (repo / file).write_text(text)
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", "--amend", "--message=start")
    frameworks.install(name, repo, task, os.environ)
    if sandbox:
        monkeypatch.setenv("KERN_SANDBOX", sandbox)
        open_to_tests(tmp_path / "home", tmp_path, *frameworks.PLACES)
        at_home(fake.folder, monkeypatch)
        (repo / "own.txt").write_text(MINE)
    fake.script(implement=[WORK])
    yield name
    for left in process.marked(("FAKE_CLAUDE", str(fake.folder))):
        if left.pid != os.getpid():
            left.kill()


def yours(repo: Path, git: Git) -> list[str]:
    """What no commit of kern's may change."""
    own, status = (repo / "own.txt").read_text(), git("status", "--porcelain", "own.txt")
    return [own, status, git("stash", "list"), git("branch", "--list")]


def done(repo: Path, git: Git, fake: Fake, before: list[str]) -> None:
    assert git("rev-list", "--count", "HEAD") == "2"
    assert git("show", "HEAD:a.txt") + "\n" == LINES.replace("seven", "Seven")
    assert (repo / "a.txt").read_text() == LINES.replace("seven", "Seven")
    assert "- [x] add a greeting" in git("show", "HEAD:SPEC.md")
    assert git("for-each-ref", "refs/kern/start") == ""
    assert git("status", "--porcelain") == before[1].strip("\n")
    assert yours(repo, git) == before
    assert fake.stages.count("implement") == 1


@pytest.mark.parametrize("framework", [*ALL, *HELD], indirect=True)
def test_what_its_fixer_changes_is_proven_and_committed(
    repo: Path, git: Git, fake: Fake, inline: Inline, framework: str
) -> None:
    (fake.folder / "quick").touch()
    before = yours(repo, git)

    ran = inline()

    assert ran.code == Exit.OK, ran.err
    assert "a commit hook changed a.txt: now part of the task; the gates run again" in ran.err
    done(repo, git, fake, before)


@pytest.mark.parametrize("framework", [*ALL, *HELD], indirect=True)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_or_killed_in_a_hook_it_goes_on_and_your_edits_stay(
    repo: Path,
    git: Git,
    fake: Fake,
    background: Background,
    inline: Inline,
    framework: str,
    signum: signal.Signals,
) -> None:
    before = yours(repo, git)
    kern = background("1", "0")
    wait_for((fake.folder / "there").exists)
    assert (repo / "own.txt").read_text() == before[0]
    began = time.monotonic()
    kern.send_signal(signum)
    _, said = kern.communicate(timeout=PATIENCE_S)
    if signum != signal.SIGKILL:
        assert time.monotonic() - began < 10 * BUSY
        assert kern.returncode == 128 + signum, said
    assert (repo / "own.txt").read_text() == before[0]
    assert git("rev-list", "--count", "HEAD") == "1"
    (fake.folder / "quick").touch()

    ran = inline()

    assert ran.code == Exit.OK, ran.err
    done(repo, git, fake, before)
