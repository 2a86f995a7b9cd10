"""What happened: an event is its record in the journal, and the lines below it that only the run
itself shows.

`journal/sentences.py` fills the sentence with the record, so that a run and `kern log` say the
same, of an old journal too. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kern import plain
from kern.model import Cost, Need, Result

Record = Mapping[str, Any]
_LONGEST = 4000  # characters of a text from outside
_MOST = 100  # of such texts in one value
_OF_A_GATE = 12  # lines of what a red one printed
_OF_A_RESULT = ("code", "red", "red_before", "seconds", "flaky")
# The sentence of each kind of record, with its values and the computed ones; a part in brackets
# only where there is the value.
SAYS: Mapping[str, str] = {
    "run start": "run begins on {branch}: {open} open, takes {iterations}[; billing: {payer}]",
    "run end": "run ends: {done} done[, {open} open], {span}[, exit {exit}]",
    "error": "ended early: {text}",
    "task start": "task: {task}[ (resumed: {resumed})]",
    "task": "{outcome}[: {detail}]",
    "commit": "  git show {commit:.7}",  # of an old journal
    "work": "[finished as {commit:.7}; it is done when that has landed]",
    "sent": "sent to another machine",
    "stage start": "{name} ({who}[, attempt {again}])[, {split}]",
    "stage end": "{stage}[ took {took}][, {usd}][, {used} tokens][, sent back by red gates: {back}]"
    "[\n  refused: {denied}]",
    "stage failed": "{stage} failed[ after {took}]: {reason}",
    "retry": "{reason}: again in {wait} s",
    "stand-in": "{agent} takes the {stage} stage over from {instead_of}: {reason}",
    "gate": "  {gate}: green[, {took}][, flaky: {flaky}]",
    "gate red": "  {gate}: red ({how}[, {took}])[, {before}]",
    "attempt": "attempt {attempt} failed: {reason}[\n  its work: git show {ref}]",
    "recall": "{stage} is told: {lesson}[; left out {left}]",
    "vote": "learning {entry} was {opinion}: {reason}",
    "learning": "learned: {text}",
    "plan": "[new task: {added}]\n[nothing is missing: {done}]",
    "warning": "warning: {text}",
    "request": "asked to {did} (kern {did})[: ends {ends}]",
    "request until": "the time of --until has come[: ends {ends}]",
}


@dataclass(frozen=True)
class Event:
    record: Record  # without what the journal adds: its time, the run
    below: Sequence[str] = ()
    kept: bool = True  # in the journal


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """What its summary is made of."""

    done: tuple[tuple[str, str], ...]  # (task, full hash of its commit)
    needs_help: tuple[tuple[str, str], ...]  # (task, why)
    cost: Cost
    tokens: int
    interrupted: str  # what ended the run early
    stopped: str = ""  # by a person's request: why, and where the next run goes on
    questions: tuple[Record, ...] = ()  # that wait for an answer
    needs: tuple[Need, ...] = ()  # the tasks that a person can help on, each once
    called: str = "kern"  # what the next run is begun with
    night: Sequence[Mapping[str, Any]] = ()  # the journal's records since the evening's first run


def new(kind: str, did: str = "", /, **values: Any) -> Event:
    return Event(row(kind, did, **values))


def live(kind: str, did: str = "", /, **values: Any) -> Event:
    """Live, and no more; of the kind `debug` with -v alone."""
    return Event(row(kind, did, **values), kept=False)


def row(kind: str, did: str = "", /, **values: Any) -> dict[str, Any]:
    how = {"did": did} if did else {}
    return {"kind": kind, **how, **{name: _bounded(value) for name, value in values.items()}}


def _bounded(value: object) -> object:
    if isinstance(value, tuple):
        return [_bounded(one) for one in value[:_MOST]]
    if isinstance(value, str):
        return value[:_LONGEST]
    return round(value, 6) if isinstance(value, float) else value


def warning(text: str, kept: bool = False) -> Event:
    """`kept`: for the morning: in summary, report and journal."""
    return Event(row("warning", text=text), kept=kept)


def gate_started(label: str, command: str, *, before: bool) -> Event:
    """`before`: the task's change."""
    return live("gate", "start", gate=label, command=command, before=before)


def gate_ended(result: Result, *, before: bool = False) -> Event:
    """Before a task, it tells of the tree and of no task."""
    figures = {name: getattr(result, name) for name in _OF_A_RESULT}
    output = result.output[-_LONGEST:] * result.red
    record = row("gate", gate=result.name, output=output, **figures)
    record |= {"task": ""} if before else {}
    lines = plain.block(result.output).strip().splitlines()[-_OF_A_GATE:]
    log = [f"full output: {result.log}"] * bool(result.log)
    return Event(record, [f"    {line}" for line in (*lines, *log)] if result.red else ())


Sink = Callable[[Event], None]
