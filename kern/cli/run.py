"""A run, as a person has asked for it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kern import many, plain
from kern.cli.options import DELAY, ITERATIONS
from kern.errors import Exit, UsageError
from kern.fleet import run as fleet
from kern.fleet import worker
from kern.fleet.work import BRANCHES
from kern.git import refs
from kern.pipeline import loop
from kern.pipeline.site import Options
from kern.views.dryrun import describe
from kern.views.live import Console

UNBOUNDED = 999_999  # tasks, where something else ends the run


def run(
    options: Options,
    iterations: int | None,
    task: str | None,
    *,
    dry: bool = False,
    verbose: bool = False,
) -> int:
    """The exit code of the run, or of the dry run."""
    if options.until_done and (options.jobs or options.scheduler):
        option = "-j" if options.jobs else "--scheduler"
        raise UsageError(
            f"--until-done takes one task after the other: leave out {option}",
            hint="kern -j 4 carries out what SPEC.md has; then kern --until-done",
        )
    if task is not None:
        _check_alone(task, iterations, until_done=options.until_done)
        iterations, options.task = 1, task
    options.iterations = iterations or (UNBOUNDED if options.until_done else ITERATIONS)
    if dry:
        return _look(options, verbose=verbose)
    with contextlib.closing(Console(verbose=verbose)) as console:
        options.watched = console.watched
        options.tick, options.countdown = console.tick, console.countdown
        options.instead = lambda site: _many(site, options, console)
        return loop.run(Path.cwd(), options, console)


def _look(options: Options, *, verbose: bool) -> int:
    print(describe(Path.cwd(), options, with_prompts=verbose))
    if options.until_done:
        print("then a review says what is missing: with --until-done it goes on with that")
    return Exit.OK


def _many(site: Any, options: Any, console: Any) -> int | None:
    """A site, its options, its console. Where several tasks are to be carried out at once: the
    exit code. What an earlier such run has left is settled first by a run that goes on by itself.
    """
    where = options.scheduler or site.caller.settings.fleet.scheduler
    jobs = options.jobs or many.AUTO * bool(where)
    alone = options.until_done or not jobs
    sent = "KERN_FLEET" in os.environ  # by a run of many at once
    if not sent and alone and not refs.are_below(site.repo, f"refs/heads/{BRANCHES}"):
        return None
    if sent:
        if not site.rooms.mounted:
            worker.set_up(site)
        return None
    if alone:
        fleet.settle(site)
        return None
    if options.delay not in (0.0, DELAY):
        raise UsageError(
            "--delay is between a task and the next: leave it out, or -j",
            hint="kern -j 2 carries out two tasks at once; kern --delay 60 one after the other",
        )
    shown = console.lanes, console.of_worker
    if not where:
        return fleet.run(site, jobs, *shown)
    with needing_dask():
        from kern.fleet.cluster import Cluster
    with contextlib.closing(Cluster(where, warn=site.warn)) as cluster:
        cluster.client()  # or its fault is told before anything begins
        return fleet.run(site, jobs, *shown, cluster.hire)


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


def _check_alone(task: str, iterations: int | None, *, until_done: bool) -> None:
    if not task.strip():
        raise UsageError("--task names no task", hint="kern status shows them; say: kern --task 7")
    if until_done or iterations not in (None, 1):
        what = "not a goal: leave out --until-done" if until_done else f"not {iterations}"
        raise UsageError(
            f"--task carries out exactly one task, {what}",
            hint=f'kern --task "{plain.line(task, 160)}"',
        )
