"""The README, carried out: the first task and the demo."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Fake, Kern, executable

TOP = Path(__file__).resolve().parent.parent.parent
README = (TOP / "README.md").read_text()


# -------------------------------------------------------------------- a new user


def fences(language: str = "") -> list[str]:
    """The blocks of the README that are written in a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
    return [text for tongue, text in blocks if tongue == language]


def steps(block: str) -> list[str]:
    """The commands of a block, without what is said of them."""
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


SCRIPT = "echo 'echo hello, $1' > greet.sh"


def minutes(folder: Path, session: list[str]) -> dict[str, str]:
    """What each step printed, one after the other in one shell; none may fail."""
    marked = [f"echo '<{number}>'; {line} 2>&1 || exit 1" for number, line in enumerate(session)]
    done = subprocess.run(
        ["bash", "-c", "\n".join(marked)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    parts = re.split(r"^<\d+>$", done.stdout, flags=re.M)[1:]
    return dict(zip(session, parts, strict=True))


def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kern` as an installed command."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "kern"
    executable(command, f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n')
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(TOP))


def test_the_first_task_takes_eight_commands(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(tmp_path, monkeypatch)
    found = {"result": "- Files: greet.sh (new)\n- Constraint: none\n\nREADY"}
    fake.script(research=[found], implement=[{"run": [SCRIPT], "result": "Wrote it.\n\nSUCCESS"}])
    (first,) = (block for block in fences("bash") if block.startswith("mkdir"))
    session = steps(first)
    assert len(session) == 8
    said = minutes(tmp_path, session)
    assert "Write greet.sh" in said["kern -n"]
    assert "verified by `sh greet.sh you | grep -q hello`" in said["kern"]
    assert "greet.sh" in said["git log --stat"]
    assert "verified by gate" in said["kern show 1"]


# -------------------------------------------------------------------- the demo


def without_numbers(text: str) -> list[str]:
    """Its lines, without the time of day, durations and hashes, which differ from run to run."""
    text = re.sub(r"^\[[\d -]*\d\d:\d\d:\d\d\] ", "", text, flags=re.M)
    text = re.sub(r"\b[\d.]+ (?:s|min)\b", "TIME", text)
    return re.sub(r"\b[0-9a-f]{7}\b", "COMMIT", text).splitlines()


def test_the_demo_prints_the_screen_that_the_readme_shows(
    tmp_path: Path, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it leaves the home folder as it is."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    there = [*Path.home().rglob("*")]
    ran = kern("demo", cwd=tmp_path, env={"KERN_SANDBOX": "auto"}, started=True)
    assert ran.code == 0 and "\n" not in ran.err.strip(), ran.said  # it warns without a sandbox
    assert [*Path.home().rglob("*")] == there
    printed = iter(without_numbers(ran.out))
    for line in without_numbers(fences()[0]):
        assert line in printed, f"not there, or not in this order: {line}"  # it reads on from there
