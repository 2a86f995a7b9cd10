"""The examples of the README and of the help pages, carried out: the first task, the demo, a goal,
settings, tasks, jq on what a run left.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from kern import config, person
from kern.cli import help as pages
from kern.cli.main import app
from kern.spec import order
from kern.spec.parse import Kind, parse
from tests.conftest import Fake, Git, Inline, Kern

TOP = Path(__file__).resolve().parent.parent.parent
README = (TOP / "README.md").read_text()
PAGES = {"README": README, **{topic: pages.page(topic) for topic in pages.TOPICS}}
EXAMPLES = re.findall(r"^(?:kern .*\| )?jq .*$", PAGES["journal"], re.M)
TODAY = r"\d{4}-\d\d-\d\d"
# What each prints, by the words that tell it from the others.
EXPECTED = {
    "jq -s 'map": r"2\.09375\n",
    "group_by(.time": rf"{TODAY}\t[\d.]+\n(?:{TODAY}\t[\d.]+\n)?",
    "group_by(.stage": r'\{"commit":0\.09375,"implement":0\.875,"research":1\.125\}\n',
    '== "attempt"': r"add a greeting\tgate check is red "
    r"\(exit 1, was green before the task\): is bad\n",
    '== "gate" and .red': r"add a greeting: gate check\nis bad\n\n",
    "sort_by": (
        r'\["add a greeting",1\.5625\]\n\["second",0\.40625\]\n\["no task at all",0\.125\]\n'
    ),
    ".review[]": (
        r"attempt\tadd a greeting\tgit show kern/attempts/add-a-greeting-[0-9a-f]{6}/1\n"
        r"learned\tadd a greeting\tLEARNINGS\.md\n"
        r"skipped\tno task at all\tSPEC\.md\n"
    ),
    ".help[]": r"3 no task at all: skipped: it names nothing to do\n",
    ".by_stage": r'\{"research":0\.75,"implement":0\.75,"commit":0\.0625\}\n',
    ".outcome": r"add a greeting\tproved\nsecond\tproved\n",
}


def step(result: str, cost: float, **fields: Any) -> dict[str, Any]:
    """What the fake agent plays; sums of the costs are exact."""
    return {"result": result, "fields": {"total_cost_usd": cost, **fields}}


@pytest.fixture
def evening(
    repo: Path,
    git: Git,
    fake: Fake,
    inline: Inline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A run with a retry, a red gate, an attempt, a learning, two commits and a skip; and `kern` on
    PATH.
    """
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] second\n- [ ] no task at all\n")
    (repo / "n").write_text("good\n")
    (repo / "kern.toml").write_text(
        "[gates]\ncheck = 'grep -q good n || { echo is bad; exit 1; }'\n"
    )
    git("add", "--all")
    git("commit", "--quiet", "--message=more")
    ready = "- Files: a.txt:1\n\nREADY"
    overload = {"is_error": True, "api_error_status": 529}
    fake.script(
        research=[
            step("overloaded", 0.5, **overload),
            *(step(ready, 0.25), step(ready, 0.25)),
            step("NO_TASK: it names nothing to do", 0.125),
        ],
        implement=[
            {**step("did it\n\nSUCCESS", 0.5), "run": ["echo bad > n"]},
            {
                **step("did it\n\n## Learned\nn is good\n\nSUCCESS", 0.25),
                "run": ["echo very good > n"],
            },
            {**step("did it\n\nSUCCESS", 0.125), "run": ["echo good again > n"]},
        ],
        commit=[step("do the task", cost) for cost in (0.0625, 0.03125)],
    )
    assert inline(3).code == 1
    on_path(tmp_path, monkeypatch)
    return repo


def test_each_example_has_what_it_should_print() -> None:
    assert len(EXAMPLES) == len(EXPECTED) == 10
    for words in EXPECTED:
        assert sum(words in line for line in EXAMPLES) == 1, words


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed: apt-get install jq")
def test_each_example_prints_the_right_thing(evening: Path) -> None:
    for words, shown in EXPECTED.items():
        (line,) = [line for line in EXAMPLES if words in line]
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"], cwd=evening, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        assert re.fullmatch(shown, done.stdout), f"{line}\n{done.stdout}"


# -------------------------------------------------------------------- a new user


def fences(page: str, language: str = "") -> list[str]:
    """The blocks of a page that are written in a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGES[page], re.M | re.S)
    return [text for tongue, text in blocks if tongue == language]


def steps(block: str) -> list[str]:
    """The commands of a block, without what is said of them."""
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


LIST = """Nothing is there yet.

