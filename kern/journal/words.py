"""What the journal keeps of an event, and its records as a run says them: one place for both. Pure.

A value of a record can be anything: others write journals as well.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from kern import events, plain
from kern.events import Event
from kern.model import SAID, SETUP, Outcome, Result, Stage, unverified

Record = Mapping[str, Any]
_OWN = ("v", "id", "time", "run", "seq", "branch", "task", "kind")
_LONGEST = 4000  # characters of a text from outside
_MOST = 1e12  # of a number that is meant


def of(event: Event, *, worker: bool = False) -> list[dict[str, Any]]:
    """What the journal keeps of it: `kind`, `task` where there is one, and its values. `worker`: of
    one of many, whose task is done when its commit has landed, which is not its own to say.
    """
    match event:
        case events.Warned(text, kept):
            return [{"kind": "warning", "text": text[:_LONGEST]}] if kept else []
        case events.GateEnded():
            return [_gate(event)]
        case events.Outage():
            did = ("over", "away", "still away")[min(event.number, 2)]
            return [{**_row(event), "did": did}]
        case events.TaskSettled() if worker:
            return [{**_row(event), "kind": "work", "commit": event.commit}]
        case events.TaskSettled() if event.commit:
            commit = {"kind": "commit", "task": event.task, "commit": event.commit}
            return [_row(event), commit]
        case events.RunEnded():
            early = [{"kind": "error", "text": event.interrupted}] if event.interrupted else []
            return [*early, {**_row(event), "done": len(event.done)}]
    return [_row(event)] if event.KEPT else []


def _row(event: Event) -> dict[str, Any]:
    kind, *names = event.KEPT.split()
    row: dict[str, Any] = {"kind": kind}
    for name in names:
        theirs, same, ours = re.split(r"([:=])", name) if re.search("[:=]", name) else (name,) * 3
        row[theirs] = ours if same == ":" else _value(getattr(event, ours))
    return row


def _value(value: object) -> object:
    match value:
        case Enum():
            return str(value)
        case str():
            return value[:_LONGEST]
        case float():
            return round(value, 6)
        case Mapping():
            return {str(name): one for name, one in value.items()}
        case tuple():
            return [_value(one) for one in value]
    return value


def _gate(event: events.GateEnded) -> dict[str, Any]:
    """Before a task, it tells of the tree and of no task."""
    result = event.result
    said: dict[str, Any] = {"kind": "gate"} | ({"task": ""} if event.before else {})
    said |= {"gate": result.name, "code": result.code, "red": result.red}
    said |= {"red_before": result.red_before, "seconds": result.seconds}
    said["output"] = result.output[-_LONGEST:] if result.red else ""
    return said | ({"flaky": result.flaky[:_LONGEST]} if result.flaky else {})


# ---------------------------------------------------------------- in words

# By kind, and what it did where that matters; a second line is indented, as belonging to the first.
_SENTENCES: Mapping[str, str] = {
    "task start": "task: {task}",
    "stage failed": "{stage} failed after {took}: {reason}",
    "attempt": "attempt {attempt} failed: {reason}",
    "stand-in": "{agent} takes the {stage} stage over from {instead_of}: {reason}",
    "retry": "{reason}: again in {wait} s",
    "question": "asks: {text}",
    "limit": "{text}",
    "outage": "{text}",
    "error": "ended early: {text}",
    "warning": "warning: {text}",
    "commit": "  git show {commit:.7}",
    "request stop": "asked to stop (kern stop)",
    "request": "{did}",
    "learning": "learned: {text}",
    "vote": "learning {entry} was {how}: {reason}",
    "sent": "sent to {where}",
}


class _Values(dict[str, Any]):
    """A record's, each as one line of text; empty where there is none."""

    def __missing__(self, name: str) -> str:
        return ""


def _values(record: Record) -> _Values:
    values = _Values()
    for name, value in record.items():
        text = f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
        values[name] = plain.line(text, 160 if name in ("task", "payer") else 400)
    values["took"] = f"{_number(record, 'seconds'):.1f} s"
    values["how"] = "helpful" if record.get("helpful") else "harmful"
    return values


