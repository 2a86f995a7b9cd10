"""One night, and each view of it as a text file: `pytest tests/views/test_screens.py --bless`
writes what there is into tests/views/screens, to be read as a reviewer would.
"""

import io
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as Terminal

from kern import events
from kern.cli.app import call
from kern.cli.main import commands  # noqa: F401 (the app knows them by that)
from kern.events import Event
from kern.journal import store
from kern.model import Cost, Need, Outcome, Result, Stage
from kern.views import log
from kern.views.live import Console, picture
from tests.conftest import Git, Kern

SCREENS = Path(__file__).parent / "screens"
SPEC = """# Tasks

- [x] Parse dates
- [ ] Publish the package
  > **Blocked:** needs a key
- [ ] Store the orders
  > **Question:** which database?
- [ ] Draw the chart
  > **Attempt 1:** gate test is red: no axis (kept: kern/attempts/draw-1/1)
- [ ] Plan the rest
  - [x] Count what is left
  - [ ] Sort what is left
- [ ] Wait for the chart
  > **After:** Draw the chart
- [ ]Not a task
"""
LEARNED = "# Learnings\n\n- L7 +2 -0 Dates are parsed in UTC. | when: a date is read\n"


def began(run: str) -> Event:
    gates = ("gate test: make test", "gate lint: make lint")
    facts = "run files: /tmp/kern/p/main", "forecast: 6 tasks, about $9.00"
    head = {"run": run, "root": "/p", "branch": "main", "payer": "claude's login"}
    figures = {"open": 6, "iterations": 10, "max_cost": 20.0}
    return Event(events.row("run", "start", **head, **figures), (*facts, *gates))


def called(
    stage: Stage, task: str, answer: str, usd: float | None, attempt: int = 1
) -> list[Event]:
    about = {"stage": stage, "task": task, "attempt": attempt, "model": "opus", "agent": "claude"}
    took = {"seconds": 62.0, "cost_usd": usd, "tokens": {"input": 12_000, "output": 345}}
    end = events.row("stage", "end", **about, **took)
    lines = [f"  {line}" for line in answer.strip().splitlines()]
    return [events.new("stage", "start", **about), Event(end, lines)]


def started(task: str, number: int, resumed: str = "") -> Event:
    return events.new("task", "start", task=task, iteration=number, resumed=resumed)


def settled(task: str, outcome: Outcome, detail: str, commit: str = "", proved: str = "") -> Event:
    return events.new("task", outcome, task=task, detail=detail, commit=commit, proved=proved)


def noted(task: str, reason: str, ref: str) -> Event:
    return events.new("attempt", task=task, reason=reason, ref=ref, cause="gate", attempt=1)


def outage(did: str, text: str, seconds: float) -> Event:
    times = {"since": 1_794_020_000.0, "until": 1_794_020_060.0}
    return events.new("outage", did, text=text, seconds=seconds, **times)


def gate(code: int, output: str = "", **more: Any) -> list[Event]:
    result = Result("gate test", code, output, 4.2, red_before=False, **more)
    return [events.gate_started("gate test", "make test", before=False), events.gate_ended(result)]


ASKED = events.new("request", "stop", ends="after the stage in progress")


