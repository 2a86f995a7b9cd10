"""A run, as a person has asked for it."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from kern.cli.asking import leave
from kern.errors import Exit, UsageError
from kern.fleet import run as fleet
from kern.fleet import worktree
from kern.models import of_options
from kern.pipeline import loop
from kern.pipeline.site import Options
from kern.system import workspace
from kern.views.live import Console

UNBOUNDED = 999_999  # tasks, where something else ends the run


def run(chosen: Mapping[str, Any]) -> int:
    """The exit code of the run, or of the dry run. `chosen`: what a person typed, by the names of
    its options, of which most are Options' own.
    """
    names = {one.name for one in fields(Options)}
    own = {name: value for name, value in chosen.items() if name in names and value is not None}
    options, task = Options(**own), chosen["task"]
    options.models = of_options(chosen["model"] or (), chosen["agent"] or ())
    options.wait, options.sign = not chosen["no_wait"], not chosen["no_sign"]
    options.leave = leave(chosen["trust"])
    if options.until_done and (options.jobs or options.scheduler or task is not None):
        what = "--until-done takes all tasks, one by one: leave out -j, --scheduler and --task"
        raise UsageError(what, hint="kern -j 4; then kern --until-done")
    if task is not None:
        if chosen["iterations"] not in (None, 1):
            raise UsageError("--task takes that task alone, and no number of them", hint="kern -h")
        options.iterations, options.task = 1, task or " "
    elif options.until_done and not chosen["iterations"]:
        options.iterations = UNBOUNDED
    verbose = chosen["verbose"]
    if chosen["dry_run"]:
        from kern.views.dryrun import describe

        print(describe(Path.cwd(), options, with_prompts=verbose))
        if options.until_done:
            print("then a review says what is missing: with --until-done it goes on with that")
        return Exit.OK
    with contextlib.closing(Console(verbose=verbose)) as console:
        options.watched = console.watched
        options.tick, options.countdown = console.tick, console.countdown
        options.instead = lambda site: _many(site, options, console)
        return loop.run(Path.cwd(), options, console)


def _many(site: Any, options: Options, console: Console) -> int | None:
    """The exit code where several tasks are to be carried out at once, or an earlier such run has
    left some: those come first.
    """
    where = options.scheduler
    if os.environ.get("KERN_FLEET"):
        if not site.rooms.mounted:
            worktree.set_up(site)
        return None
    if not (options.jobs or where):
        there = (site.scope.folder / workspace.FLEET).glob("*/.git")
        if not (fleet.begun(site) or any(there)):
            return None
        if options.until_done:
            what = "an earlier kern -j was ended before all had landed"
            raise UsageError(what, hint="kern -j 4 goes on with it; then kern --until-done")
        options.jobs = 1
    if not where:
        return fleet.run(site, options.jobs, console.of_worker)
    from kern.fleet.cluster import Cluster

    cluster = Cluster(where, site.repo, site.warn)
    cluster.connect()  # or its fault is told before anything begins
    with contextlib.closing(cluster):
        jobs, elsewhere = cluster.count(options.jobs), (cluster.carry_out, cluster.stop)
        return fleet.run(site, jobs, console.of_worker, elsewhere)
