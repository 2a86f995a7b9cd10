"""Arguments and options as typer has them, and how their values are read."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kern import many, plain, toml
from kern.errors import UsageError
from kern.model import SPEC
from kern.spec.parse import parse

ITERATIONS, DELAY = 5, 10.0
_MOST = 1e9


def number(name: str, call: str, *, whole: bool = False) -> Callable[[str], Any]:
    """Reads a number; what is wrong is said with a call that is right."""

    def read(text: str) -> float:
        try:
            value = float(int(text)) if whole and text.isascii() else float(text)
        except (ValueError, OverflowError):
            value = float("nan")
        if not int(whole) <= value < _MOST:
            raise UsageError(
                f"{name} is {'a whole number' if whole else 'a number'}, at least {int(whole)}: "
                f"{plain.line(text, 40)!r} is not",
                hint=call,
            )
        return int(value) if whole else value

    return read


def duration(name: str, call: str, unit: str = "s") -> Callable[[str], float]:
    """Reads a time in seconds; a plain number is of `unit`."""

    def read(text: str) -> float:
        value = plain.seconds(text, unit)
        if value is None or value >= _MOST:
            raise UsageError(
                f"{name} is a time such as 30s, 5m or 1h30m: {plain.line(text, 40)!r} is not",
                hint=call,
            )
        return value

    return read


def clock(text: str) -> float:
    """The next time at which the person's clock shows it, in epoch seconds."""
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
    if found is None:
        raise UsageError(
            f"--until takes a time of day: {plain.line(text, 40)!r} is none",
            hint="kern --until 07:00",
        )
    now = time.time()
    today = time.localtime(now)
    days = (
        time.mktime((today.tm_year, today.tm_mon, today.tm_mday + day, *hour, 0, 0, 0, -1))
        for day in (0, 1)
        for hour in [(int(found[1]), int(found[2]))]
    )
    return next((then for then in days if then > now), now)


def _jobs(text: str) -> str:
    return str(toml.checked(text, many.jobs, "-j", "kern -j 4; kern -j auto"))


def tasks(incomplete: str) -> Iterator[tuple[str, str]]:
    """Completes a task by its number; the shell shows its text."""
    here = Path.cwd()
    place = next((one for one in (here, *here.parents) if (one / ".git").exists()), here) / SPEC
    found = parse(plain.decode(place.read_bytes())).tasks if place.is_file() else ()
    for index, task in enumerate(found, 1):
        if str(index).startswith(incomplete):
            yield str(index), plain.line(task.text, 80)


Iterations = Annotated[
    int | None,
    typer.Argument(
        parser=number("ITERATIONS", "kern 5 10s", whole=True),
        metavar="ITERATIONS",
        help=f"How many tasks; {ITERATIONS} unless said.",
    ),
]
Delay = Annotated[
    float | None,
    typer.Argument(
        parser=duration("DELAY", "kern 5 10s"),
        metavar="DELAY",
        help=f"Time between two tasks: 30 (seconds), 5m, 1h30m; {DELAY:g} s unless said.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("-n", "--dry-run", help="Show what would happen; write nothing.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Debug lines; with -n the prompts.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="End at a usage limit or an outage instead of waiting.")
]
NoSign = Annotated[bool, typer.Option("--no-sign", help="Leave the commits of this run unsigned.")]
MaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="DOLLARS",
        parser=number("--max-cost", "kern 5 10s --max-cost 5"),
        help="End the run when this much is spent.",
    ),
]
Model = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Of research, implement, planner; or ROLE=NAME, say commit=haiku."
    ),
]
AgentName = Annotated[
    list[str] | None,
    typer.Option("--agent", metavar="NAME", help="Who runs all stages; or ROLE=NAME."),
]
UntilDone = Annotated[
    bool, typer.Option("--until-done", help="Then review, add what is missing, go on.")
]
Until = Annotated[
    float | None,
    typer.Option(metavar="TIME", parser=clock, help="Begin nothing after this time of day: 07:00."),
]
Jobs = Annotated[
    str | None,
    typer.Option(
        "-j", "--jobs", metavar="N", parser=_jobs, help="So many tasks at once; auto: as fit."
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        metavar="TASK", autocompletion=tasks, help="Only this: its number, or part of its text."
    ),
]
Scheduler = Annotated[
    str, typer.Option(metavar="WHERE", help="A dask cluster: host:8786, or its scheduler file.")
]
AllowRed = Annotated[
    bool, typer.Option("--allow-red", help="Do not hold red gates against the tasks.")
]
Trusted = Annotated[bool, typer.Option("--trust", help="Run the repository's commands this time.")]
Task = Annotated[
    str,
    typer.Argument(metavar="TASK", autocompletion=tasks, help="Its number, or a part of its text."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
