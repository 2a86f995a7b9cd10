"""Hook frameworks that take a person's unstaged edits out of the working tree while they run."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kern.errors import Exit
from kern.git import backups
from kern.git.repository import open_at
from kern.system import process
from tests.conftest import (
    BUSY,
    PATIENCE_S,
    Fake,
    Git,
    Inline,
    Kern,
    at_home,
    open_to_tests,
    wait_for,
)
from tests.kit import frameworks
from tests.sandbox.test_wall import needs_bwrap

LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
MINE = LINES.replace("one", "one, which took me two days")
LEFT = MINE.replace("seven", "SEVEN")  # with the task's change
WORK = {"run": ["sed -i s/seven/SEVEN/ a.txt"], "result": "Shouted.\n\nSUCCESS"}
# Until it is told not to, the task says that it is there and stays.
TASK = '#!/bin/sh\n[ -e "$FAKE_CLAUDE/quick" ] && exit 0\ntouch "$FAKE_CLAUDE/there"\nsleep 60\n'

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
    pytest.param("lefthook in bwrap", marks=(*real, needs_bwrap)),
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
    """The project has it, and the person an edit that is not staged."""
    name, _, sandbox = str(request.param).partition(" in ")
    if sandbox:
        monkeypatch.setenv("KERN_SANDBOX", sandbox)
        open_to_tests(tmp_path / "home", tmp_path, *frameworks.PLACES)
        at_home(fake.folder, monkeypatch)
    monkeypatch.setenv("PATH", os.pathsep.join((os.environ["PATH"], frameworks.PATH)))
    task = fake.folder / "task"
    task.write_text(TASK)
    task.chmod(0o755)
    for file, text in frameworks.files(name, task).items():
        (repo / file).write_text(text)
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", "--amend", "--message=start")
    frameworks.install(name, repo, task, os.environ)
    (repo / "a.txt").write_text(MINE)
    fake.script(implement=[WORK])
    yield name
    for left in process.marked(("FAKE_CLAUDE", str(fake.folder))):
        if left.pid != os.getpid():
            left.kill()


def its_task_runs(repo: Path, fake: Fake) -> Callable[[], bool]:
    return lambda: (fake.folder / "there").exists() and "two days" not in read(repo)


def read(repo: Path) -> str:
    return (repo / "a.txt").read_text()


def done(git: Git) -> None:
    assert git("rev-list", "--count", "HEAD") == "2"
    assert git("show", "HEAD:a.txt") + "\n" == LINES.replace("seven", "SEVEN")
    assert "- [x] add a greeting" in git("show", "HEAD:SPEC.md")
    assert git("for-each-ref", "refs/kern/start") == ""


@pytest.mark.parametrize("framework", [*ALL, *HELD], indirect=True)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_or_killed_in_a_hook_your_edits_come_back(
    repo: Path,
    git: Git,
    fake: Fake,
    background: Background,
    inline: Inline,
    framework: str,
    signum: signal.Signals,
) -> None:
    kern = background("1", "0")
    wait_for(its_task_runs(repo, fake))
    began = time.monotonic()
    kern.send_signal(signum)
    _, said = kern.communicate(timeout=PATIENCE_S)
    if signum == signal.SIGKILL:
        assert "two days" not in read(repo), "nobody has told the hook"
    else:
        assert time.monotonic() - began < 10 * BUSY
        assert kern.returncode == 128 + signum, said
        assert read(repo) == LEFT
        assert git("rev-list", "--count", "HEAD") == "1"
    (fake.folder / "quick").touch()

    ran = inline()

    assert ran.code == Exit.OK, ran.err
    assert "no longer in the working tree" not in ran.err
    assert read(repo) == LEFT
    done(git)
    assert git("status", "--porcelain") == " M a.txt"
    assert git("stash", "list") == ""
    assert fake.stages.count("implement") == 1


@pytest.mark.parametrize("framework", [frameworks.STAND_IN], indirect=True)
def test_where_the_hook_was_killed_as_well_the_next_run_says_where_your_edits_are(
    repo: Path,
    git: Git,
    fake: Fake,
    background: Background,
    inline: Inline,
    framework: str,
) -> None:
    (repo / "own.txt").unlink()
    kern = background("1", "0")
    wait_for(its_task_runs(repo, fake))
    for process_ in (psutil.Process(kern.pid), *psutil.Process(kern.pid).children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # a sandbox ends with what holds it
            process_.kill()
    kern.communicate()
    (fake.folder / "quick").touch()

    ran = inline()

    assert ran.code == Exit.OK, ran.err
    # What stage 2 left is proved anew: in the task's file your edits are back with it.
    assert ran.err.count("your uncommitted changes of own.txt are no longer") == 1
    done(git)
    assert read(repo) == LEFT
    (restore,) = re.findall(r"git restore --source=\S+", ran.err)
    git("checkout", "--", ".")
    subprocess.run([*shlex.split(restore), "--", "a.txt"], cwd=repo, check=True)
    assert read(repo) == LEFT
    assert git("status", "--porcelain") == " M a.txt"


@pytest.mark.parametrize("framework", [frameworks.STAND_IN], indirect=True)
def test_what_you_changed_yourself_meanwhile_is_no_loss(
    repo: Path, git: Git, fake: Fake, kern: Kern, inline: Inline, framework: str
) -> None:
    fake.script(commit=[{"kill": "parent"}, {"result": "do the task"}])
    assert kern("1", "0").code == -signal.SIGKILL
    (repo / "a.txt").write_text(LEFT.replace("two days", "three days"))
    (repo / "own.txt").write_text("mine\nand more\n")
    (fake.folder / "quick").touch()

    ran = inline()

    assert ran.code == Exit.OK, ran.err
    done(git)
    assert "no longer in the working tree" not in ran.err
    # A line of yours that was not committed before is none of the task's: kept, and named.
    assert "you changed a.txt since the task was implemented" in ran.err
    kept = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts/*/1-edited")
    assert "three days" in git("show", f"{kept}:a.txt")
    assert (repo / "own.txt").read_text() == "mine\nand more\n"


@pytest.mark.parametrize("framework", ALL, indirect=True)
def test_each_framework_s_backup_is_found_and_the_command_restores_it(
    repo: Path, git: Git, fake: Fake, framework: str
) -> None:
    """A hunk in the middle, without the context that some leave out."""
    (repo / "a.txt").write_text(MINE.replace("four", "4"))
    (repo / "b.txt").write_text("b\n")
    git("add", "b.txt", "a.txt")
    text = MINE.replace("four", "4").replace("six\n", "six\nsix and a half\n")
    (repo / "a.txt").write_text(text)
    began = time.time() - 1
    commit = subprocess.Popen(["git", "commit", "-qm", "x"], cwd=repo, start_new_session=True)
    wait_for(lambda: (fake.folder / "there").exists() and "half" not in read(repo))
    for left in psutil.Process(commit.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            left.kill()
    commit.wait()
    found = open_at(repo)

    (said,) = backups.commands(found, ["a.txt"], began, Path())

    assert backups.commands(found, ["own.txt"], began, Path()) == []
    assert backups.commands(found, ["a.txt"], time.time() + 60, Path()) == []
    name, _, command = said.partition(": ")
    assert name == (framework if framework in frameworks.REAL else "pre-commit")
    subprocess.run(shlex.split(command), cwd=repo, check=True)
    assert read(repo) == text
    if name == "pre-commit":  # a patch without context would apply twice
        assert backups.commands(found, ["a.txt"], began, Path()) == []
