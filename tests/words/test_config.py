"""kern.toml as data."""

import random
import string
from pathlib import Path

import pytest

from kern import config
from kern.checks import detect
from kern.config import Gate, Probe, Settings, Timeouts
from kern.errors import UsageError
from kern.model import Aide, Output, Role, Stage
from kern.spec import notes
from kern.spec.parse import parse

EXAMPLE = Path(detect.__file__).with_name("proposed.toml").read_text("utf-8")


def test_without_a_file_everything_has_its_default() -> None:
    assert config.parse("") == Settings()
    assert Settings().max_wait == 6 * 3600
    assert Settings().max_failures == 3
    minutes: dict[Role, int] = {
        Stage.RESEARCH: 15,
        Stage.IMPLEMENT: 60,
        Stage.COMMIT: 10,
        Aide.JUDGE: 10,
    }
    assert {role: Settings().total(role) / 60 for role in minutes} == minutes
    assert Timeouts().gate == 600
    assert Settings().idle(Output.STREAM) == 660  # the longest command of the agent's, and a minute
    assert Settings().idle(Output.JSON) == 0


def test_every_setting_is_read() -> None:
    found = config.parse(
        'max_wait = "90m"\nmax_failures = 0\n'
        '[timeouts]\nidle = 0\nresearch = "1.5h"\nimplement = 90\ncommit = "90s"\ngate = "2m"\n'
        "planner = 7\n"
        '[gates]\ncheck = "make check"\n'
        'slow = { run = " make e2e ", timeout = "30m", strict = true }\n'
    )
    assert found.max_wait == 5400
    assert found.max_failures == 0
    assert found.timeouts == Timeouts(0, 5400, 90, 90, 600, 120, 7)
    assert found.gates == (
        Gate("check", "make check", 120),
        Gate("slow", "make e2e", 1800, strict=True),
    )


def test_patterns_of_what_is_searched_are_a_list() -> None:
    assert config.parse('search = ["docs/**/*.md"]').search == ("docs/**/*.md",)
    for wrong in ('"docs"', "[1]", '[""]', "{}"):
        with pytest.raises(UsageError, match="search must be a list of patterns"):
            config.parse(f"search = {wrong}")


def test_snapshot_commands_are_read_like_gates() -> None:
    found = config.parse(
        "[probes]\nport = ' echo 8080 '\nrows = { run = 'wc -l db', timeout = '1m' }\n"
    )
    assert found.probes == (Probe("port", "echo 8080", 20), Probe("rows", "wc -l db", 60))
    with pytest.raises(UsageError, match="there is no snapshot any more") as caught:
        config.parse("[snapshot]\nport = 'echo 8080'\n")
    assert caught.value.hint == "it is now called [probes]"
    assert config.parse("[gates]\nsnapshot = 'make snapshot'\n").gates[0].name == "snapshot"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("port = 1", "probes.port must be a command"),
        ("port = ''", "probes.port must be a command"),
        ("port = { run = 'a', strict = true }", "unknown setting probes.port.strict"),
        ("port = { run = 'a', timeout = 'x' }", "probes.port.timeout must be seconds"),
        ("max_wait = '1h'", "probes.max_wait is no command"),
    ],
)
def test_a_broken_snapshot_command_is_named(entry: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.parse(f"[probes]\n{entry}\n")
    assert said in str(caught.value) and caught.value.hint


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


@pytest.mark.parametrize("note", ["**Gate:**", "**Gate:** ``", "**Judge:** ", "**Gate:** ` \0`"])
def test_a_note_that_says_nothing_is_no_check_and_is_told(note: str) -> None:
    parsed = parse(f"- [ ] task\n  > {note}\n")
    assert [fault.line for fault in parsed.diagnostics] == [2]
    assert not notes.checks(parsed, parsed.tasks[0], Settings()).shown


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
    ("text", "off_a_terminal", "on_one"),
    [
        ("", "json", "stream-json"),
        ("[agent]\noutput = 'auto'", "json", "stream-json"),
        ("[agent]\noutput = 'json'", "json", "json"),
        ("[agent]\noutput = 'stream-json'", "stream-json", "stream-json"),
        ("[timeouts]\nidle = '5m'", "stream-json", "stream-json"),
        ("[timeouts]\nidle = 0", "json", "stream-json"),
        ("[timeouts]\nidle = 9\n[agent]\noutput = 'json'", "json", "json"),
    ],
)
def test_how_an_agent_prints(text: str, off_a_terminal: str, on_one: str) -> None:
    found = config.parse(text)
    assert found.output(watched=False) == off_a_terminal
    assert found.output(watched=True) == on_one


@pytest.mark.parametrize("value", ["'text'", "1", "['json']", "{ a = 1 }"])
def test_another_output_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"agent\.output must be one of auto, json"):
        config.parse(f"agent = {{ output = {value} }}")


@pytest.mark.parametrize(
    ("text", "seconds", "idle"),
    [
        ("", 600, 660),
        ("[gates]\na = 'a'\nb = { run = 'b', timeout = '30m' }", 1800, 1860),
        ("[timeouts]\ngate = '1m'", 60, 600),
        ("[gates]\na = { run = 'a', timeout = 0 }", 0, 0),
        ("[timeouts]\nidle = 5", 600, 5),
    ],
)
def test_an_agents_command_may_take_as_long_as_the_longest_gate(
    text: str, seconds: float, idle: float
) -> None:
    found = config.parse(text)
    assert found.patience == seconds
    assert found.idle(Output.STREAM) == idle


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "1" + "0" * 12, "[0xffff]"])
@pytest.mark.parametrize(
    "setting", ["max_failures", "max_minutes", "max_wait", "timeouts.idle", "max_cost.run", "gates"]
)
def test_a_number_beyond_all_bounds_is_named(setting: str, number: str) -> None:
    with pytest.raises(UsageError, match=f"too long|{setting} must be") as caught:
        config.parse(f"{setting} = {number}\n")
    assert caught.value.hint
