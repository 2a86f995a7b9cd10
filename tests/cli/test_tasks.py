"""`kern add`, `done` and the others, as processes in real repositories, beside runs too."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kern.stages import prompts
from tests.conftest import PATIENCE_S, Fake, Git, Kern, wait_for

Background = Callable[..., "subprocess.Popen[str]"]
LIST = "# Mine\r\n\r\n- [ ] first\r\n- [x] second\r\n  - [x] part\r\n\r\nprose \udcff"


def write(repo: Path, text: str) -> None:
    (repo / "SPEC.md").write_bytes(text.encode("utf-8", "surrogateescape"))


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_bytes().decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("command", ["hold", "done", "defer", "retry"])
def test_without_a_spec_it_is_said_what_makes_one(repo: Path, kern: Kern, command: str) -> None:
    (repo / "SPEC.md").unlink()
    ran = kern(command, "1")
    assert ran.code == 2 and "there is no SPEC.md in " in ran.err
    assert "kern init writes one" in ran.err


@pytest.mark.slow
def test_each_command_says_in_one_line_what_it_did_from_any_folder(repo: Path, kern: Kern) -> None:
    write(repo, LIST)
    below = repo / "deep" / "down"
    below.mkdir(parents=True)
    for argv, said, text in (
        (
            (
                "add",
                "third",
                "--after",
                "fir",
                "--after",
                "2",
                "--gate",
                "true",
                "--judge",
                "is it",
            ),
            "added 4: third",
            "  - [x] part\r\n- [ ] third\r\n  > **After:** first\r\n  > **After:** second\r\n"
            "  > **Gate:** `true`\r\n  > **Judge:** is it\r\n\r\nprose \udcff",
        ),
        (("reopen", "part"), "reopened 3: part", "- [ ] second\r\n  - [ ] part\r\n"),
        (("add", "- [ ] bit", "--under", "2"), "added 4: bit", "  - [ ] part\r\n  - [ ] bit\r\n"),
        (("note", "4", "- [ ] a\nb"), "noted under 4: bit", "bit\r\n    \\- [ ] a\r\n    b\r\n"),
        (
            ("defer", "bit", "later"),
            "deferred 4: bit",
            "b\r\n    > **Skipped:** by a person: later\r",
        ),
        (("done", "3"), "done 3: part", "- [ ] second\r\n  - [x] part\r\n"),
        (("done", "bit"), "done 4: bit, and with it 2: second", "- [x] second\r\n"),
        (("done", "bit"), "done already: 4: bit", "- [x] second\r\n"),
        (("unblock", "1"), "no attempt counts: 1: first", "- [ ] first\r\n- [x] second\r\n"),
    ):
        ran = kern(*argv, cwd=below)
        assert (ran.code, ran.out, ran.err) == (0, f"{said}\n", ""), argv
        assert text in spec(repo), argv
    assert not [line for line in spec(repo).split("\n")[:-1] if not line.endswith("\r")]


def test_what_is_refused_is_a_usage_error_with_a_hint_and_changes_nothing(
    repo: Path, kern: Kern
) -> None:
    text = "- [ ] first thing\n- [ ] first other\n- [~] third\n"
    write(repo, text)
    for argv, said in (
        (("add", "First  Thing"), "there already: 1: first thing"),
        (("done", "first"), "   2  first other"),
        (("done", "nobody"), "no task is named"),
        (("done", "third"), "in progress: 3: third"),
        (("note", "1", "\n"), "the note says nothing"),
    ):
        ran = kern(*argv)
        assert (ran.code, ran.out) == (2, ""), argv
        assert said in ran.err
        assert "hint: " in ran.err
        assert spec(repo) == text


def test_below_a_fence_that_is_never_closed_nothing_is_added(repo: Path, kern: Kern) -> None:
    text = "- [ ] a\n```\n- [ ] b\n"
    write(repo, text)
    ran = kern("add", "c")
    assert (ran.code, spec(repo)) == (2, text)
    assert "line 2" in ran.err


def test_the_first_task_begins_the_file_and_takes_the_place_of_the_example(
    repo: Path, git: Git, kern: Kern
) -> None:
    (repo / "SPEC.md").unlink()
    assert kern("add", "x", "--after", "y").code == 2
    assert not (repo / "SPEC.md").exists()
    assert kern("add", "mine").out == "added 1: mine\n"
    assert spec(repo) == "# Tasks\n\n- [ ] mine\n"
    (repo / "SPEC.md").write_bytes(prompts.path("SPEC.example.md").read_bytes())
    assert kern("add", "mine").out == "added 1: mine, in place of the example\n"
    assert spec(repo) == "# Tasks\n\n- [ ] mine\n"


def test_many_at_once_lose_nothing(repo: Path, background: Background) -> None:
    for process in [background("add", f"task {number}") for number in range(8)]:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, ""), out
    lines = spec(repo).splitlines()
    assert sorted(lines) == ["- [ ] add a greeting", *(f"- [ ] task {n}" for n in range(8))]


def test_beside_a_run_tasks_and_words_are_added_and_marks_are_refused(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background, tmp_path: Path
) -> None:
    write(repo, "- [ ] first\n- [ ] stuck\n  > **Blocked:** no\n- [x] old\n- [ ] last\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    wait = 'while [ ! -e "$FAKE_CLAUDE/go" ]; do sleep 0.05; done'
    good = {"run": ["echo work >> work.txt"], "result": "Wrote it.\n\nSUCCESS"}
    fake.script(implement=[{**good, "run": [*good["run"], wait]}, good])
    run = background("3", "0")
    wait_for(lambda: "implement" in fake.stages)

    for verb, task in (("done", "last"), ("reopen", "old"), ("unblock", "stuck"), ("done", "1")):
        ran = kern(verb, task)
        assert (ran.code, ran.out) == (1, "")
        assert f"pid {run.pid}" in ran.err
        assert f'hint: kern stop, and when it has ended: kern {verb} "{task}"' in ran.err
    assert kern("defer", "first").code == 2
    assert kern("defer", "last").code == 0
    assert kern("add", "new", "--after", "first").code == 0
    assert kern("add", "part", "--under", "first").code == 2
    assert kern("note", "new", "mind the gap").code == 0
    assert kern("note", "first", "seen").code == 0
    (fake.folder / "go").touch()
    _, err = run.communicate(timeout=PATIENCE_S)

    assert run.returncode == 1, err  # one is blocked
    assert spec(repo).replace("\n", "\n ").count("[x]") == 4
    assert "- [x] new\n  > **After:** first\n  mind the gap\n" in spec(repo)
    assert "  seen\n" in spec(repo)
    assert "- [x] last\n  > **Skipped:** by a person\n" in spec(repo)
    asked = [call["prompt"] for call in fake.calls if call["stage"] == "implement"]
    assert ["mind the gap" in prompt for prompt in asked] == [False, True, False]
    assert kern("unblock", "stuck").out == "to be tried afresh, without what was noted: 2: stuck\n"


def test_a_task_that_a_killed_run_left_is_given_back(repo: Path, fake: Fake, kern: Kern) -> None:
    fake.script(implement=[{"run": ["echo half >> a.txt"], "kill": "parent"}])
    assert kern("1", "0").code < 0
    assert kern("done", "1").code == 2

    ran = kern("reopen", "1")

    assert ran.out == (
        "reopened 1: add a greeting; the next kern saves its unfinished work\n"
        "  it is in your working tree, do not commit it: a.txt\n"
    )
    ahead = "the task was taken out of progress: its unfinished work is saved first"
    assert f"it goes on with: {ahead}" in kern("-n").out
    fake.script(implement=[])
    assert kern("1", "0").code == 0
    assert "half" not in (repo / "a.txt").read_text()
    assert "[x] add a greeting" in spec(repo)
