"""kern.toml as data."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kern import config, person
from kern.checks import detect
from kern.cli.admin import PAGES
from kern.config import Bounds, Gate, Settings, Tokens, Worktree
from kern.errors import UsageError
from kern.model import Aide, Stage
from kern.models import Choice
from kern.spec import notes
from kern.spec.parse import parse

EXAMPLE = Path(detect.__file__).with_name("proposed.toml").read_text("utf-8")


def test_without_a_file_everything_has_its_default() -> None:
    assert config.parse("") == Settings()
    assert Settings().max_wait == 6 * 3600
    minutes = [Settings().total(role) / 60 for role in (*Stage, Aide.JUDGE)]
    assert minutes == [15, 60, 10, 10]
    assert Gate("a", "b").timeout == 600


def test_every_setting_is_read() -> None:
    found = config.parse(
        'max_wait = "90m"\nagents = ["codex", "claude"]\n'
        '[stages.research]\ntimeout = "1.5h"\nmodel = "opus"\n[stages.judge]\ntimeout = 0\n'
        '[gates]\ncheck = "make check"\nlint = { run = "make lint", red = "known" }\n'
        'slow = { run = " make e2e ", timeout = "30m", strict = true, room = false }\n'
        "[max_cost]\nrun = 2\n[max_tokens]\ntask = 1_500\nstage = 9e2\n"
        '[worktree]\ncopy = [".env", "config/local.yml"]\nsetup = " uv sync "\n'
    )
    assert (found.max_wait, found.agents) == (5400, ("codex", "claude"))
    assert found.total(Stage.RESEARCH) == 5400 and found.total(Stage.IMPLEMENT) == 3600
    assert found.total(Aide.JUDGE) == 0
    assert found.stages[Stage.RESEARCH] == Choice("opus", timeout=5400)
    assert (found.max_cost, found.max_tokens) == (Bounds(2), Tokens(task=1500, stage=900))
    assert found.worktree == Worktree((".env", "config/local.yml"), "uv sync")
    assert found.gates == (
        Gate("check", "make check", 600),
        Gate("lint", "make lint", 600, red="known"),
        Gate("slow", "make e2e", 1800, strict=True, room=False),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[worktree]\ncopies = []", "worktree.copies is no setting"),
        ('[worktree]\ncopy = ["../x"]', "copy must be a list of paths within the repository"),
        ('[worktree]\ncopy = ["a/.git/b"]', "worktree.copy must be"),
        ("[gates]\na = {}", "gates.a must be a command"),
        ("max_cost.run = '9 apples'", "max_cost.run must be a number; 0 for no bound"),
        ("max_tokens.run = '5M'", "max_tokens.run must be a number; 0 for no bound"),
        ("[stages]\ncoder = { model = 'opus' }", "stages.coder is no setting"),
        ("commands.mine = 'sh x'", "commands.mine must be a list of words, the program first"),
        ('commands.mine = ["sh", "a\\u0000b"]', "commands.mine must be a list of words"),
        ('agents = ["a b"]', "agents must be a list of names"),
        ("stages.judge.model = '--opt'", "stages.judge.model must be a model's name"),
        ("stages.judge.effort = 'quick'", "stages.judge.effort must be one of low, medium"),
    ],
)
def test_what_kern_toml_cannot_mean_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.parse(text)
    assert said in str(caught.value) and caught.value.hint


# Counted once, as the page has it: what stands below a name of the person's choice, and a bound,
# in whichever unit.
CHOSEN = (
    "gates.(check|e2e|lint|net|images)",
    "stages.implement",
    "commands.llm",
    "hidden.~/src/app",
    "max_(cost|tokens)",
)


def test_there_are_some_thirty_settings_and_what_is_copied_from_the_page_is_taken() -> None:
    """A promise to who has to know them: whoever adds one takes another away."""
    page = (PAGES / "settings.md").read_text()
    theirs, own, *_ = re.findall(r"```toml\n(.*?)```", page, re.S)
    config.parse(theirs), person.parse(own)
    names = {*leaves(tomllib.loads(theirs)), *leaves(tomllib.loads(own))}
    for chosen in CHOSEN:
        names = {re.sub(f"^{chosen}", chosen.partition(".")[0], name) for name in names}
    assert len(names - {"gates"}) == 31, sorted(names)


def leaves(table: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def test_a_tasks_notes_are_its_gates_and_its_judges_questions() -> None:
    parsed = parse(
        "- [ ] task\n  > **Gate:** `a 'b' | c`\n  > **Gate:** test -n `cat n`\n"
        "  > **Gate:** `cmd -x` (the smoke test)\n  > **Gate:** ``echo `date` ``\n"
        "  > **Judge:** it is clear\n"
    )
    task = parsed.tasks[0]
    gates = notes.task_gates(task, 7)
    assert [gate.command for gate in gates] == [
        "a 'b' | c",
        "test -n `cat n`",
        "cmd -x",
        "echo `date`",
    ]
    assert all(gate.strict and gate.timeout == 7 for gate in gates)
    assert notes.checks(parsed, task, Settings()).criteria == ("it is clear",)


def test_a_parents_checks_are_those_of_the_last_subtask() -> None:
    text = (
        "- [ ] whole\n  > **Gate:** `w`\n  > **Judge:** kind\n"
        "  - [ ] one\n    > **Gate:** `o`\n  - [ ] two\n"
    )
    gates = {"p": Gate("p", "p", 1)}
    settings = Settings(gates=tuple(gates.values()))
    parsed = parse(text)
    assert notes.checks(parsed, parsed.tasks[1], settings).shown == ("of the task: o", "p: p")
    last = parse(text.replace("[ ] one", "[x] one"))
    assert notes.checks(last, last.tasks[2], settings).shown == (
        *("of the task: w", "p: p"),
        "judge: kind",
    )


def test_an_agents_command_may_take_as_long_as_the_longest_gate() -> None:
    for text, seconds in (
        ("a = 'a'\nb = { run = 'b', timeout = '30m' }", 1800),
        ("", 600),
        ("a = { run = 'a', timeout = 0 }", 0),
    ):
        assert config.parse(f"[gates]\n{text}").patience == seconds


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "1" + "0" * 12])
@pytest.mark.parametrize("setting", ["max_cost.task", "stages.judge.timeout", "gates"])
def test_a_number_beyond_all_bounds_is_named(setting: str, number: str) -> None:
    with pytest.raises(UsageError, match=f"not valid TOML|{setting} must be") as caught:
        config.parse(f"{setting} = {number}\n")
    assert caught.value.hint
