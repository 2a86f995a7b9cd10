"""What the journal keeps of an event, and the sink that appends it.

Nothing is ever overwritten: what happened is what the records say together, in any order of files.
"""

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

from kern import events, plain
from kern.events import Event, Sink, Warned
from kern.journal import record, store
from kern.model import Request
from kern.system import process

_EXACT = ("kind", "did", "task", "stage", "root", "commit", "ref")  # by which records are found
_LONGEST = 4000  # characters of a text from outside


@dataclass
class Journal:
    """Never a reason to stop paid work: a journal that cannot be written is told of once."""

    path: Path
    run: str
    branch: str
    warn: Callable[[str], None]
    seq: int = 0
    task: str = ""
    secrets: Sequence[str] = field(default_factory=lambda: plain.secrets(os.environ))
    worker: int = 0  # 1 and up, where it is one of many
    fleet: str = ""  # the run that these belong to

    def __call__(self, event: Event) -> None:
        for said in of_worker(event) if self.worker else of(event):
            self.task = str(said.get("task", self.task))  # a planner's is none
            self.seq += 1
            head = {"v": record.VERSION, "id": secrets.token_hex(8), "time": _now()}
            head |= {"run": self.run, "seq": self.seq, "branch": self.branch}
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
            self.warn(f"the journal {self.path} cannot be written: {exc.strerror}")


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
            return [{"kind": "run", "did": "start", **_begun(event)}]
        case events.TaskStarted():
            said = {"did": "start", "iteration": event.iteration, "resumed": event.resumed}
            return [{"kind": "task", "task": event.task, **said}]
        case events.TaskSettled():
            did = {"did": str(event.outcome), "detail": event.detail, "proved": event.proved}
            rows: list[dict[str, Any]] = [{"kind": "task", "task": event.task, **did}]
            if event.commit:
                rows.append({"kind": "commit", "task": event.task, "commit": event.commit})
            return rows
        case events.StageStarted():
            stage = {"stage": str(event.stage), "model": event.model, "did": "start"}
            said = {"attempt": event.attempt, "mode": event.mode, "agent": event.agent}
            return [{"kind": "stage", "task": event.task, **stage, **said}]
        case events.StageFinished():
            return [_finished(event)]
        case events.StageFailed():
            return [_failed(event)]
        case events.StageRetried():
            said = {"stage": str(event.stage), "reason": event.reason, "try": event.attempt}
            return [{"kind": "retry", **said, "wait": event.wait_seconds}]
        case events.StoodIn():
            return [_stood_in(event)]
        case events.AttemptNoted():
            said = {"attempt": event.number, "reason": event.reason, "ref": event.ref}
            said |= {"cause": event.cause}
            return [{"kind": "attempt", "task": event.task, **said}]
        case events.QuestionNoted():
            said = {"stage": str(event.stage), "text": event.question, "ref": event.ref}
            return [{"kind": "question", "task": event.task, **said}]
        case events.GateEnded():
            return [_gate(event)]
        case events.LimitReset():
            return [{"kind": "limit", "text": event.text, "until": event.until}]
        case events.Steered(asked, at_once):
            paused = asked is Request.PAUSE and at_once
            return [{"kind": "request", "did": "paused" if paused else str(asked)}]
        case events.Learned() | events.Recalled() | events.Voted():
            return [{"task": event.task, **_of_memory(event)}]
        case events.Sent():
            said = {"worker": event.worker, "where": event.where, "stage": event.stage}
            return [{"kind": "sent", "task": event.task, **said}]
        case events.Planned():
            tasks = [text[:_LONGEST] for text in event.tasks]
            return [{"kind": "plan", "added": tasks, "done": event.done[:_LONGEST]}]
        case events.RunEnded():
            return _run_ended(event)
        case events.Acted() | events.Warned() | events.Traced() | events.Waiting():
            return []
        case events.GateStarted() | events.ProbeStarted():
            return []
        case _ as never:
            assert_never(never)


def of_worker(event: Event) -> list[dict[str, Any]]:
    """The same of one of many: its task is done when its commit has landed, which is not its own
    to say.
    """
    rows = of(event)
    if not isinstance(event, events.TaskSettled):
        return rows
    return [{**rows[0], "kind": "work", "commit": event.commit}]


def _of_memory(event: events.Learned | events.Recalled | events.Voted) -> dict[str, Any]:
    match event:
        case events.Learned():
            return {"kind": "learning", "text": event.text[:_LONGEST]}
        case events.Voted():
            vote = {"entry": event.entry, "helpful": event.helpful, "reason": event.why}
            return {"kind": "vote", **vote}
        case events.Recalled():
            said = {"told": dict(event.told), "left": dict(event.left)}
            size = {"irrelevant": event.irrelevant, "size": event.size}
            return {"kind": "recall", "stage": str(event.stage), **said, **size}


def _begun(event: events.RunStarted) -> dict[str, Any]:
    said = {"root": event.root, "iterations": event.iterations, "open": event.open_tasks}
    return {**said, "payer": event.payer, "models": {str(r): m for r, m in event.models.items()}}


def _finished(event: events.StageFinished) -> dict[str, Any]:
    """Where the agent named no cost it is null, never 0."""
    stage = {"stage": str(event.stage), "model": event.model, "did": "end"}
    took = {"attempt": event.attempt, "seconds": round(event.seconds, 3)}
    paid = {"cost_usd": event.cost_usd, "tokens": dict(event.tokens)}
    more = {"turns": event.turns, "session": event.session, "denied": list(event.denied)}
    by = {"effort": event.effort, "version": event.version, "sent_back": event.sent_back}
    by |= {"agent": event.agent}
    return {"kind": "stage", "task": event.task, **stage, **took, **paid, **more, **by}


def _failed(event: events.StageFailed) -> dict[str, Any]:
    said = {"stage": str(event.stage), "did": "failed", "attempt": event.attempt}
    said |= {"agent": event.agent, "model": event.model, "reason": event.reason}
    paid = {"seconds": round(event.seconds, 3), "cost_usd": event.cost_usd}
    return {"kind": "stage", "task": event.task, **said, **paid}


def _stood_in(event: events.StoodIn) -> dict[str, Any]:
    said = {"stage": str(event.stage), "agent": event.agent, "reason": event.reason}
    return {"kind": "stand-in", **said, "instead_of": event.instead_of, "until": event.until}


def _gate(event: events.GateEnded) -> dict[str, Any]:
    """Before a task, it tells of the tree and of no task."""
    result = event.result
    said: dict[str, Any] = {"task": ""} if event.before else {}
    said |= {"gate": result.name, "code": result.code, "red": result.red}
    tail = result.output[-_LONGEST:] if result.red else ""
    before = {"red_before": result.red_before, "seconds": result.seconds}
    return {"kind": "gate", **said, **before, "output": tail}


def _run_ended(event: events.RunEnded) -> list[dict[str, Any]]:
    said = {"did": "end", "exit": event.exit_code, "seconds": round(event.seconds, 3)}
    end = {"kind": "run", **said, "done": len(event.done), "open": event.open_tasks}
    return [{"kind": "error", "text": event.interrupted}, end] if event.interrupted else [end]


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
