"""What happened in words, as a run and `kern log` say it. Pure."""

import json

from kern import plain
from kern.events import SAYS, Record
from kern.model import SAID, Outcome, Result, Stage, unverified

_OWN = ("v", "id", "time", "run", "seq", "branch", "task", "kind")


class _Values(dict[str, str]):
    """A record's, each as one line; empty where there is none."""

    def __init__(self, record: Record) -> None:
        for name, value in record.items():
            text = f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
            self[name] = plain.line(text, 160 if name in ("task", "payer") else 400)
        self["took"] = f"{record.get('seconds') or 0.0:.1f} s"
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
            still_open = f", {one['open']} open" if one["open"] else ""
            code = f", exit {one['exit']}" if record.get("exit") else ""
            took = plain.span(record.get("seconds") or 0.0)
            return [f"run ends: {one['done'] or '?'} done{still_open}, {took}{code}"]
        case "task", "start":
            resumed = f" (resumed: {one['resumed']})" if one["resumed"] else ""
            return [f"task: {one['task']}{resumed}"]
        case "work", _ if record.get("commit"):
            return [f"finished as {one['commit'][:7]}; it is done when that has landed"]
        case "task" | "work", _:
            return [_settled(did, one)]
        case "stage", "start":
            again = f", attempt {one['attempt']}" if (record.get("attempt") or 1) > 1 else ""
            mode = ", to split the task" if record.get("mode") == "decompose" else ""
            return [f"{format_stage(one['stage'])} ({one['model'] or one['agent']}{again}){mode}"]
        case "stage", "end":
            refused = (plain.line(str(tool), 160) for tool in record.get("denied") or ())
            return [_ended(record, one), *(f"  refused: {tool}" for tool in refused)]
        case "gate", _:
            return [f"  {_gate(record, one)}"]
        case "plan", _:
            nothing = [f"nothing is missing: {one['done']}"] * bool(one["done"])
            added = (plain.line(str(text), 160) for text in record.get("added") or ())
            return [*(f"new task: {text}" for text in added), *nothing] or ["nothing new"]
        case "recall", _:
            return [_recalled(record, one)]
        case "attempt", _ if one["ref"]:
            sentence = SAYS["attempt"].format_map(one)
            return [sentence, f"  its work: git show {one['ref']}"]
    if form := SAYS.get(f"{record['kind']} {did}") or SAYS.get(record["kind"]):
        return [form.format_map(one) or one["kind"]]
    values = {name: value for name, value in record.items() if name not in _OWN and value}
    return [plain.line(f"{record['kind']}: {json.dumps(values)}", 600)]  # of a newer kern


def _recalled(record: Record, one: _Values) -> str:
    """Which learnings a stage is given, and why; what is left out."""
    entries, omitted = record.get("told") or {}, record.get("left") or {}
    parts = [f"{plain.count(len(entries), 'learning')} told"]
    parts += [f"{name} ({why})" for name, why in entries.items()]
    parts += [f"left out {name} ({why})" for name, why in omitted.items()]
    return plain.line(f"{one['stage']}: {'; '.join(parts)}", 2000)


def format_stage(name: str) -> str:
    """`stage 2/3 implement`; a judge is none of the three."""
    return f"stage {Stage(name).number}/3 {name}" if name in set(Stage) else name


def _ended(record: Record, one: _Values) -> str:
    """How a stage ended: time, money, tokens, and how often red gates sent it back."""
    usd, tokens = record.get("cost_usd"), sum((record.get("tokens") or {}).values())
    cost = "" if usd is None else f", ${usd:.4f}"
    used = f", {short(tokens)} tokens" if tokens else ""
    times = record.get("sent_back") or 0
    back = f", sent back {plain.count(times, 'time')} by red gates" if times else ""
    return f"{one['stage']} took {one['took']}{cost}{used}{back}"


def _gate(record: Record, one: _Values) -> str:
    took = f", {one['took']}" if record.get("seconds") else ""
    if not record.get("red"):
        flaky = f", flaky: {one['flaky']}" if one["flaky"] else ""
        return f"{one['gate']}: green{took}{flaky}"
    before = ", as it was before the task" if record.get("red_before") is True else ""
    how = Result(one["gate"], record.get("code"), "").how
    return f"{one['gate']}: red ({how}{took}){before}"


def _settled(outcome: str, one: _Values) -> str:
    """How a task ended; a commit that nothing stands behind is not simply done."""
    how = ", UNVERIFIED" if outcome == Outcome.DONE and unverified(one["proved"]) else ""
    more = f": {one['detail']}" if one["detail"] else ""
    return f"{SAID.get(outcome, plain.line(outcome, 40))}{how}{more}"


def short(count: int) -> str:
    """`950`, `82k`, `1.2M`."""
    if count < 10_000:
        return str(count)
    return f"{count / 1e6:.1f}M" if count >= 999_500 else f"{count / 1000:.0f}k"
