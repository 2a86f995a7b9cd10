"""What the journal keeps of an event, and the order of what it keeps. Pure.

Nothing is ever overwritten: what happened is what the records say together, in any order of files.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from kern import events
from kern.events import Event
from kern.model import Request

VERSION = 1
Record = Mapping[str, Any]
BEGUN = b'{"v": 1, "id": "'  # how `line` begins each
_LONGEST = 4000  # characters of a text from outside


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
        case events.GateEnded(result):
            # Before a task, it tells of the tree and of no task.
            said = {"task": ""} if event.before else {}
            said |= {"gate": result.name, "code": result.code, "red": result.red}
            tail = result.output[-_LONGEST:] if result.red else ""
            before = {"red_before": result.red_before, "seconds": result.seconds}
            return [{"kind": "gate", **said, **before, "output": tail}]
        case events.LimitReset():
            return [{"kind": "limit", "text": event.text, "until": event.until}]
        case events.Steered(asked, at_once):
            paused = asked is Request.PAUSE and at_once
            return [{"kind": "request", "did": "paused" if paused else str(asked)}]
        case events.Learned() | events.Recalled() | events.Voted():
            return [{"task": event.task, **_of_memory(event)}]
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


def _run_ended(event: events.RunEnded) -> list[dict[str, Any]]:
    said = {"did": "end", "exit": event.exit_code, "seconds": round(event.seconds, 3)}
    end = {"kind": "run", **said, "done": len(event.done), "open": event.open_tasks}
    return [{"kind": "error", "text": event.interrupted}, end] if event.interrupted else [end]


def line(record: Record) -> bytes:
    """One line of the file, whatever the record's texts hold."""
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


def ordered(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, runs by when they began, within a run by sequence: a clock that goes back
    disturbs nothing. The union of two journals is one. Runs that belong together are one story, by
    the clock.
    """
    known = {record["id"]: record for record in found}
    began: dict[str, str] = {}
    many = {record["fleet"] for record in known.values() if "fleet" in record}
    for record in known.values():
        run, time = record.get("fleet", record["run"]), record["time"]
        began[run] = min(began.get(run, time), time)

    def place(one: Record) -> tuple[str, str, str, str, int]:
        run = one.get("fleet", one["run"])
        time = one["time"] if run in many else ""
        return began[run], run, time, one["run"], one["seq"]

    return sorted(known.values(), key=place)
