"""The journal as one HTML page: no script, nothing that is loaded, readable on a phone, in the dark
and on paper. What it shows is computed here; `page.html` and `page.css` lay it out.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kern import plain
from kern.journal import sums, timeline, totals
from kern.journal.record import Record
from kern.journal.timeline import GATE, KINDS, Bar, Run, number
from kern.journal.totals import NOWHERE, Standing
from kern.model import Aide, Cost

_LEAST = 0.3  # percent of the width, so that the shortest bar can be seen
_NO_TASK = "(of no task: planning, reviews and final gates)"
_OUTPUT = 1000  # characters of what a red gate printed
_ENDS = {
    None: timeline.NO_END,
    0: "finished",
    1: "ended with exit 1: tasks need you",
    2: "ended with exit 2: usage, SPEC.md, configuration or a missing tool",
    3: "ended with exit 3: a budget or a usage limit was reached",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A bar as it is drawn: its kind, what it says, and its place in percent of the width."""

    kind: str
    name: str
    left: float = 0.0
    width: float = 100.0
    failed: bool = False
    more: str = ""


def page(found: Sequence[Record], now: Standing = NOWHERE) -> str:
    """Of records in order."""
    ran, total = timeline.runs(found), totals.summary(found, now)
    bars = [bar for run in ran for bar in run.bars]
    failed = [bar.cost_usd for bar in bars if bar.failed and bar.kind != GATE]
    lost = Cost.of(failed)
    whole: str = _template().render(
        project=next((run.root for run in reversed(ran) if run.root), "").rpartition("/")[2],
        moments=sorted(run[end] for run in total["runs"] for end in ("began", "ended")),
        total=total,
        each={"cost_usd": total["cost_per_done_usd"], "unpriced": total["unpriced"]},
        lost={"cost_usd": lost.usd, "unpriced": lost.unpriced} if failed else None,
        last={task["task"]: task["attempts"][-1] for task in total["tasks"] if task["attempts"]},
        legend=[*(Box(kind, kind) for kind in KINDS), Box("implement", "failed", failed=True)],
        runs=[_run(run) for run in ran],
        tasks=sorted(total["tasks"], key=lambda task: -(task["cost_usd"] or 0)),
        parts=_parts(bars),
        checks=_checks(found),
    )
    return whole


@cache
def _template() -> Any:
    import jinja2  # only for this page: everything else starts without it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kern.journal", "."),
        autoescape=True,
        finalize=_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= dict(line=plain.line, span=plain.span, of=plain.count, cost=_cost)
    return environment.get_template("page.html")


def _harmless(value: object) -> object:
    """What a template prints: text without control characters, markup as it stands."""
    if hasattr(value, "__html__"):
        return value
    return plain.block(str(value))


def _cost(found: Mapping[str, Any]) -> str:
    """What is known of it; never 0 where nothing is."""
    cost = sums.cost(found)
    if cost.known is None:
        return "unknown"
    return f"{'at least ' if cost.unpriced else ''}${cost.known:.2f}"


# -------------------------------------------------------------------- bars


def _run(run: Run) -> dict[str, Any]:
    code = run.code or 0
    planned = not run.root and run.code is None and {bar.kind for bar in run.bars} <= {Aide.PLANNER}
    other = f"interrupted by signal {code - 128}" if code > 128 else f"ended with exit {code}"
    axis = timeline.Axis(min([run.began, *(bar.began for bar in run.bars)]), run.ended)
    ticks = axis.ticks()
    form = "%d %b" if axis.step >= timeline.DAY_S else "%H:%M" if axis.step >= 60 else "%H:%M:%S"
    many = any(bar.worker for bar in run.bars)
    rows: dict[str, list[Box]] = {}
    for bar in sorted(run.bars, key=lambda bar: bar.worker) if many else run.bars:
        lane = _lane(bar.worker) if many else bar.task or _NO_TASK
        rows.setdefault(lane, []).append(_timed(bar, axis, many=many))
    return {
        "id": run.name[:8],
        "branch": run.branch,
        "when": f"{run.date} {_clock(run.began)} to {_clock(run.ended)} UTC",
        "seconds": run.ended - run.began,
        "end": "planning alone" if planned else _ENDS.get(run.code, other),
        "said": list(dict.fromkeys(run.said)),
        "ticks": [(round(100 * axis.at(tick), 2), _clock(tick, form)) for tick in ticks],
        "rows": rows,
        "by": "Worker" if many else "Task",
    }


def _lane(worker: int) -> str:
    return f"worker {worker}" if worker else "landing"


def _clock(moment: float, form: str = "%H:%M") -> str:
    return time.strftime(form, time.gmtime(moment))


def _timed(bar: Bar, axis: timeline.Axis, *, many: bool = False) -> Box:
    """A bar on the axis, with all that is known of it in words; where its row is that of one of
    many workers, also the task.
    """
    which = f", attempt {plain.line(bar.attempt, 20)}" if bar.attempt else ""
    model = f", {plain.line(bar.model, 40)}" if bar.model else ""
    paid = "" if bar.cost_usd is None else f", ${bar.cost_usd:.2f}"
    failed = f"; failed: {plain.line(bar.failed, 240)}" if bar.failed else ""
    name = f"{plain.line(bar.name, 60)} {plain.span(bar.ended - bar.began)}"
    name = f"{plain.line(bar.task, 80)}: {name}" if many and bar.task else name
    more = f" from {_clock(bar.began)}{which}{model}{paid}{failed}"
    began, ended = axis.at(bar.began), axis.at(bar.ended)
    return _box(bar.kind, bool(bar.failed), name, began, ended - began, more)


def _box(kind: str, failed: bool, name: str, at: float, share: float, more: str = "") -> Box:
    """Within the drawing, however short it is."""
    width = max(share * 100, _LEAST)
    shown = kind if kind in KINDS else "other"
    return Box(shown, name, min(at * 100, 100 - width), width, failed, more)


def _parts(bars: Iterable[Bar]) -> dict[str, list[Box]]:
    """What each kind of stage cost of each task, what failed last; the most expensive task fills
    the width.
    """
    costs: dict[str, dict[tuple[bool, str], float]] = {}
    for bar in sorted(bars, key=lambda bar: (bool(bar.failed), (*KINDS, bar.kind).index(bar.kind))):
        if bar.cost_usd:
            part, key = costs.setdefault(bar.task, {}), (bool(bar.failed), bar.kind)
            part[key] = part.get(key, 0.0) + bar.cost_usd
    most = max((sum(part.values()) for part in costs.values()), default=0.0)
    drawn: dict[str, list[Box]] = {}
    for task, part in costs.items():
        at, drawn[task] = 0.0, []
        for (failed, kind), cost in part.items():
            name = f"{plain.line(kind, 60)}{', failed' if failed else ''}: ${cost:.2f}"
            drawn[task].append(_box(kind, failed, name, at, cost / most))
            at += cost / most
    return drawn


def _checks(found: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """Each gate and judge, with what it printed when it was last red."""
    checks: dict[str, dict[str, Any]] = {}
    for record in found:
        if record["kind"] == "gate":
            blank = {"green": 0, "red": 0, "seconds": 0.0, "output": ""}
            check = checks.setdefault(str(record.get("gate")), blank)
            check["red" if record.get("red") else "green"] += 1
            check["seconds"] += number(record.get("seconds"))  # a judge's is its stage's
            if record.get("red"):
                check["output"] = plain.block(str(record.get("output")))[-_OUTPUT:].strip()
    return checks
