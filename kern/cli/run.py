"""A run from its two numbers. Apart from the commands, so that a plain `kern 10 30` starts without
what it takes to parse options.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kern import many, plain, toml
from kern.errors import Exit, UsageError
from kern.model import OnRed
from kern.models import NO_CHOICES, Choices

ITERATIONS, DELAY = "5", "10"
UNBOUNDED = "999999"  # tasks, where something else ends the run
_MOST = 1e9


def run(
    iterations: str = "",
    delay: str = DELAY,
    *,
    dry: bool = False,
    wait: bool = True,
    sign: bool = True,
    max_cost: str = "0",
    max_minutes: str = "0",
    verbose: bool = False,
    until_done: bool = False,
    improve: bool = False,
    goal: str = "",
    repair: bool = False,
    allow_red: bool = False,
    sandbox: str = "",
    trust: bool = False,
    bare: bool = False,
    models: Choices = NO_CHOICES,
    task: str | None = None,
    quiet: bool = False,
    until: str | None = None,
    branch: str | None = None,
    jobs: str | None = None,
    scheduler: str = "",
) -> int:
    """The exit code of the run, or of the dry run."""
    end = 0.0 if until is None else _until(until, time.time())
    if branch is not None and not branch.strip():
        raise UsageError("--branch names no branch", hint="kern --branch kern/tonight")
    branch = branch or ""
    jobs = _jobs(jobs, scheduler, until_done=until_done)
    on_red = _on_red(repair=repair, allow_red=allow_red)
    if task is not None:
        iterations = _alone(task, iterations, until_done=until_done)
    iterations = iterations or (UNBOUNDED if until_done else ITERATIONS)
    count, pause, cost, minutes = _numbers(iterations, delay, max_cost, max_minutes, improve)
    wanted = task or ""
    if dry:
        from kern.views.dryrun import describe

        ask = partial(describe, Path.cwd(), count, prompts=verbose)
        ask = partial(ask, jobs=None if until_done or improve else jobs, scheduler=scheduler)
        print(ask(on_red=on_red, models=models, wanted=wanted, branch=branch))
        if until_done:
            print("then a review says what is missing: with --until-done it goes on with that")
        return Exit.OK
    from kern.cli.trust import leave
    from kern.pipeline.options import Options

    allowed = leave(sandbox, trust=trust, bare=bare)
    asked = until_done, improve, goal, on_red, wanted, models, allowed
    options = Options(*(count, pause, wait, cost, minutes, *asked), branch=branch, until=end)
    options.jobs, options.scheduler, options.sign = jobs, scheduler, sign
    return _on_screen(options, verbose=verbose, quiet=quiet)


def _on_screen(options: Any, *, verbose: bool, quiet: bool) -> int:
    """The exit code of the run, with what it shows."""
    from kern.pipeline import loop
    from kern.views.console import Console

    with contextlib.closing(Console(verbose=verbose, quiet=quiet)) as console:
        options.watched = console.watched
        options.tick, options.countdown = console.tick, console.countdown
        options.instead = lambda begun: _many(begun, options, console)
        return loop.run(Path.cwd(), options, console)


def _jobs(jobs: str | None, scheduler: str, *, until_done: bool) -> str:
    """So many at once as were asked for; empty where nothing was."""
    if until_done and (jobs or scheduler):
        option = "-j" if jobs else "--scheduler"
        raise UsageError(
            f"--until-done takes one task after the other: leave out {option}",
            hint="kern -j 4 carries out what SPEC.md has; then kern --until-done",
        )
    hint = "kern -j 4; kern -j auto"
    return "" if jobs is None else str(toml.checked(jobs, many.jobs, "-j", hint))


def _many(begun: Any, options: Any, console: Any) -> int | None:
    """A session, its options, its console. Where several tasks are to be carried out at once: the
    exit code. What an earlier such run has left is settled first by a run that goes on by itself.
    """
    fleet = begun.site.caller.settings.fleet
    where = options.scheduler or fleet.scheduler
    jobs = options.jobs or fleet.jobs or many.AUTO * bool(where)
    alone = options.improve or options.until_done or not jobs
    from kern.git import refs

    worker = os.environ.get("KERN_FLEET")
    if not worker and alone and not refs.are_below(begun.site.repo, *_LEFT):
        return None
    from kern.fleet import start, worktree

    if worker:
        if not begun.site.rooms.mounted:
            worktree.set_up(begun.site)
        return None
    if alone:
        start.settle(begun, options)
        return None
    if options.delay == float(DELAY):  # of one task after the other, where nobody named one
        options.delay = 0.0
    shown = console.lanes, console.of_worker
    if not where:
        return start.run(begun, options, jobs, *shown)
    with needing_dask():
        from kern.fleet.cluster import Cluster
    with contextlib.closing(Cluster(where, warn=begun.site.warn)) as cluster:
        cluster.client()  # or its fault is told before anything begins
        return start.run(begun, options, jobs, *shown, cluster.hire)


_LEFT = ("refs/heads/kern/work", "refs/kern/landed")


@contextlib.contextmanager
def needing_dask() -> Iterator[None]:
    """Around the import of what needs it. Raises UsageError."""
    try:
        yield
    except ModuleNotFoundError as exc:
        if str(exc.name).startswith("kern"):
            raise
        raise UsageError(
            f"a cluster needs dask, and Python finds no module {exc.name}",
            hint="pip install 'kern[dask]', on each of its machines",
        ) from None


def _on_red(*, repair: bool, allow_red: bool) -> OnRed:
    if repair and allow_red:
        raise UsageError(
            "--repair and --allow-red exclude each other",
            hint="kern --repair, if the next task is there to turn the red gates green",
        )
    return OnRed.REPAIR if repair else OnRed.ALLOW if allow_red else OnRed.STOP


def _alone(task: str, iterations: str, *, until_done: bool) -> str:
    """The iterations of a run for one task."""
    if not task.strip():
        raise UsageError("--task names no task", hint="kern status shows them; say: kern --task 7")
    if until_done or iterations not in ("", "1"):
        what = "not a goal: leave out --until-done" if until_done else f"not {iterations}"
        raise UsageError(
            f"--task carries out exactly one task, {what}",
            hint=f'kern --task "{plain.line(task, 160)}"',
        )
    return "1"


def _until(text: str, now: float) -> float:
    """The next time, after `now`, at which the person's clock shows it; both in epoch seconds."""
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
    if found is None:
        raise UsageError(
            f"--until takes a time of day: {plain.line(text, 40)!r} is none",
            hint="kern --until 07:00",
        )
    today = time.localtime(now)
    for day in (0, 1):
        clock = (int(found[1]), int(found[2]), 0, 0, 0, -1)
        then = time.mktime((today.tm_year, today.tm_mon, today.tm_mday + day, *clock))
        if then > now:
            break
    return then