def evening() -> Iterator[Event]:
    yield began("evening")
    task = "Parse dates"
    yield started(task, 1)
    yield from called(Stage.RESEARCH, task, "- Files: dates.py:1\n\nREADY", 0.25)
    told = {"L7": "when: a date is read"}
    yield events.new("recall", task=task, stage="implement", told=told, left={"L9": "no room"})
    about = {"stage": "implement", "task": task, "attempt": 1, "model": "opus", "agent": "claude"}
    yield events.new("stage", "start", **about)
    yield events.live("act", calls=("Read dates.py",))
    yield events.new("stage", "failed", reason="overloaded", seconds=2.0, cost_usd=None, **about)
    yield events.new("retry", stage="implement", reason="overloaded", wait=4.0)
    yield from called(Stage.IMPLEMENT, task, "Dates are parsed.\n\nSUCCESS", 1.5)
    yield from gate(1, "FAILED test_dates.py: off by one\n1 failed\n")
    note = "gate test is red (exit 1): off by one"
    yield noted(task, note, "kern/attempts/parse-1/1")
    yield from called(Stage.IMPLEMENT, task, "Off by one no more.\n\nSUCCESS", 1.0, 2)
    yield from gate(0, flaky="red at first (exit 1)")
    yield events.new("vote", task=task, entry="L7", helpful=True, reason="it saved a look")
    yield events.new("learning", task=task, text="A day begins at midnight UTC.")
    yield events.warning("the task changes CLAUDE.md, which agents obey", kept=True)
    yield from called(Stage.COMMIT, task, "Parse dates\n", 0.1)
    proved = "verified by gate test (flaky), gate lint; tests: test_dates.py: 3 lines less"
    yield settled(task, Outcome.DONE, "1a2b3c4 Parse dates", "1a2b3c4d" * 5, proved)
    renamed = "Rename it", Outcome.DONE, "5e6f7a8 Rename it", "5e6f7a8b" * 5
    yield settled(*renamed)
    why = "the API is away for 3 h"
    yield events.new("error", text=why)
    yield ended(interrupted=why, open=5, ahead=3, exit=1)


def morning() -> Iterator[Event]:
    yield began("morning")
    task = "Publish the package"
    yield started(task, 1, "stage 2")
    yield from called(Stage.IMPLEMENT, task, "BLOCKED: needs a key", None)
    yield settled(task, Outcome.BLOCKED, "needs a key")
    task = "Store the orders"
    yield started(task, 2)
    yield settled(task, Outcome.ASKED, "asks: which database?")
    task = "Draw the chart"
    yield started(task, 3)
    yield events.new("limit", text="resets 3am", until=1_794_020_400.0)
    yield outage("away", "no route to the API", 60.0)
    yield outage("over", "it answers", 0.0)
    agents = {"agent": "codex", "instead_of": "claude"}
    yield events.new("stand-in", stage="implement", reason="at its limit", **agents)
    yield noted(task, "gate test is red: no axis", "kern/attempts/draw-1/1")
    yield events.new("plan", added=("Write a legend",), done="")
    yield ASKED
    needs = (
        Need(2, 4, "Publish the package", "needs a key", "kern show 2, kern edit, kern retry 2"),
        Need(3, 6, "Store the orders", "asks: which database?", 'kern answer 3 "…"'),
    )
    more: dict[str, Any] = {"needs": needs, "seconds": 3720.0}
    yield ended(**more, open=5, ahead=3, exit=1, cost=Cost(1.5, 1))


def ended(**more: Any) -> events.RunEnded:
    facts: dict[str, Any] = {"seconds": 600.0, "cost": Cost(2.85), "tokens": 0, "interrupted": ""}
    values = {**facts, **more}
    row = {name: values.pop(name) for name in ("exit", "seconds", "open", "ahead")}
    record = events.row("run", "end", **row, done=0)
    return events.RunEnded(record, done=(), needs_help=(), **values)


def night() -> list[dict[str, Any]]:
    """As the journal has it: a record each ten seconds."""
    found: list[dict[str, Any]] = []
    for run, hour, told in (("evening", 22, evening()), ("morning", 23, morning())):
        rows = [event.record for event in told if event.kept]
        task = ""
        for seq, row in enumerate(rows, 1):
            task = str(row.get("task", task))
            when = f"2026-11-06T{hour}:{seq // 6:02}:{seq % 6}0.000Z"
            head = {"v": 1, "id": f"{run}{seq}", "time": when, "run": run, "seq": seq}
            about = "" if row["kind"] == "run" else task
            found.append({**head, "branch": "main", "task": about, **row})
    return found


def listed(value: Any) -> Iterator[str]:
    """A line for each item of a list and each field; of what lies deeper, all in one."""
    for name, held in value.items() if isinstance(value, dict) else enumerate(value):
        for one in held if isinstance(held, list) and held else [held]:
            yield f"{name}: {json.dumps(one, ensure_ascii=False)}"


def check(name: str, text: str, request: pytest.FixtureRequest) -> None:
    file = SCREENS / name
    if request.config.getoption("--bless"):
        file.write_text(text)
    assert text == file.read_text(), f"{name}: read the difference, then --bless"


