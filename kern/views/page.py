"""`kern report --html`: one page of no script, nothing that is loaded, readable on a phone, in the
dark and on paper. `page.html` and `page.css` lay it out.
"""

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kern import plain
from kern.journal import totals
from kern.journal.history import GATE, NO_END, History, Run, Step, number
from kern.journal.totals import NOWHERE, Standing
from kern.model import Aide, Cost, Stage

KINDS = (*map(str, Stage), *map(str, Aide), GATE)
_LEAST = 0.3  # percent of the width, so that the shortest bar can be seen
_OUTPUT = 1000  # characters of what a red gate printed
_TICKS = 6


def drawn(found: History, now: Standing = NOWHERE) -> str:
    total = totals.summary(found, now)
    page: str = _template().render(
        project=next((run.root for run in found.runs.values() if run.root), "").rpartition("/")[2],
        total=total,
        tasks=sorted(total["tasks"], key=lambda task: -(task["cost_usd"] or 0)),
        runs=[_run(run) for run in found.runs.values()],
        stages={task.task: _by_stage(task.steps) for task in found.tasks.values()},
        gates=_gates(found),
        kinds=KINDS,
    )
    return page


@cache
def _template() -> Any:
    import jinja2  # only for this page: everything else starts without it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kern.views", "."),
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else plain.block(str(value)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= dict(line=plain.line, span=plain.span, of=plain.count, cost=_cost)
    return environment.get_template("page.html")


def _cost(found: Mapping[str, Any]) -> str:
    """What is known of it; never 0 where nothing is."""
    cost = Cost(found["cost_usd"], found["unpriced"])
    if cost.known is None:
        return "unknown"
    return f"{'at least ' if cost.unpriced else ''}${cost.known:.2f}"


def _run(run: Run) -> dict[str, Any]:
    began = min([run.began, *(step.began for step in run.steps)])
    length = max(run.ended - began, 1.0)
    form = "%d %b %H:%M" if length > 86_400 else "%H:%M" if length > 360 else "%H:%M:%S"
    rows: dict[str, list[dict[str, Any]]] = {}
    many = any(run.workers)
    for step in sorted(run.steps, key=_worker) if many else run.steps:
        row = str(step.record.get("task") or "(of no task)")
        if many:
            row = f"worker {which}" if (which := _worker(step)) else "landing"
        left = 100 * (step.began - began) / length
        width = max(100 * (step.ended - step.began) / length, _LEAST)
        place = {"left": round(min(left, 100 - width), 2), "width": round(width, 2)}
        kind = step.kind if step.kind in KINDS else "other"
        box = {"kind": kind, "failed": bool(step.failed), "title": _title(step), **place}
        rows.setdefault(row, []).append(box)
    times = [one["time"] for one in run.records]
    said = [str(one["text"]) for one in run.of("limit") + run.of("error")]
    return {
        "id": run.run[:8],
        "branch": run.branch,
        "when": " to ".join(moment[:16].replace("T", " ") for moment in (times[0], times[-1]))
        + " UTC",
        "seconds": run.ended - run.began,
        "end": NO_END if run.exit is None else f"ended with exit {run.exit}",
        "said": list(dict.fromkeys(said)),
        "ticks": [_clock(began + n * length / _TICKS, form) for n in range(_TICKS)],
        "rows": rows,
    }


def _worker(step: Step) -> int:
    return int(number(step.record.get("worker")))


def _title(step: Step) -> str:
    record, cost = step.record, step.record.get("cost_usd")
    about = [f"attempt {record['attempt']}"] if record.get("attempt") else []
    about += [str(record["model"])] if record.get("model") else []
    about += [f"${cost:.2f}"] if isinstance(cost, int | float) else []
    about += [f"failed: {step.failed}"] if step.failed else []
    head = f"{step.name} {plain.span(step.ended - step.began)}"
    return plain.line(", ".join([head, *about, str(record.get("task") or "")]), 400)


def _clock(moment: float, form: str) -> str:
    return time.strftime(form, time.gmtime(moment))


def _by_stage(steps: Sequence[Step]) -> str:
    """Each with its money: `research $0.10, implement 2 times $1.20`."""
    told = []
    calls = [step for step in steps if step.kind != GATE]
    for kind in dict.fromkeys(step.kind for step in calls):
        own = [step for step in calls if step.kind == kind and step.failed != NO_END]
        cost = Cost.of(step.record.get("cost_usd") for step in own)
        times = f" {plain.count(len(own), 'time')}" if len(own) > 1 else ""
        told += [f"{plain.line(kind, 40)}{times} {cost}"] if own else []
    return ", ".join(told)


def _gates(found: History) -> dict[str, dict[str, Any]]:
    """Each gate, with what it printed when it was last red."""
    gates: dict[str, dict[str, Any]] = {}
    for step in (step for step in found.steps if step.kind == GATE):
        gate = gates.setdefault(step.name, {"green": 0, "red": 0, "seconds": 0.0, "output": ""})
        gate["red" if step.failed else "green"] += 1
        gate["seconds"] += step.ended - step.began
        if step.failed:
            gate["output"] = plain.block(str(step.record.get("output")))[-_OUTPUT:].strip()
    return gates
