"""Records of the journal as a run says them: one place for the words of both. Pure.

A value of a record can be anything: others write journals as well.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kern import plain
from kern.journal.record import Record
from kern.model import SAID, SETUP, Outcome, Result, Stage, unverified

_OWN = ("v", "id", "time", "run", "seq", "branch", "task", "kind")
_MOST = 1e12  # of a number that is meant


def said(record: Record) -> list[str]:
    """The lines, at least one; what belongs to the first is indented."""
    match record["kind"], record.get("did"):
        case "run", "start":
            return [_begun(record)]
        case "run", "end":
            return [_ended(record)]
        case "task", "start":
            resumed = f" (resumed: {_text(record, 'resumed')})" if record.get("resumed") else ""
            return [f"task: {_text(record, 'task')}{resumed}"]
        case "task", str(outcome):
            return [settled(outcome, _text(record, "detail", 400), str(record.get("proved") or ""))]
        case "stage", "start":
            return [_stage(record)]
        case "stage", "end":
            tools = [plain.line(str(one), 160) for one in _many(record, "denied")]
            return [took(record), *(f"  refused: {tool}" for tool in tools)]
        case "stage", "failed":
            after = f"failed after {_number(record, 'seconds'):.1f} s"
            return [f"{_text(record, 'stage', 40)} {after}: {_text(record, 'reason', 400)}"]
        case "stand-in", _:
            after, by = _text(record, "agent", 60), _text(record, "instead_of", 60)
            over = f"{after} takes the {_text(record, 'stage', 40)} stage over from {by}"
            return [f"{over}: {_text(record, 'reason', 400)}"]
        case "retry", _:
            wait = f"again in {_number(record, 'wait'):.0f} s"
            return [f"{_text(record, 'reason', 400)}: {wait}"]
        case "attempt", _:
            ref = _text(record, "ref")
            work = [f"  its work: git show {ref}"] if ref else []
            number = _text(record, "attempt", 20)
            return [f"attempt {number} failed: {_text(record, 'reason', 400)}", *work]
        case "gate", _:
            return [f"  {gate(_result(record))}"]
        case _:
            return _more(record)


def _more(record: Record) -> list[str]:
    match record["kind"]:
        case "question":
            return [f"asks: {_text(record, 'text', 400)}"]
        case "limit" | "outage" | "error" | "warning" as kind:
            early = {"error": "ended early: ", "warning": "warning: "}.get(kind, "")
            return [f"{early}{_text(record, 'text', 600)}"]
        case "work":
            if not record.get("commit"):
                return [settled(str(record.get("did")), _text(record, "detail", 400), "")]
            commit = _text(record, "commit")[:7]
            return [f"finished as {commit}; it is done when that has landed"]
        case "sent":
            where, stage = _text(record, "where"), _text(record, "stage", 40)
            if stage == SETUP:
                return ["a worktree is set up for the task"]
            return [f"sent to {where or 'the cluster'}{f': {stage}' if stage else ''}"]
        case "commit":
            return [f"  git show {_text(record, 'commit')[:7]}"]
        case "plan":
            new = [f"new task: {plain.line(str(one), 160)}" for one in _many(record, "added")]
            none = [f"nothing is missing: {done}"] if (done := _text(record, "done", 400)) else []
            return [*new, *none] or ["nothing new"]
        case "request":
            did = plain.line(str(record.get("did")), 40)
            return ["asked to stop (kern stop)" if did == "stop" else did]
        case "learning":
            return [f"learned: {_text(record, 'text')}"]
        case "vote":
            how = "was helpful" if record.get("helpful") else "was harmful"
            return [f"learning {_text(record, 'entry', 20)} {how}: {_text(record, 'reason')}"]
        case "recall":
            return [recalled(record)]
    values = {name: one for name, one in record.items() if name not in _OWN and one}
    told = ", ".join(
        f"{name} {plain.line(one if isinstance(one, str) else json.dumps(one), 120)}"
        for name, one in values.items()
    )
    return [plain.line(f"{record['kind']}: {told}", 600)]


def recalled(record: Record) -> str:
    """Which learnings a stage was told, and why; what was left out."""
    told, left = record.get("told"), record.get("left")
    told, left = (one if isinstance(one, dict) else {} for one in (told, left))
    reasons = dict.fromkeys(str(why) for why in told.values())
    if len(reasons) == 1:
        named = f"{', '.join(told)} ({next(iter(reasons))})"
    else:
        named = "; ".join(f"{name} ({why})" for name, why in told.items())
    size = f", {_text(record, 'size', 20)} tokens" if told else ""
    parts = [f"{plain.count(len(told), 'learning')} told{size}{': ' if told else ''}{named}"]
    parts += [f"left out {name} ({why})" for name, why in left.items()]
    if other := record.get("irrelevant"):
        parts.append(f"{other} not relevant")
    return plain.line(f"{_text(record, 'stage', 40)}: {'; '.join(parts)}", 2000)


def _begun(record: Record) -> str:
    still, most = _text(record, "open", 20), _text(record, "iterations", 20)
    payer = f"; billing: {told}" if (told := _text(record, "payer")) else ""
    return f"run begins on {_text(record, 'branch', 80)}: {still or '?'} open, takes {most}{payer}"


def _ended(record: Record) -> str:
    still = record.get("open")
    left = f", {still} open" if isinstance(still, int) else ""
    code = f", exit {_text(record, 'exit', 20)}" if record.get("exit") else ""
    took = plain.span(_number(record, "seconds"))
    return f"run ends: {_text(record, 'done', 20) or '?'} done{left}, {took}{code}"


def _stage(record: Record) -> str:
    again = _number(record, "attempt") > 1
    attempt = f", attempt {_text(record, 'attempt', 20)}" if again else ""
    mode = ", to split the task" if record.get("mode") == "decompose" else ""
    named = stage(_text(record, "stage", 40))
    who = _text(record, "model", 40) or _text(record, "agent", 40)  # with its own model
    return f"{named} ({who}{attempt}){mode}"


def stage(name: str) -> str:
    """`stage 2/3 implement`; a judge is none of the three."""
    known = next((one for one in Stage if one == name), None)
    return f"stage {known.number}/3 {known}" if known else name


def bare(stage: str) -> str:
    """The same for few columns: `implement`."""
    return re.sub(r"^stage \d/\d ", "", stage)


def took(record: Record) -> str:
    """How a stage ended: time, money, tokens, and how often red gates sent it back."""
    usd = record.get("cost_usd")
    cost = f", ${usd:.4f}" if isinstance(usd, int | float) else ""
    kinds = record.get("tokens")
    counts = kinds.values() if isinstance(kinds, Mapping) else ()
    tokens = sum(count for count in counts if isinstance(count, int))
    used = f", {short(tokens)} tokens" if tokens else ""
    times = int(_number(record, "sent_back"))
    back = f", sent back {plain.count(times, 'time')} by red gates" if times else ""
    seconds = _number(record, "seconds")
    return f"{_text(record, 'stage', 40)} took {seconds:.1f} s{cost}{used}{back}"


def gate(result: Result) -> str:
    spent = f", {result.seconds:.1f} s" if result.seconds else ""
    before = ", as it was before the task" if result.red and result.red_before else ""
    flaky = f", flaky: {plain.line(result.flaky)}" if result.flaky else ""
    how = f"red ({result.how}{spent}){before}" if result.red else f"green{spent}{flaky}"
    return f"{plain.line(result.name)}: {how}"


def flaky(found: Iterable[tuple[str, str]]) -> list[str]:
    """How often which gate was, and how it was red last. `found`: a gate each time, and how."""
    last, times = dict(found := [*found]), Counter(name for name, _ in found)
    return [
        f"{plain.line(name)}, {plain.count(times[name], 'time')}: {plain.line(how)}"
        for name, how in last.items()
    ]


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


def _result(record: Record) -> Result:
    code = record.get("code")
    red = bool(record.get("red"))
    known = code if isinstance(code, int) or (code is None and red) else int(red)
    before = record.get("red_before") is True
    name = _text(record, "gate")
    flaky = _text(record, "flaky", 400)
    seconds = _number(record, "seconds")
    return Result(name, known, "", seconds, red_before=before, flaky=flaky)


def _text(record: Record, name: str, limit: int = 160) -> str:
    value: Any = record.get(name)
    return "" if value is None else plain.line(str(value), limit)


def _number(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else 0.0


def _many(record: Record, name: str) -> Sequence[object]:
    value = record.get(name)
    return value if isinstance(value, list | tuple) else ()
