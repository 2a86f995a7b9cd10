"""Arguments and options as typer has them, and how their values are read."""

import contextlib
import io
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option

from kern import plain


@contextlib.contextmanager
def as_data(as_json: bool) -> Iterator[None]:
    """What a command says of what it did, as data where that is asked for."""
    if not as_json:
        yield
        return
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.redirect_stderr(text):
        yield
    print(plain.data({"said": text.getvalue().strip()}))


def duration(text: str) -> float:
    """Seconds."""
    if (value := plain.seconds(text)) is None:
        raise BadParameter(f"{plain.line(text, 40)!r} is no time such as 30s, 5m or 1h30m")
    return value


def clock(text: str) -> float:
    """The next time at which the person's clock shows it, in epoch seconds."""
    try:
        when = datetime.strptime(text, "%H:%M")
    except ValueError:
        raise BadParameter(f"{plain.line(text, 40)!r} is no time of day such as 07:00") from None
    now = datetime.now()
    then = datetime.combine(now, when.time())
    return (then if then > now else then + timedelta(days=1)).timestamp()


def tasks(incomplete: str) -> Iterator[tuple[str, str]]:
    """Completes a task by its number; the shell shows its text."""
    from kern.model import SPEC
    from kern.spec.parse import parse

    here = Path.cwd()
    place = next((one for one in (here, *here.parents) if (one / ".git").exists()), here) / SPEC
    parsed = parse(plain.decode(place.read_bytes())).tasks if place.is_file() else ()
    for index, task in enumerate(parsed, 1):
        if str(index).startswith(incomplete):
            yield str(index), plain.line(task.text, 80)


_COUNT = "How many tasks; else 5."
_DELAY = "Time between two tasks: 30 (seconds), 5m, 1h30m; else 10 s."
_MODEL = "Of research, implement, planner; or ROLE=NAME, say commit=haiku."
_UNTIL = "Begin nothing after this time of day: 07:00."
_JOBS = "How many tasks at once, each in a worktree."
_TASK = "Its number, or a part of its text."
_ONLY = f"Only one. {_TASK}"

Iterations = Annotated[int | None, Argument(min=1, max=10**9, metavar="ITERATIONS", help=_COUNT)]
Delay = Annotated[float | None, Argument(parser=duration, metavar="DELAY", help=_DELAY)]
DryRun = Annotated[bool, Option("-n", "--dry-run", help="Show what would happen; write nothing.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Debug lines; with -n the prompts.")]
NoWait = Annotated[bool, Option("--no-wait", help="End at a limit or an outage; do not wait.")]
NoSign = Annotated[bool, Option("--no-sign", help="Leave the commits of this run unsigned.")]
MaxCost = Annotated[float, Option(metavar="DOLLARS", min=0, max=1e9, help="End when it is spent.")]
Names = list[str] | None
Model = Annotated[Names, Option(metavar="NAME", help=_MODEL)]
Agent = Annotated[Names, Option(metavar="NAME", help="Who runs all stages; or ROLE=NAME.")]
UntilDone = Annotated[bool, Option("--until-done", help="Then review, add tasks, and go on.")]
Until = Annotated[float | None, Option(metavar="TIME", parser=clock, help=_UNTIL)]
Jobs = Annotated[int | None, Option("-j", "--jobs", metavar="N", min=1, max=1000, help=_JOBS)]
Only = Annotated[str | None, Option(metavar="TASK", autocompletion=tasks, help=_ONLY)]
Scheduler = Annotated[str, Option(metavar="WHERE", help="Of a dask cluster: host:8786.")]
AllowRed = Annotated[bool, Option("--allow-red", help="Do not hold red gates against tasks.")]
Trusted = Annotated[bool, Option("--trust", help="Run the repository's commands this time.")]
Task = Annotated[str, Argument(metavar="TASK", autocompletion=tasks, help=_TASK)]
AsJson = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
Serve = Annotated[int | None, Option(metavar="PORT", min=0, max=65535, hidden=True)]
Yes = Annotated[bool, Option("--yes", help="Do not ask.")]
Words = Annotated[Names, Argument(metavar="WORDS")]
