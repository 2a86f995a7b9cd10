"""One task's receipt: all that the journal has of it, in order. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kern import plain
from kern.journal import sums, totals, words
from kern.journal.record import Record
from kern.model import SAID

_CALL = ("time", "run", "stage", "attempt", "agent", "model", "did", "seconds", "cost_usd")
_MORE = ("tokens", "turns", "session", "reason")
_GATE = ("time", "gate", "code", "red", "red_before", "seconds", "output")
_MEMORY = ("recall", "vote")
_SHOWN = 12  # lines of an answer or of a gate's output


def of(found: Iterable[Record], task: str) -> dict[str, Any]:
    """What `totals.summary` has of the task, and each call, gate and retry that led to it."""
    own = [record for record in found if record.get("task") == task]
    summed = totals.summary(own)
    by_stage: dict[str, dict[str, Any]] = {}
    for record in (calls := [record for record in own if _call(record)]):
        sums.pay(by_stage.setdefault(str(record.get("stage")), sums.account()), record)
    told = [row for one in own if one["kind"] in _MEMORY for row in words.said(one)]
    return {
        **(summed["tasks"][0] if own else totals.blank(task)),
        "began": own[0]["time"] if own else None,
        "ended": own[-1]["time"] if own else None,
        "runs": list(dict.fromkeys(record["run"] for record in own)),
        "by_stage": by_stage,
        "calls": [_taken(record, *_CALL, *_MORE) for record in calls],
        "gates": [_taken(record, *_GATE) for record in own if record["kind"] == "gate"],
        "retried": [
            _taken(record, "time", "stage", "reason") for record in own if record["kind"] == "retry"
        ],
        "memory": {**summed["memory"], "rows": told},
        "review": summed["review"],
    }


def _call(record: Record) -> bool:
    return record["kind"] == "stage" and record.get("did") in ("end", "failed")


def _taken(record: Record, *names: str) -> dict[str, Any]:
    return {name: record.get(name) for name in names}


def text(found: Mapping[str, Any], local: Callable[[str], str]) -> str:
    """For a person; `local` says a record's time."""
    number = f"{found['number']}  " if found["number"] else ""
    marker = f"[{found['marker']}] " if found["marker"] else ""
    lines = [f"{number}{marker}{plain.line(found['task'], 400)}"]
    place = f"SPEC.md line {found['line']}" if found["line"] else "no longer in SPEC.md"
    proved = f"; {plain.line(found['proved'])}" if found["proved"] else ""
    detail = f": {plain.line(found['detail'])}" if found["detail"] else ""
    lines += [f"{SAID.get(found['outcome'], found['outcome'])}{detail}{proved}", place]
    if found["began"]:
        lines.append(f"{local(found['began'])} to {local(found['ended'])}; {sums.spent(found)}")
    for stage, whole in found["by_stage"].items():
        lines.append(f"  {stage:10} {plain.count(whole['stages'], 'call')}, {sums.spent(whole)}")
    lines += _section("Research", found["research"])
    for stage, said in found["answers"].items():
        if stage != "research" or not found["research"]:
            lines += _section(f"Answer of {stage}", _end(said))
    lines += _section("Attempts", [row for attempt in found["attempts"] for row in _tried(attempt)])
    lines += _section("Gates", [row for gate in found["gates"] for row in _gate(gate)])
    lines += _section("Files", _files(found["files"]))
    lines += _section("Refused", found["denied"])
    lines += _section(
        "Tried again", [f"{one['stage']}: {one['reason']}" for one in found["retried"]]
    )
    lines += _section("Learnings", found["memory"]["rows"])
    lines += _section("Learned", found["learned"])
    there = found["commit"] and found["files"] is not None
    commit = [f"git show {found['commit']}"] if there else []
    lines += _section("Look", [*commit, *found["folders"]])
    return plain.block("\n".join(lines))


def _section(title: str, rows: Iterable[str]) -> list[str]:
    shown = [f"  {' ' * (len(row) - len(row.lstrip()))}{plain.line(row, 400)}" for row in rows]
    return ["", f"{title}:", *shown] if shown else []


def _end(said: str) -> list[str]:
    return [line for line in plain.block(said).splitlines() if line.strip()][-_SHOWN:]


def _tried(attempt: Mapping[str, Any]) -> list[str]:
    kept = [f"git show {attempt['ref']}"] if attempt["ref"] and attempt["kept"] else []
    files = attempt.get("files")
    changed = [f"changed {', '.join(files)}"] if files else []
    return [f"{attempt['attempt']}: {attempt['reason']}", *(f"   {one}" for one in kept + changed)]


def _gate(gate: Mapping[str, Any]) -> list[str]:
    when = ", red before the task as well" if gate["red_before"] is True else ""
    colour = f"red (exit {gate['code']}){when}" if gate["red"] else "green"
    told = [f"   {line}" for line in _end(gate["output"] or "")] if gate["red"] else []
    return [f"{gate['gate']}: {colour}, {plain.span(gate['seconds'] or 0)}", *told]


def _files(files: Mapping[str, str] | None) -> list[str]:
    if files is None:
        return ["unknown: git does not have the commit any more"]
    return [f"{how:8} {path}" for path, how in files.items()]
