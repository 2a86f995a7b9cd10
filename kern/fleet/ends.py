"""How a run of many at once ends, in words: what it leaves, and what a person types next."""

import signal
from dataclasses import replace
from pathlib import Path

from kern import plain
from kern.errors import Exit, KernError, LimitReached, UsageError
from kern.fleet.work import Outcome
from kern.model import Need
from kern.pipeline.options import Options
from kern.spec.parse import Spec

TRIES = 3  # of one task whose kern was ended by something else


def cause(came: Outcome, limit: float) -> KernError:
    """Of a run that ends, by one worker's fault; `limit`: when a usage limit ends, 0: unknown."""
    if came.code == Exit.LIMIT:
        fault = came.fault or "a worker has reached a usage limit"
        return LimitReached(fault, resets_at=limit or None, hint=came.hint)
    kind = UsageError if came.code == Exit.USAGE else KernError
    return kind(came.fault, hint=came.hint or "fix it, then run kern again")


def unlanded(count: int, why: str) -> KernError:
    """All has come home, and finished tasks could not land."""
    tasks, waits = plain.count(count, "finished task"), "waits" if count == 1 else "wait"
    return KernError(
        f"{tasks} {waits} to land: {why}",
        hint="commit or stash what is yours, then run kern again: it lands then",
    )


def need(came: Outcome, parsed: Spec | None, options: Options, workers: int, log: Path) -> Need:
    """Of a task whose kern was ended again and again, which the next run resumes."""
    key, tasks = came.job.key, enumerate(parsed.tasks if parsed else (), 1)
    number, line = next(((at, one.line) for at, one in tasks if one.key == key), (0, 0))
    why = f"{came.fault} {plain.count(TRIES, 'time')} in a row"
    do = f"tail {log} shows what it printed; {call(options)} resumes it"
    if came.code == -signal.SIGKILL:
        why += " (out of memory?)"
        fewer = call(replace(options, jobs=str(max(workers // 2, 1))))
        do = f"dmesg | tail tells whether memory ran out; {fewer} resumes it with fewer workers"
    return Need(number, line, key.text, f"{why}; its work so far is kept", do)


def resumed(options: Options, count: int) -> str:
    """What becomes of the tasks that a run leaves in progress."""
    it = "it" if count == 1 else "them"
    told, called = f"{plain.count(count, 'task')} in progress", call(options)
    if called == "kern":
        return f"{told}: kern resumes {it}"
    return f"{told}: {called} resumes {it}; kern alone saves the work and begins {it} anew"


def call(options: Options) -> str:
    """How a person begins the like of this run, but for how many tasks."""
    words = ["-j", options.jobs] if options.jobs else []
    words += ["--scheduler", options.scheduler] if options.scheduler else []
    return " ".join(["kern", *words])
