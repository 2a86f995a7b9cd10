"""What happened in words, as a run and `kern log` say it. Pure.

A value of a record can be anything: others write journals as well.
"""

import json
from collections.abc import Mapping, Sequence

from kern import plain
from kern.events import SAYS, Record
from kern.model import SAID, Outcome, Result, Stage, unverified

_OWN = ("v", "id", "time", "run", "seq", "branch", "task", "kind")
_MOST = 1e12  # of a number that is meant


class _Values(dict[str, str]):
    """A record's, each as one line; empty where there is none."""

    def __init__(self, record: Record) -> None:
        for name, value in record.items():
            text = f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
            self[name] = plain.line(text, 160 if name in ("task", "payer") else 400)
        self["took"] = f"{_number(record, 'seconds'):.1f} s"
        self["how"] = "helpful" if record.get("helpful") else "harmful"

    def __missing__(self, name: str) -> str:
        return ""


def format_record(record: Record) -> list[str]:
    """Its lines, at least one; what belongs to the first is indented."""
    one, did = _Values(record), str(record.get("did") or "")
    match record["kind"], did:
        case "run", "start":
            pays = f"; billing: {one['payer']}" if one["payer"] else ""
            head = f"run begins on {one['branch']}: {one['open'] or '?'} open"
            return [f"{head}, takes {one['iterations']}{pays}"]
        case "run", "end":
            left = f", {one['open']} open" if one["open"] else ""
            code = f", exit {one['exit']}" if record.get("exit") else ""
            took = plain.span(_number(record, "seconds"))
            return [f"run ends: {one['done'] or '?'} done{left}, {took}{code}"]
        case "task", "start":
            resumed = f" (resumed: {one['resumed']})" if one["resumed"] else ""
            return [f"task: {one['task']}{resumed}"]
        case "work", _ if record.get("commit"):
            return [f"finished as {one['commit'][:7]}; it is done when that has landed"]
        case "task" | "work", _:
            return [_settled(did, one["detail"], str(record.get("proved") or ""))]
        case "stage", "start":
            again = f", attempt {one['attempt']}" if _number(record, "attempt") > 1 else ""
            mode = ", to split the task" if record.get("mode") == "decompose" else ""
            return [f"{format_stage(one['stage'])} ({one['model'] or one['agent']}{again}){mode}"]
        case "stage", "end":
            refused = [f"  refused: {tool}" for tool in _many(record, "denied")]
            return [_ended(record, one), *refused]
        case "gate", _:
            return [f"  {_gate(record, one)}"]
        case "plan", _:
            nothing = [f"nothing is missing: {one['done']}"] * bool(one["done"])
            added = [f"new task: {text}" for text in _many(record, "added")]
            return [*added, *nothing] or ["nothing new"]
        case "recall", _:
            return [_recalled(record, one)]
    form = SAYS.get(f"{record['kind']} {did}") or SAYS.get(record["kind"])
    text = form.format_map(one) if form else _unknown(record)
    work = f"  its work: git show {one['ref']}"
    return [text or one["kind"], *[work] * (record["kind"] == "attempt" and bool(one["ref"]))]


def _unknown(record: Record) -> str:
    """Of a newer kern: its values as they are."""
    values = (
        f"{name} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in record.items()
        if name not in _OWN and value
    )
    return plain.line(f"{record['kind']}: {', '.join(values)}", 600)


def _recalled(record: Record, one: Mapping[str, str]) -> str:
    """Which learnings a stage is given, and why; what is left out."""
    given, left = (
        [f"{name} ({why})" for name, why in some.items()] if isinstance(some, Mapping) else []
        for some in (record.get("told"), record.get("left"))
    )
    parts = [f"{plain.count(len(given), 'learning')} told", *given]
    return plain.line(
        f"{one['stage']}: {'; '.join([*parts, *(f'left out {name}' for name in left)])}", 2000
    )


def format_stage(name: str) -> str:
    """`stage 2/3 implement`; a judge is none of the three."""
    return f"stage {Stage(name).number}/3 {name}" if name in set(Stage) else name


def _ended(record: Record, one: Mapping[str, str]) -> str:
    """How a stage ended: time, money, tokens, and how often red gates sent it back."""
    usd, kinds = record.get("cost_usd"), record.get("tokens")
    cost = f", ${usd:.4f}" if isinstance(usd, int | float) else ""
    counts = kinds.values() if isinstance(kinds, Mapping) else ()
    tokens = sum(count for count in counts if isinstance(count, int))
    used = f", {short(tokens)} tokens" if tokens else ""
    times = int(_number(record, "sent_back"))
    back = f", sent back {plain.count(times, 'time')} by red gates" if times else ""
    return f"{one['stage']} took {one['took']}{cost}{used}{back}"


def _gate(record: Record, one: Mapping[str, str]) -> str:
    took = f", {one['took']}" if _number(record, "seconds") else ""
    if not record.get("red"):
        flaky = f", flaky: {one['flaky']}" if one["flaky"] else ""
        return f"{one['gate']}: green{took}{flaky}"
    before = ", as it was before the task" if record.get("red_before") is True else ""
    code = record.get("code")
    how = Result(one["gate"], code if isinstance(code, int) else None, "").how
    return f"{one['gate']}: red ({how}{took}){before}"


def _settled(outcome: str, detail: str, proved: str) -> str:
    """How a task ended; a commit that nothing stands behind is not simply done."""
    how = ", UNVERIFIED" if outcome == Outcome.DONE and unverified(proved) else ""
    more = f": {detail}" if detail else ""
    return f"{SAID.get(outcome, plain.line(outcome, 40))}{how}{more}"


def short(count: int) -> str:
    """`950`, `82k`, `1.2M`."""
    if count < 10_000:
        return str(count)
    return f"{count / 1e6:.1f}M" if count >= 999_500 else f"{count / 1000:.0f}k"


def _number(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else 0.0


def _many(record: Record, name: str) -> Sequence[str]:
    value = record.get(name)
    return [plain.line(str(one), 160) for one in value] if isinstance(value, list | tuple) else []
