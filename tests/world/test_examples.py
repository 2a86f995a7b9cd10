"""The README, carried out: the first task, the demo, its settings and tasks; and the help page on
settings.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from kern import config, person
from kern.cli import admin as pages
from kern.cli.main import app
from kern.spec import order
from kern.spec.parse import Kind, parse
from tests.conftest import Fake, Kern

TOP = Path(__file__).resolve().parent.parent.parent
README = (TOP / "README.md").read_text()
PAGES = {
    "README": README,
    **{topic: (pages.PAGES / f"{topic}.md").read_text() for topic in pages.TOPICS},
}


# -------------------------------------------------------------------- a new user


def fences(page: str, language: str = "") -> list[str]:
    """The blocks of a page that are written in a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGES[page], re.M | re.S)
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
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(TOP))


def test_the_first_task_takes_eight_commands(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(tmp_path, monkeypatch)
    found = {"result": "- Files: greet.sh (new)\n- Constraint: none\n\nREADY"}
    fake.script(research=[found], implement=[{"run": [SCRIPT], "result": "Wrote it.\n\nSUCCESS"}])
    (first,) = (block for block in fences("README", "bash") if block.startswith("mkdir"))
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
    assert (ran.code, ran.err) == (0, "")
    assert [*Path.home().rglob("*")] == there
    printed = iter(without_numbers(ran.out))
    for line in without_numbers(fences("README")[0]):
        assert line in printed, f"not there, or not in this order: {line}"  # it reads on from there


# -------------------------------------------------------------------- kern.toml and SPEC.md


def test_each_example_of_settings_is_valid() -> None:
    of_project, *own = fences("settings", "toml")
    assert config.parse(of_project) != config.Settings()
    assert len(own) == 2 and person.Person() not in map(person.parse, own)
    config.parse(fences("README", "toml")[0])


@pytest.mark.parametrize("page", ["README", "spec"])
def test_each_example_of_tasks_is_a_sound_spec(page: str) -> None:
    for block in (one for one in fences(page, "markdown") if "[ ]" in one):
        spec = parse(block)
        assert spec.tasks and spec.diagnostics == ()
        assert not order.unknown(spec)


def test_the_readme_shows_each_kind_of_note() -> None:
    (block,) = fences("README", "markdown")
    assert {note.kind for task in parse(block).tasks for note in task.notes} == {*Kind}


# -------------------------------------------------------------------- commands


@cache
def commands() -> Mapping[str, Any]:
    """As typer knows them."""
    return typer.main.get_command(app).commands  # type: ignore[attr-defined,no-any-return]


def options(name: str) -> set[str]:
    """Of a command."""
    own = typer.main.get_command(app).params if name == "run" else ()
    known = {word for one in own for word in one.opts}
    return known | {word for one in commands()[name].params for word in one.opts} | {"-h", "--help"}


def named(text: str) -> list[str]:
    """The calls of kern in code blocks and in code that stands in a line."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.M | re.S)
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines()]
    quoted = re.compile(r"\"[^\"]*\"|'[^']*'")
    parts = [
        part for line in (*spans, *lines) for part in re.split(r"&&|[|;(>]", quoted.sub("", line))
    ]
    return [part.strip() for part in parts if re.match(r"\s*kern( |$)", part)]


@pytest.mark.parametrize("page", PAGES)
def test_each_call_that_is_shown_has_a_command_and_options_that_exist(page: str) -> None:
    for call in named(PAGES[page]):
        words = call.split()[1:]
        word = words[0] if words else ""
        name = word if re.fullmatch(r"[a-z]+", word) else "run"
        assert name in commands(), call
        for option in re.findall(r"(?<![\w-])(--[a-z][\w-]*)", call):
            assert option in options(name), call
        for letter in "".join(re.findall(r"(?<![\w-])-([A-Za-z]+)\b", call)):
            assert f"-{letter}" in options(name), call
        if name == "help" and words[1:] and words[1].isalpha() and words[1].islower():
            assert words[1] in (*pages.TOPICS, *commands()), call


def test_the_links_of_the_readme_lead_somewhere() -> None:
    found = re.findall(r"\]\((?!https:)([^)]+)\)", README)
    assert found
    assert all((TOP / place).exists() for place in found)
