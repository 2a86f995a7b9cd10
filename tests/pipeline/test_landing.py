"""Where a run's commits land: on the branch in use, or on a new one, begun under the lock."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern, wait_for

TODAY = time.strftime("%Y-%m-%d")
NEW = "kern/tonight"


def branches(git: Git) -> list[str]:
    return git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_a_run_says_first_where_it_lands(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    ran = kern("1", "0")
    assert "commits go to main, which follows no upstream; nothing is pushed\n" in ran.out
    git("init", "--bare", "--quiet", "../remote.git")
    git("remote", "add", "origin", "../remote.git")
    git("push", "--quiet", "--set-upstream", "origin", "main")
    assert "commits go to main, which follows origin/main; nothing is pushed" in kern("-n").out


def test_a_branch_begins_here_and_tomorrow_goes_on_there(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n- [ ] three\n")
    git("commit", "--quiet", "--all", "--message=tasks")

    dry = kern("-n", "--branch", NEW)
    assert f"commits go to {NEW}, a new branch from main; nothing is pushed" in dry.out
    assert branches(git) == ["main"]
    ran = kern("1", "0", "--branch", NEW)
    assert ran.code == 0, ran.said
    assert f"commits go to {NEW}, a new branch from main; nothing is pushed" in ran.out
    assert git("rev-parse", "--abbrev-ref", "HEAD") == NEW
    assert git("log", "--format=%s", f"main..{NEW}") == "do the task"
    assert git("status", "--porcelain") == ""
    assert (tmp_path / "kern" / "project" / NEW / "history").is_dir()
    assert not (tmp_path / "kern" / "project" / "main").exists()
    assert '"branch": "kern/tonight"' in kern("log", "--json").out

    again = kern("1", "0", "--branch", NEW)
    assert again.code == 0 and "a new branch" not in again.out
    assert git("rev-list", "--count", f"main..{NEW}") == "2"
    assert kern("1", "0").code == 0
    assert branches(git) == [NEW, "main"]


def test_a_branch_for_each_day(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=tasks")
    assert kern("1", "0", "--branch", "kern/{date}").code == 0
    assert branches(git) == [f"kern/{TODAY}", "main"]
    git("branch", "-m", "kern/2020-01-01")
    ran = kern("1", "0", "--branch", "kern/{date}")
    assert ran.code == 0 and "commits go to kern/2020-01-01, which" in ran.out, "where it left off"
    assert branches(git) == ["kern/2020-01-01", "main"]


@pytest.mark.parametrize(
    ("name", "words", "hint"),
    [
        ("there", "the branch there is there already", "git switch there, then kern"),
        ("a b", "'a b' is no name for a branch", "kern --branch kern/tonight"),
        ("", "--branch names no branch", "kern --branch kern/tonight"),
        ("-x", "'-x' is no name for a branch", "kern --branch kern/tonight"),
        ("a..b", "'a..b' is no name for a branch", "kern --branch kern/tonight"),
        ("there/x", "git begins no branch there/x: ", "kern --branch OTHER"),
    ],
)
def test_what_is_no_new_branch_is_said_and_nothing_begins(
    repo: Path, git: Git, fake: Fake, kern: Kern, name: str, words: str, hint: str
) -> None:
    git("branch", "there")
    ran = kern("1", "0", "--branch", name)
    assert (ran.code, fake.calls) == (2, []), ran.said
    assert words in ran.err and hint in ran.err
    assert branches(git) == ["main", "there"]
    assert git("rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_a_detached_head_is_refused_with_a_branch_as_well(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    git("checkout", "--quiet", "--detach")
    ran = kern("1", "0", "--branch", NEW)
    assert ran.code == 2 and "git switch -c NAME" in ran.err
    assert branches(git) == ["main"]


def test_a_task_in_progress_is_finished_where_it_was_begun(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    fake.script(implement=[{"kill": "parent"}, {"run": ["echo 1 > n"], "result": "SUCCESS"}])
    assert kern("1", "0").code == -9
    ran = kern("1", "0", "--branch", NEW)
    assert ran.code == 2 and "a task is in progress on main: add a greeting" in ran.err
    assert "kern 1 --branch main finishes it there" in ran.err
    assert kern("1", "0", "--branch", "main").code == 0
    assert branches(git) == ["main"]


def test_preflight_goes_first_and_another_run_keeps_its_branch(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Callable[..., Any]
) -> None:
    (fake.folder / "auth.json").write_text('{"loggedIn": false}')
    assert kern("1", "0", "--branch", NEW).code != 0
    assert branches(git) == ["main"]
    (fake.folder / "auth.json").write_text('{"loggedIn": true}')
    fake.script(research=[{"sleep": 3, "result": "- Files: a.txt:1\n\nREADY"}])
    run = background("1", "0")
    wait_for(lambda: fake.stages == ["research"])
    refused = kern("1", "0", "--branch", NEW)
    assert refused.code == 2 and "a task is in progress on main" in refused.err
    assert run.wait(PATIENCE_S) == 0
    assert branches(git) == ["main"]


def test_nothing_is_begun_after_the_time_of_until(repo: Path, fake: Fake, inline: Inline) -> None:
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    now = [1000.0]

    def clock() -> float:
        now[0] += 1 if len(fake.calls) < 3 else 10_000
        return now[0]

    ran = inline(2, until=9000.0, clock=clock)
    assert ran.code == 0 and fake.stages == ["research", "implement", "commit"]
    assert "until: no task and no stage is begun after " in ran.err
    assert "the time of --until has come; the next kern goes on with: the next task" in ran.err


@pytest.mark.parametrize("text", ["yesterday", "25:00", "7", "07:60", "-1:00", ""])
def test_what_is_no_time_of_day_is_said(repo: Path, fake: Fake, kern: Kern, text: str) -> None:
    ran = kern("1", f"--until={text}")
    assert ran.code == 2 and fake.calls == []
    assert f"--until takes a time of day: {text!r} is none" in ran.err
