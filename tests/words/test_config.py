"""kern.toml as data."""

import random
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kern import config, person
from kern.checks import detect
from kern.cli.admin import PAGES
from kern.config import Budget, Gate, Settings, Worktree
from kern.errors import UsageError
from kern.model import Aide, Role, Stage
from kern.models import Choice
from kern.spec import notes
from kern.spec.parse import parse

EXAMPLE = Path(detect.__file__).with_name("proposed.toml").read_text("utf-8")


def test_without_a_file_everything_has_its_default() -> None:
    assert config.parse("") == Settings()
    assert Settings().max_wait == 6 * 3600
    minutes: dict[Role, int] = {
        Stage.RESEARCH: 15,
        Stage.IMPLEMENT: 60,
        Stage.COMMIT: 10,
        Aide.JUDGE: 10,
    }
    assert {role: Settings().total(role) / 60 for role in minutes} == minutes
    assert Gate("a", "b").timeout == 600
    assert Settings().idle == 660  # the longest command of the agent's, and a minute


def test_every_setting_is_read() -> None:
    found = config.parse(
        'max_wait = "90m"\nagents = ["codex", "claude"]\n'
        '[stages.research]\ntimeout = "1.5h"\nmodel = "opus"\n[stages.judge]\ntimeout = 0\n'
        '[gates]\ncheck = "make check"\nlint = { run = "make lint", red = "known" }\n'
        'slow = { run = " make e2e ", timeout = "30m", strict = true, room = false }\n'
        '[max_cost]\nrun = 2\ntask = "1.5k tokens"\n'
        '[worktree]\ncopy = [".env", "config/local.yml"]\nsetup = " uv sync "\n'
    )
    assert (found.max_wait, found.agents) == (5400, ("codex", "claude"))
    assert found.total(Stage.RESEARCH) == 5400 and found.total(Stage.IMPLEMENT) == 3600
    assert found.total(Aide.JUDGE) == 0
    assert found.models == {Stage.RESEARCH: Choice("opus")}
    assert found.budget == Budget(run=2, task_tokens=1500)
    assert found.worktree == Worktree((".env", "config/local.yml"), "uv sync")
    assert found.gates == (
        Gate("check", "make check", 600),
        Gate("lint", "make lint", 600, red="known"),
        Gate("slow", "make e2e", 1800, strict=True, room=False),
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[models]\njudge = 'opus'", "[stages.ROLE]"),
        ("[timeouts]\ngate = 9", "[stages.ROLE]"),
        ("[agent]\noutput = 'json'", "take it out"),
        ("[gates]\na = { run = 'a', known_red = true }", 'red = "known"'),
        ("[probes]\nport = 'echo 8080'", "take it out"),
        ("max_failures = 9", "take it out"),
        ("max_tokens.task = 9", "[max_cost]"),
        ("max_cost.stage = 9", "bound the task"),
        ("[worktree]\nlink = ['deps']", "take it out"),
        ("awake = false", "KERN_AWAKE=off"),
        *((f"{word} = 1", "git remote add kern URL") for word in ("fleet", "remote")),
        ("max_minutes = 9", "--until"),
        ("max_rounds = 9", "take it out"),
        ("large_file = 9", "take it out"),
        ("search = []", "take it out"),
        ("branch = 'x'", "git switch"),
        ("jobs = 4", "kern -j 4"),
        *((f"{word} = 1", person.FILE) for word in ("notify", "hidden")),
    ],
)
def test_an_old_setting_names_the_new_one(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=r"there is no .* any more") as caught:
        config.parse(text)
    assert caught.value.hint and hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[worktree]\ncopies = []", "unknown setting worktree.copies"),
        ('[worktree]\ncopy = ["../x"]', "copy must be a list of paths within the repository"),
        ('[worktree]\ncopy = ["a/.git/b"]', "worktree.copy must be"),
        ("[worktree]\nsetup = 3", "worktree.setup must be a command"),
        ("[gates]\na = {}", "gates.a must be a command"),
        ("[max_cost]\nrun = '9 apples'", "max_cost.run must be US dollars, or a text like"),
        ("[stages]\ncoder = { model = 'opus' }", "unknown setting stages.coder"),
        ("stages.judge = 'opus'", "stages.judge must be a table"),
        ("stages.judge.model = '--opt'", "stages.judge.model must be a model's name, not '--opt'"),
        ("stages.judge.effort = 'quick'", "stages.judge.effort must be one of low, medium"),
    ],
)
def test_what_kern_toml_cannot_mean_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.parse(text)
    assert said in str(caught.value) and caught.value.hint


# A name of the person's choice, as the page has it: what it names counts once.
CHOSEN = (
    "gates.(check|e2e|lint|net|images)",
    "stages.implement",
    "commands.llm",
    "hidden.~/src/app",
)


def test_there_are_thirty_settings_and_the_page_shows_them_all() -> None:
    page = (PAGES / "settings.md").read_text()
    theirs, own, *_ = re.findall(r"```toml\n(.*?)```", page, re.S)
    config.parse(theirs), person.parse(own)
    names = {*leaves(tomllib.loads(theirs)), *leaves(tomllib.loads(own))}
    for chosen in CHOSEN:
        names = {re.sub(f"^{chosen}", chosen.partition(".")[0], name) for name in names}
    assert len(names - {"gates"}) == 30, sorted(names)


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


def test_no_text_raises_anything_but_a_usage_error() -> None:
    whole = detect.kern_toml(EXAMPLE, ()) + '[gates.x]\nrun = "y"\n'
    dice = random.Random(7)
    for _ in range(1500):
        text = list(whole)
        for _ in range(dice.randrange(1, 12)):
            at = dice.randrange(len(text))
            text[at : at + dice.randrange(3)] = dice.choice(string.printable)
        try:
            config.parse("".join(text))
        except UsageError as exc:
            assert exc.hint


@pytest.mark.parametrize(
    ("text", "seconds", "idle"),
    [
        ("", 600, 660),
        ("[gates]\na = 'a'\nb = { run = 'b', timeout = '30m' }", 1800, 1860),
        ("[gates]\na = { run = 'a', timeout = '1m' }", 600, 660),
        ("[gates]\na = { run = 'a', timeout = 0 }", 0, 0),
    ],
)
def test_an_agents_command_may_take_as_long_as_the_longest_gate(
    text: str, seconds: float, idle: float
) -> None:
    found = config.parse(text)
    assert found.patience == seconds
    assert found.idle == idle


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "1" + "0" * 12, "[0xffff]"])
@pytest.mark.parametrize(
    "setting", ["max_cost.task", "max_wait", "stages.judge.timeout", "max_cost.run", "gates"]
)
def test_a_number_beyond_all_bounds_is_named(setting: str, number: str) -> None:
    with pytest.raises(UsageError, match=f"not valid TOML|{setting} must be") as caught:
        config.parse(f"{setting} = {number}\n")
    assert caught.value.hint