def said(record: Record) -> list[str]:
    """The lines, at least one; what belongs to the first is indented."""
    one = _values(record)
    first, second = f"{one['kind']} {one['did']}", ""
    match record["kind"], record.get("did"):
        case "run", "start":
            pays = f"; billing: {one['payer']}" if record.get("payer") else ""
            head = f"run begins on {one['branch']}: {one['open'] or '?'} open"
            return [f"{head}, takes {one['iterations']}{pays}"]
        case "run", "end":
            left = f", {one['open']} open" if isinstance(record.get("open"), int) else ""
            code = f", exit {one['exit']}" if record.get("exit") else ""
            took = plain.span(_number(record, "seconds"))
            return [f"run ends: {one['done'] or '?'} done{left}, {took}{code}"]
        case "task", "start" if record.get("resumed"):
            return [f"task: {one['task']} (resumed: {one['resumed']})"]
        case "task", str(outcome) if outcome != "start":
            return [settled(outcome, one["detail"], str(record.get("proved") or ""))]
        case "work", _ if record.get("commit"):
            return [f"finished as {one['commit'][:7]}; it is done when that has landed"]
        case "work", did:
            return [settled(str(did), one["detail"], "")]
        case "stage", "start":
            return [_stage(record, one)]
        case "stage", "end":
            return [_ended(record), *(f"  refused: {tool}" for tool in _many(record, "denied"))]
        case "gate", _:
            return [f"  {gate(_result(record, one))}"]
        case "plan", _:
            none = [f"nothing is missing: {one['done']}"] if record.get("done") else []
            new = [f"new task: {text}" for text in _many(record, "added")]
            return [*new, *none] or ["nothing new"]
        case "sent", _ if record.get("stage") == SETUP:
            return ["a worktree is set up for the task"]
        case "attempt", _ if record.get("ref"):
            second = f"  its work: git show {one['ref']}"
        case "recall", _:
            return [recalled(record)]
    form = _SENTENCES.get(first) or _SENTENCES.get(one["kind"]) or _unknown(record)
    return [form.format_map(one) or one["kind"], *([second] if second else [])]


def _unknown(record: Record) -> str:
    """Of a newer kern: its values as they are."""
    told = (
        f"{name} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in record.items()
        if name not in _OWN and value
    )
    text = plain.line(f"{record['kind']}: {', '.join(told)}", 600)
    return text.replace("{", "{{").replace("}", "}}")


def recalled(record: Record) -> str:
    """Which learnings a stage was told, and why; what was left out."""
    told, left = (
        [f"{name} ({why})" for name, why in one.items()] if isinstance(one, Mapping) else []
        for one in (record.get("told"), record.get("left"))
    )
    parts = [f"{plain.count(len(told), 'learning')} told", *told]
    parts += [f"left out {name}" for name in left]
    return plain.line(f"{_values(record)['stage']}: {'; '.join(parts)}", 2000)


def _stage(record: Record, one: _Values) -> str:
    attempt = f", attempt {one['attempt']}" if _number(record, "attempt") > 1 else ""
    mode = ", to split the task" if record.get("mode") == "decompose" else ""
    return f"{stage(one['stage'])} ({one['model'] or one['agent']}{attempt}){mode}"


def stage(name: str) -> str:
    """`stage 2/3 implement`; a judge is none of the three."""
    known = next((one for one in Stage if one == name), None)
    return f"stage {known.number}/3 {known}" if known else name


def bare(stage: str) -> str:
    """The same for few columns: `implement`."""
    return re.sub(r"^stage \d/\d ", "", stage)


def _ended(record: Record) -> str:
    """How a stage ended: time, money, tokens, and how often red gates sent it back."""
    usd, kinds = record.get("cost_usd"), record.get("tokens")
    cost = f", ${usd:.4f}" if isinstance(usd, int | float) else ""
    counts = kinds.values() if isinstance(kinds, Mapping) else ()
    tokens = sum(count for count in counts if isinstance(count, int))
    used = f", {short(tokens)} tokens" if tokens else ""
    times = int(_number(record, "sent_back"))
    back = f", sent back {plain.count(times, 'time')} by red gates" if times else ""
    seconds = _number(record, "seconds")
    return f"{_values(record)['stage']} took {seconds:.1f} s{cost}{used}{back}"


def gate(result: Result) -> str:
    spent = f", {result.seconds:.1f} s" if result.seconds else ""
    before = ", as it was before the task" if result.red and result.red_before else ""
    flaky = f", flaky: {plain.line(result.flaky)}" if result.flaky else ""
    how = f"red ({result.how}{spent}){before}" if result.red else f"green{spent}{flaky}"
    return f"{plain.line(result.name)}: {how}"


def settled(outcome: str, detail: str, proved: str) -> str:
    """How a task ended; a commit that nothing stands behind is not simply done."""
    how = ", UNVERIFIED" if outcome == Outcome.DONE and unverified(proved) else ""
    more = f": {plain.line(detail)}" if detail else ""
    return f"{SAID.get(outcome, plain.line(outcome, 40))}{how}{more}"


def short(count: int) -> str:
    """`950`, `82k`, `1.2M`."""
    if count < 10_000:
        return str(count)
    return f"{count / 1e6:.1f}M" if count >= 999_500 else f"{count / 1000:.0f}k"


def _result(record: Record, one: _Values) -> Result:
    code, red = record.get("code"), bool(record.get("red"))
    known = code if isinstance(code, int) or (code is None and red) else int(red)
    before, seconds = record.get("red_before") is True, _number(record, "seconds")
    return Result(one["gate"], known, "", seconds, red_before=before, flaky=one["flaky"])


def _number(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else 0.0


def _many(record: Record, name: str) -> Sequence[str]:
    value = record.get(name)
    return [plain.line(str(one), 160) for one in value] if isinstance(value, list | tuple) else []