def _numbers(
    iterations: str, delay: str, max_cost: str, max_minutes: str, improve: bool
) -> tuple[int, float, float, float]:
    """How many, seconds between them, US dollars and minutes in all; what is wrong is said with a
    call of the command at hand.
    """
    name, call = ("COUNT", "kern improve 3") if improve else ("ITERATIONS", "kern 5 10s")
    pause = ("--delay", f"{call} --delay 10s") if improve else ("DELAY", call)
    return (
        int(_number(iterations, name, 1, call, whole=True)),
        _time(delay, pause[0], "s", pause[1]),
        _number(max_cost, "--max-cost", 0, f"{call} --max-cost 5", whole=False),
        _time(max_minutes, "--max-minutes", "m", f"{call} --max-minutes 2h") / 60,
    )


def _number(text: str, name: str, least: float, call: str, *, whole: bool) -> float:
    try:
        value = float(int(text)) if whole and text.isascii() else float(text)
    except (ValueError, OverflowError):
        value = float("nan")
    if not least <= value < _MOST:
        kind = "a whole number" if whole else "a number"
        raise UsageError(
            f"{name} is {kind}, at least {least:g}: {plain.line(text, 40)!r} is not", hint=call
        )
    return value


def _time(text: str, name: str, unit: str, call: str) -> float:
    """In seconds; a plain number is of `unit`."""
    value = plain.seconds(text, unit)
    if value is None or value >= _MOST:
        raise UsageError(
            f"{name} is a time such as 30s, 5m or 1h30m: {plain.line(text, 40)!r} is not", hint=call
        )
    return value
