"""A person is told: by the command that they had named when the run began. And while a run is on
the machine is kept awake.

Never a reason to end paid work: what goes wrong here is a warning, or nothing.
"""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.events import Event, RunEnded, Sink, warning
from kern.model import Outcome
from kern.system import process, waits
from kern.system.workspace import Scope

_TIME_OUT_S = 10
_READY_S = 3.0  # until the system has answered
_HINTS = ("--what=idle:sleep", "--who=kern", "--why=a run is on")
# What keeps it awake while a command runs; and how it does so for as long as a process lives.
_BY = {
    "darwin": (("caffeinate", "-i"), ("-w",)),
    "linux": (("systemd-inhibit", *_HINTS), ("tail", "-f", os.devnull, "--pid")),
}


def of(event: Event, root: Path) -> dict[str, Any]:
    """The data of an event that calls for a person; empty for any other. Keys are stable."""
    if isinstance(event, RunEnded):
        asked = [{**one, **_to_answer(str(one["task"]), root)} for one in event.questions]
        return {
            "event": "run-ended",
            "exit": event.record["exit"],
            "done": [{"task": task, "commit": commit} for task, commit in event.done],
            "needs_help": [{"task": task, "why": why} for task, why in event.needs_help],
            "questions": asked,
            "open": event.record["open"],
            "seconds": round(event.record["seconds"], 3),
            "cost_usd": event.cost.known,
            "interrupted": event.interrupted,
        }
    match event.record:
        case {"kind": "task", "did": "skipped" | "blocked" | "asked" as outcome, "task": task}:
            how = _to_answer(task, root) if outcome == Outcome.ASKED else {}
            why = {"outcome": outcome, "why": event.record["detail"]}
            return {"event": "needs-help", "task": task, **why, **how}
        case {"kind": "run", "did": "start", "open": count}:
            return {"event": "run-started", "open": count}
        case {"kind": "outage", "did": "away", "text": why, "since": since, "until": until}:
            return {"event": "outage", "why": why, "since": since, "until": until}
    return {}


def _to_answer(task: str, root: Path) -> dict[str, str]:
    """A line for a shell; whoever has a program reads the JSON."""
    place, named = shlex.quote(str(root)), shlex.quote(plain.line(task, 10_000))
    return {"command": f"cd {place} && kern answer -- {named} 'YOUR ANSWER'"}


def beside(sink: Sink, setting: str, root: Path, scope: Scope, run: str, *, tried: bool) -> Sink:
    """The sink, and the notification after it. `tried`: as the run begins, too, while a person sees
    what it does.
    """
    if not setting or os.environ.get(process.FLEET):  # the run that started it speaks for all
        return sink
    where = {"root": str(root), "branch": scope.branch, "run": run}

    def both(event: Event) -> None:
        sink(event)
        notice = of(event, root)
        try:
            if notice and (tried or notice["event"] != "run-started"):
                _notify(setting, {**notice, **where}, root, scope.folder / "notify.log")
        except KernError as exc:
            sink(warning(f"nobody was notified: {exc}"))

    return both


def _notify(setting: str, notice: dict[str, Any], root: Path, log: Path) -> None:
    """Raises KernError."""
    env, data = process.surroundings() | process.tree_last(root), f"{json.dumps(notice)}\n"
    how: dict[str, Any] = {"total": waits.scaled(_TIME_OUT_S), "stdout": log, "joined": True}
    ran = process.run(("sh", "-c", setting), cwd=root, env=env, stdin=data, **how)
    if ran.timed_out:
        raise KernError(f"the command was ended: {ran.timed_out}")
    if ran.code:
        raise KernError(f"the command failed (exit {ran.code}); all that it printed: {log}")


@contextlib.contextmanager
def awake(root: Path, *, wanted: bool) -> Iterator[str]:
    """By what the machine is kept so, where the system offers it and answers: one child, which ends
    with kern, however that ends. `root`: its programs come after all others. Of many kerns the one
    that started them sees to it.
    """
    by, hold = _BY.get(sys.platform, ((), ()))
    env = {**os.environ, **process.tree_last(root)}
    wanted = wanted and os.environ.get("KERN_AWAKE") != "off" and process.FLEET not in os.environ
    trial = (*by, "true"), waits.scaled(_READY_S), "/", env
    if not (by and wanted) or process.capture(*trial)[0]:
        yield ""
        return
    files = dict.fromkeys(("stdin", "stdout", "stderr"), DEVNULL)
    child = process.start((*by, *hold, str(os.getpid())), cwd="/", env=env, **files)
    try:
        yield by[0]
    finally:
        process.end(child)