WIDTHS = (40, 80, 140)
VIEWS = ("status", "show 1", "show 4", "log", "search date", "report")
DATA = ("report --md", "report --html")
JSON = ("status", "show 1", "report", "search date")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("view", [*VIEWS, *DATA, *(f"{view} --json" for view in JSON)])
def test_each_view_of_the_night_and_on_a_terminal_of_each_width(
    repo: Path,
    git: Git,
    kern: Kern,
    view: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(repo)
    (repo / "SPEC.md").write_text(SPEC)
    (repo / "LEARNINGS.md").write_text(LEARNED)
    git("update-ref", "refs/kern/attempts/parse-1/1", "HEAD")
    store.place(repo / ".git").parent.mkdir()
    store.place(repo / ".git").write_bytes(b"".join(map(store.line, night())))
    ran, name = kern(*view.split()), re.sub("[ -]+", "-", view)
    assert (ran.code, ran.err) == (0, "")
    out = ran.out.replace(str(repo.parent), "W")
    if view.endswith("--json"):
        out = "".join(f"{line}\n" for line in listed(json.loads(out)))
    check(f"{name}.txt", out, request)
    monkeypatch.setattr("sys.stdout", screen := Screen())
    monkeypatch.setenv("COLUMNS", "40")
    assert call(view.split()) == 0
    assert screen.getvalue().split() == ran.out.split()
    assert (screen.getvalue() == ran.out) is (view not in VIEWS)  # data is not wrapped
    for width in WIDTHS if view in VIEWS else ():
        check(f"{name}-{width}.txt", log.wrapped(out, width), request)


@pytest.mark.parametrize("width", [0, *WIDTHS])
def test_the_night_as_its_runs_told_it(
    width: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TZ", "UTC"), ("TERM", "xterm"), ("COLUMNS", str(width))):
        monkeypatch.setenv(name, value)
    out = Screen() if width else io.StringIO()
    console = Console(out=out, err=out, verbose=True)
    *told, last = *evening(), *morning()
    assert isinstance(last, events.RunEnded)
    for event in (*told, replace(last, night=night())):
        console(event)
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", out.getvalue())
    lines = [line[22:] if line[:1] == "[" else line.rstrip() for line in text.splitlines()]
    check(f"run-{width}.txt" if width else "run.txt", "\n".join([*lines, ""]), request)


FIGURES: dict[str, Any] = {"open": 6, "iterations": 10, "max_cost": 20.0}
ONE = (
    events.new("run", "start", run="r", root="/p", branch="main", **FIGURES),
    *(settled(f"t{n}", Outcome.DONE, "") for n in range(3)),
    settled("blocked", Outcome.BLOCKED, "no key"),
    *called(Stage.RESEARCH, "Draw the chart", "READY", 4.25),
    events.new("stage", "start", stage="implement", task="Draw the chart", attempt=2),
    events.live("act", calls=("Read a.py", "Bash " + "make " * 40)),
)
LONG = "Write the parser " * 9
BEGUN, OVER = ({"kind": "stage", "did": did, "stage": "implement"} for did in ("start", "end"))
MANY = tuple(
    {"time": "1970-01-01T00:00:08.000Z", "run": f"w{at}", "fleet": "r", "worker": at, **record}
    for at, record in (
        (3, {"kind": "work", "task": "Write the lexer", "commit": "c" * 40}),
        (1, {**BEGUN, "task": LONG}),
        (2, {"kind": "run", "did": "end"}),
        (3, {**OVER, "task": "b \x1b[2J", "cost_usd": 1}),
    )
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "many"])
def test_what_is_under_way_below(
    width: int, name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 8.0)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    console = Console(out=io.StringIO(), err=io.StringIO())
    for event in ONE if name == "one" else (*ONE[:4], ASKED):
        console(event)
    for record in MANY if name == "many" else ():
        console.of_worker(record)
    monkeypatch.setattr(time, "monotonic", lambda: 2467.0)
    screen = Terminal(width=width, file=io.StringIO(), highlight=False)
    screen.print(picture(*console.doing(75.0), *console.calls, console.figures(130.0)))
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    lines = (f"{line.rstrip()}\n" for line in text.splitlines())
    check(f"live-{name}-{width}.txt", "".join(lines), request)