## Tasks
- [ ] Write greet.sh
  > **Gate:** `sh greet.sh you | grep -q hello`
- [ ] Document greet.sh in README.md
  > **After:** Write greet.sh

TASKS"""
SCRIPT = "echo 'echo hello, $1' > greet.sh"
DOCS = "echo 'sh greet.sh NAME' > README.md"


def minutes(folder: Path, session: list[str]) -> dict[str, str]:
    """What each step printed, one after the other in one shell; none may fail."""
    marked = [f"echo '<{number}>'; {line} 2>&1 || exit 1" for number, line in enumerate(session)]
    done = subprocess.run(
        ["bash", "-c", "\n".join(marked)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    parts = re.split(r"^<\d+>$", done.stdout, flags=re.M)[1:]
    return dict(zip(session, parts, strict=True))


def check_first_minutes(folder: Path) -> None:
    session = steps(fences("planning", "bash")[0])
    said = minutes(folder, session)
    assert "+- [ ] Write greet.sh" in said[session[3]]
    assert "waits for 1" in said["kern status"]
    assert said["kern graph"].strip().startswith("graph TD")
    assert "Write greet.sh" in said["kern -n"]
    run = said["kern --until-done --max-cost 5"]
    assert "nothing is missing: both are there" in run
    assert "verified by gate `sh greet.sh you | grep -q hello`" in run
    assert len(said["git log --oneline"].split("\n")) - 2 == 4, "begin, plan, two tasks"
    assert "2 done, 1 unverified in" in said["kern report"]
    assert "verified by gate" in said["kern show 1"]
    top = folder / "greet"
    ran = subprocess.run(["sh", "greet.sh", "you"], cwd=top, capture_output=True, text=True)
    assert ran.stdout == "hello, you\n"
    left = ["git", "status", "--porcelain"]
    assert subprocess.run(left, cwd=top, capture_output=True, text=True).stdout == ""


def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kern` as an installed command."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "kern"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(TOP))


def test_a_goal_becomes_a_program_in_ten_minutes(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(tmp_path, monkeypatch)
    done = "Wrote it.\n\nSUCCESS"
    fake.script(
        planner=[{"result": LIST}, {"result": "I looked.\n\nDONE: both are there"}],
        implement=[{"run": [SCRIPT], "result": done}, {"run": [DOCS], "result": done}],
    )
    check_first_minutes(tmp_path)


def test_the_first_task_takes_eight_commands(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(tmp_path, monkeypatch)
    fake.script(implement=[{"run": [SCRIPT], "result": "Wrote it.\n\nSUCCESS"}])
    (first,) = (block for block in fences("README", "bash") if block.startswith("mkdir"))
    session = steps(first)
    assert len(session) == 8
    said = minutes(tmp_path, session)
    assert "Write greet.sh" in said["kern -n"]
    assert "verified by gate `sh greet.sh you | grep -q hello`" in said["kern"]
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


@pytest.mark.parametrize("page", PAGES)
def test_each_example_of_settings_is_valid(page: str) -> None:
    read = person.parse if page == "safety" else config.parse  # the person's own file
    for block in fences(page, "toml"):
        read(block)


def test_the_settings_that_are_shown_are_the_defaults() -> None:
    assert config.parse(fences("settings", "toml")[0]) == config.Settings()


@pytest.mark.parametrize("page", [page for page in PAGES if page != "memory"])  # of LEARNINGS.md
def test_each_example_of_tasks_is_a_sound_spec(page: str) -> None:
    for block in fences(page, "markdown"):
        spec = parse(block)
        assert spec.tasks and spec.diagnostics == ()
        assert not spec.active[1:]
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


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed: apt-get install jq")
def test_each_line_of_debugging_prints_something(
    repo: Path,
    fake: Fake,
    inline: Inline,
    git: Git,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] second\n")
    (repo / "kern.toml").write_text("[gates]\ncheck = 'cat own.txt'\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=more")
    tried = {"run": ["echo more > a.txt"], "result": "I could not.\n\nFAILED: it is too hard"}
    wrote = {"run": ["echo more > a.txt"], "result": "Wrote it.\n\nSUCCESS"}
    refused = step("who are you?", 0, is_error=True, api_error_status=401)
    fake.script(implement=[tried, wrote, refused])
    assert inline(2).code == 1, "it stops in the middle of the second task"
    on_path(tmp_path, monkeypatch)
    (block,) = fences("failures", "bash")
    for line in steps(block):
        done = subprocess.run(["bash", "-c", line], cwd=repo, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), line
        assert done.stdout.strip(), line
