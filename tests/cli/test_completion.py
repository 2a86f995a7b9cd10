"""`kern completion`: what real shells make of it, and what they are told."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kern.cli import completion, usage
from kern.cli.commands import app
from kern.cli.help import COMMANDS, TASKED
from tests.conftest import PATIENCE_S, Kern

TOP = Path(__file__).resolve().parent.parent.parent
SPEC = """\
- [ ] Add a --version flag
- [x] Document the flag: all of "it" again
- [ ] Document $HOME & more
- [~] Store the users' names
  > **Question:** Postgres or SQLite?
"""


def test_what_may_follow_each_option_is_known() -> None:
    every = [one for name in COMMANDS for one in usage.options(usage.params_of(app, name))]
    valued = {word for one in every if not one.is_flag for word in one.opts if word[:2] == "--"}
    assert valued and valued <= completion._VALUES.keys()


@pytest.fixture
def listed(repo: Path) -> Path:
    (repo / "SPEC.md").write_text(SPEC)
    return repo


def options(command: str) -> list[tuple[str, str]]:
    return usage.long_options(app, command)


def words(*typed: str, folder: Path) -> list[str]:
    return [one.word for one in completion.values(typed, folder, options)]


def test_commands_options_topics_and_tasks_are_known(listed: Path) -> None:
    assert words("", folder=listed) == [*COMMANDS]
    assert words("sta", folder=listed) == ["status"]
    assert words("run", "--max-", folder=listed) == ["--max-cost", "--max-minutes"]
    assert "--update" in words("--u", folder=listed)
    assert words("help", "check", folder=listed)[0] == "checks"
    assert words("completion", "", folder=listed) == ["bash", "zsh", "fish"]
    assert words("run", "--sandbox", "b", folder=listed) == ["bwrap"]
    assert words("run", "--effort", "m", folder=listed) == ["medium", "max"]
    assert words("run", "--agent", "c", folder=listed) == ["claude", "codex", "commit="]
    assert words("show", "", folder=listed) == ["1", "2", "3", "4"]
    assert words("show", "document ", folder=listed) == [
        'Document the flag: all of "it" again',
        "Document $HOME & more",
    ]
    assert words("show", "names", folder=listed) == ["Store the users' names"]
    assert words("show", "flag", folder=listed) == [], "two have it, and neither begins so"
    assert words("add", "x", "--after", "3", folder=listed) == ["3"]
    assert words("answer", "", folder=listed) == ["4"]
    assert words("done", "", folder=listed) == ["1", "3", "4"]
    assert words("reopen", "", folder=listed) == ["2", "4"]
    below = listed / "src"
    below.mkdir()
    assert words("show", "1", folder=below) == ["1"]
    assert words("5", "", folder=listed) == words("note", "1", "", folder=listed) == []


def test_the_commands_whose_first_argument_is_a_task_are_known() -> None:
    first = {
        name: [one for one in usage.params_of(app, name) if one.param_type_name == "argument"][:1]
        for name in COMMANDS
    }
    assert {name for name, found in first.items() if "TASK" in map(usage.word, found)} == TASKED


@pytest.mark.parametrize(
    "argv",
    [
        *([], ["tcsh"], ["bash"], ["bash", 'kern show "'], ["bash", "kern show \\"]),
        *(["zsh"], ["fish", "show", "\udcff"], ["zsh", "show", "9" * 5000], ["bash", "'"]),
    ],
)
def test_a_shell_is_never_told_of_a_fault(
    tmp_path: Path, repo: Path, kern: Kern, argv: Sequence[str]
) -> None:
    for text in (b"- [ ] one\n", b"\xff\xfe\x00", b""):
        (repo / "SPEC.md").write_bytes(text)
        ran = kern("--complete", *argv)
        assert (ran.code, ran.err) == (0, "")
    (repo / "SPEC.md").unlink()
    assert (kern("--complete", "zsh", "show", "").err) == ""


def test_another_shell_is_told_which_ones_there_are(kern: Kern, repo: Path) -> None:
    ran = kern("completion", "tcsh")
    assert (ran.code, ran.out) == (2, "")
    assert "kern has completions for bash, zsh, fish, not for 'tcsh'" in ran.err
    assert "hint: eval" in ran.err


# -------------------------------------------------------------------- real shells

TYPED = [
    ("kern sta", ["kern", "status"]),
    ("kern run --until-", ["kern", "run", "--until-done"]),
    ("kern show sto", ["kern", "show", "Store the users' names"]),
    ("kern show names", ["kern", "show", "Store the users' names"]),
    ('kern show "document the', ["kern", "show", 'Document the flag: all of "it" again']),
    ("kern show Document\\ the\\ flag:", ["kern", "show", 'Document the flag: all of "it" again']),
    ("kern show 'Document $", ["kern", "show", "Document $HOME & more"]),
    ("kern answer ", ["kern", "answer", "4"]),
]


def pressed(shell: list[str], lines: Sequence[str], folder: Path) -> list[list[str]]:
    """The words of each line after the key was pressed at its end, as the shell itself has them."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "kern").write_text(f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n')
    (tools / "kern").chmod(0o755)
    env = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(TOP)}
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        shell,
        cwd=folder,
        env={**os.environ, **env, "TERM": "dumb", "PS1": "ready> ", "HISTFILE": ""},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    said, found = b"", []

    def until(mark: bytes) -> None:
        nonlocal said
        end = time.monotonic() + PATIENCE_S
        while mark not in said and time.monotonic() < end:
            if select.select([leader], [], [], 0.1)[0]:
                said += os.read(leader, 1 << 16)
        assert mark in said, said.decode()

    try:
        os.write(leader, f'eval "$(kern completion {shell[0]})"; echo set up\n'.encode())
        until(b"\nset up")
        for line in lines:
            said = b""
            # The key, to the line's beginning, what shows its words, return.
            os.write(leader, line.encode() + b"\t\x01show \r")
            until(b"end of words")
            found.append(re.findall(r"^<(.*)>\r?$", said.decode(), re.M))
    finally:
        os.close(leader)
        child.kill()
        child.wait(PATIENCE_S)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_real_shell_completes(listed: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    show = "show() { printf '<%s>\\n' \"$@\"; echo end of words; }\n"
    (listed / ".zshrc").write_text(show)
    (listed / "rc").write_text(show)
    flags = {"bash": ["--rcfile", "rc", "-i"], "zsh": ["-i"]}[shell]
    monkeypatch.setenv("ZDOTDIR", str(listed))
    lines = [line for line, _ in TYPED]
    assert pressed([shell, *flags], lines, listed) == [words for _, words in TYPED]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes(listed: Path, tmp_path: Path, kern: Kern) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "kern"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n')
    command.chmod(0o755)
    (tmp_path / "kern.fish").write_text(kern("completion", "fish").out)
    env = {**os.environ, "PYTHONPATH": str(TOP), "PATH": f"{command.parent}:{os.environ['PATH']}"}
    for line, expected in (
        ("kern sta", "status"),
        ("kern show sto", "Store the users' names\ttask 4"),
        ("kern answer ", "4\tStore the users' names"),
    ):
        asked = ["fish", "--no-config", "-c", f"source kern.fish; complete -C '{line}'"]
        asked[-1] = asked[-1].replace("kern.fish", str(tmp_path / "kern.fish"))
        done = subprocess.run(asked, cwd=listed, env=env, capture_output=True, text=True)
        assert done.stderr == ""
        assert done.stdout.splitlines()[0].startswith(expected)
