"""What the journal keeps of an event, and the sink that appends it.

Nothing is ever overwritten: what happened is what the records say together, in any order of files.
"""

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kern import events, plain
from kern.events import Event, Sink, Warned
from kern.journal import record, store
from kern.system import process

_EXACT = ("kind", "did", "task", "stage", "root", "commit", "ref")  # by which records are found
_LONGEST = 4000  # characters of a text from outside
_CALL = ("task", "stage", "model", "attempt", "agent")
# Where the agent named no cost it is null, never 0.
_ENDED = ("cost_usd", "tokens", "turns", "session", "denied", "effort", "version", "sent_back")


@dataclass
class Journal:
    """Never a reason to stop paid work: a journal that cannot be written is told of once."""

    path: Path
    run: str
    branch: str
    warn: Callable[[str], None]
    seq: int = 0
    task: str = ""
    away: bool = False  # the API: it is asked again and again
    secrets: Sequence[str] = field(default_factory=lambda: plain.secrets(os.environ))
    worker: int = 0  # 1 and up, where it is one of many
    fleet: str = ""  # the run that these belong to

    def __call__(self, event: Event) -> None:
        for said in of_worker(event) if self.worker else of(event):
            self.task = str(said.get("task", self.task))  # a planner's is none
            self.seq += 1
            head = {"v": record.VERSION, "id": secrets.token_hex(8), "time": _now()}
            head |= {"run": self.run, "seq": self.seq, "branch": self.branch}
            if said["kind"] == "outage":
                self.away = said["did"] != "over"
            elif self.away and said["kind"] == "stage" and said["did"] != "end":
                head["again"] = True
            if self.fleet:
                head |= {"fleet": self.fleet, "worker": self.worker}
            told = {
                key: value if key in _EXACT else plain.masked_data(value, self.secrets)
                for key, value in said.items()
            }
            self._append({**head, "task": self.task if said["kind"] != "run" else "", **told})

    def _append(self, kept: dict[str, Any]) -> None:
        try:
            append(self.path, record.line(kept))
        except OSError as exc:
            self._append = lambda kept: None  # type: ignore[method-assign]
            self.warn(unwritten(self.path, exc))


def unwritten(path: Path, exc: OSError) -> str:
    return f"the journal {path} cannot be written: {exc.strerror}"


def append(path: Path, line: bytes) -> None:
    """One write to the file's end, so that two worktrees' lines never mix."""
    path.parent.mkdir(exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        size = found.st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        whole = b"\n" * torn + line  # a torn line costs itself alone
        if os.write(descriptor, whole) < len(whole):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)


def beside(sink: Sink, common_dir: Path, branch: str, run: str) -> Sink:
    """The sink, and the journal after it."""
    worker, fleet = os.environ.get(process.WORKER, ""), os.environ.get(process.FLEET, "")
    number = int(worker) if worker.isdecimal() and fleet else 0
    written = Journal(store.place(common_dir), run, branch, lambda text: sink(Warned(text)))
    written.worker, written.fleet = number, fleet * bool(number)

    def both(event: Event) -> None:
        sink(event)
        written(event)

    return both


def of(event: Event) -> list[dict[str, Any]]:
    """What the journal keeps of an event: `kind`, `task` where there is one, and its values."""
    match event:
        case events.RunStarted():
            said = {"did": "start", "open": event.open_tasks, "models": _named(event.models)}
            return [_row(event, "run", "root", "iterations", "payer", **said)]
        case events.TaskStarted():
            return [_row(event, "task", "task", "iteration", "resumed", did="start")]
        case events.TaskSettled():
            settled = _row(event, "task", "task", "detail", "proved", did=str(event.outcome))
            return [settled, *([_row(event, "commit", "task", "commit")] if event.commit else [])]
        case events.StageStarted():
            return [_row(event, "stage", *_CALL, "mode", did="start")]
        case events.StageFinished():
            took = {"did": "end", "seconds": round(event.seconds, 3)}
            return [_row(event, "stage", *_CALL, *_ENDED, **took)]
        case events.StageFailed():
            took = {"did": "failed", "seconds": round(event.seconds, 3)}
            return [_row(event, "stage", *_CALL, "reason", "cost_usd", "tokens", **took)]
        case events.StageRetried():
            again = {"try": event.attempt, "wait": event.wait_seconds}
            return [_row(event, "retry", "stage", "reason", **again)]
        case events.StoodIn():
            return [_row(event, "stand-in", "stage", "agent", "reason", "instead_of", "until")]
        case events.AttemptNoted():
            return [_row(event, "attempt", "task", "reason", "ref", "cause", attempt=event.number)]
        case events.QuestionNoted():
            return [_row(event, "question", "task", "stage", "ref", text=event.question)]
        case events.GateEnded():
            return [_gate(event)]
        case events.LimitReset() | events.Outage():
            return [_waits(event)]
        case events.Steered():
            return [_row(event, "request", did="stop")]
        case events.Learned():
            return [_row(event, "learning", "task", text=event.text[:_LONGEST])]
        case events.Voted():
            return [_row(event, "vote", "task", "entry", "helpful", reason=event.why)]
        case events.Recalled():
            told = {"told": _named(event.told), "left": _named(event.left)}
            return [_row(event, "recall", "task", "stage", "irrelevant", "size", **told)]
        case events.Sent():
            return [_row(event, "sent", "task", "worker", "where", "stage")]
        case events.Planned():
            tasks = [text[:_LONGEST] for text in event.tasks]
            return [_row(event, "plan", added=tasks, done=event.done[:_LONGEST])]
        case events.RunEnded():
            said = {"did": "end", "exit": event.exit_code, "seconds": round(event.seconds, 3)}
            end = _row(event, "run", done=len(event.done), open=event.open_tasks, **said)
            early = _row(event, "error", text=event.interrupted)
            return [early, end] if event.interrupted else [end]
        case events.Warned(text, kept):
            return [_row(event, "warning", text=text[:_LONGEST])] if kept else []
    return []  # seen live, and no more


def of_worker(event: Event) -> list[dict[str, Any]]:
    """The same of one of many: its task is done when its commit has landed, which is not its own
    to say.
    """
    rows = of(event)
    if not isinstance(event, events.TaskSettled):
        return rows
    return [{**rows[0], "kind": "work", "commit": event.commit}]


def _row(event: Event, kind: str, *names: str, **more: object) -> dict[str, Any]:
    """`names`: of the event's values that are kept under the same name."""
    return {"kind": kind, **{name: getattr(event, name) for name in names}, **more}


def _waits(event: events.LimitReset | events.Outage) -> dict[str, Any]:
    if isinstance(event, events.LimitReset):
        return _row(event, "limit", "text", "until")
    did = ("over", "away", "still away")[min(event.number, 2)]
    return _row(event, "outage", "text", "since", "until", "seconds", did=did)


def _named(values: Mapping[Any, str]) -> dict[str, str]:
    return {str(name): value for name, value in values.items()}


def _gate(event: events.GateEnded) -> dict[str, Any]:
    """Before a task, it tells of the tree and of no task."""
    result = event.result
    said: dict[str, Any] = {"task": ""} if event.before else {}
    said |= {"gate": result.name, "code": result.code, "red": result.red}
    tail = result.output[-_LONGEST:] if result.red else ""
    before = {"red_before": result.red_before, "seconds": result.seconds}
    flaky = {"flaky": result.flaky[:_LONGEST]} if result.flaky else {}
    return {"kind": "gate", **said, **before, "output": tail, **flaky}


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
