"""What happened in words, as a run and `kern log` say it. Pure."""

import re
from collections import defaultdict
from collections.abc import Mapping

from kern import plain
from kern.events import SAYS, Record
from kern.journal.history import Doing, moment
from kern.model import SAID, Outcome, Result, Stage, unverified

_LISTS = {"denied": "  refused: ", "added": "new task: "}  # a line for each
_OF_THE_RUN = ("error", "outage", "request")
_IF = re.compile(r"\[([^][]*\{(\w+)[^][]*)\]")  # said only where there is a value


def format_record(record: Record, *, many: bool = False) -> list[str]:
    """Its lines, at least one; what belongs to the first is indented. `many`: at once, so that it
    is said whose it is.
    """
    kind, did = record["kind"], "red" if record.get("red") else record.get("did")
    usual = "{text}" if record.get("text") else "{kind}"
    form = SAYS.get(f"{kind} {did}") or SAYS.get(kind) or usual
    every = {**record, **_computed(record)}
    values = {name: _value(name, value) for name, value in every.items()}
    whole = _IF.sub(lambda part: part[1] if values.get(part[2]) else "", form)
    lines = whole.format_map(defaultdict(str, values)).split("\n")
    lines = [line for line in lines if line.strip()] or [plain.line(kind)]
    if many and record.get("task") and (kind, did) != ("task", "start") and kind not in _OF_THE_RUN:
        lines[0] += f"  ({plain.line(record['task'], 40)})"
    if many and record.get("worker"):
        lines = [f"{record['worker']}  {line}" for line in (lines[0].lstrip(), *lines[1:])]
    return lines


def _value(name: str, value: object) -> str:
    match value:
        case None | False:
            return ""
        case float():
            return f"{value:g}"
        case Mapping():
            return plain.line("; ".join(f"{key} ({why})" for key, why in value.items()), 1000)
        case list() | tuple() if name in _LISTS:
            return f"\n{_LISTS[name]}".join(plain.line(str(one), 160) for one in value)
    return plain.line(str(value), 160 if name in ("task", "payer") else 400)


def _computed(record: Record) -> dict[str, object]:
    """What a sentence has of several values, or in other words."""
    seconds, usd = record.get("seconds") or 0.0, record.get("cost_usd")
    tokens = sum((record.get("tokens") or {}).values())
    again = record["kind"] == "stage" and record.get("attempt") != 1
    outcome = str(record.get("did") or "")
    bare = outcome == Outcome.DONE and unverified(str(record.get("proved") or ""))
    return {
        "took": f"{seconds:.1f} s" if seconds else "",
        "span": plain.span(seconds),
        "exit": record.get("exit") or "",
        "name": format_stage(str(record.get("stage") or "")),
        "who": record.get("model") or record.get("agent"),
        "again": record.get("attempt") if again else "",
        "split": "to split the task" if record.get("mode") == "decompose" else "",
        "usd": "" if usd is None else f"${usd:.4f}",
        "used": short(tokens) if tokens else "",
        "back": record.get("sent_back") or "",
        "how": Result("", record.get("code"), "").how if record.get("red") else "",
        "before": "as it was before the task" if record.get("red_before") is True else "",
        "lesson": record.get("told") or "nothing",
        "outcome": SAID.get(outcome, outcome) + ", UNVERIFIED" * bare,
        "opinion": "helpful" if record.get("helpful") else "harmful",
    }


def format_stage(name: str) -> str:
    """`stage 2/3 implement`; a judge is none of the three."""
    return f"stage {Stage(name).number}/3 {name}" if name in set(Stage) else plain.line(name)


def format_doing(number: int, one: Doing, now: float) -> str:
    """`2  stage 2/3 implement, attempt 2, 4 min: the task`; the run itself is number 0."""
    again = f", attempt {one.attempt}" if one.attempt > 1 else ""
    lasts = plain.span(max(round(now - moment(one.since)), 0))
    what = f"{format_stage(one.doing)}{again}, {lasts}"
    return f"{number or ''}  {what}: {plain.line(one.task, 140)}".strip().removesuffix(":")


def short(count: int) -> str:
    """`950`, `82k`, `1.2M`."""
    if count < 10_000:
        return str(count)
    return f"{count / 1e6:.1f}M" if count >= 999_500 else f"{count / 1000:.0f}k"
