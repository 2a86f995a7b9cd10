"""`kern report`: what the journal adds up to, as text, Markdown, JSON or a page: one of no script,
nothing that is loaded, readable on a phone, in the dark and on paper. `page.html` lays it out.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import refs, repository
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.journal.history import GATE, NO_END, History, Run, Step, fold
from kern.journal.totals import NOT_READ, SpecState
from kern.model import Aide, Cost, Marker, Stage
from kern.spec import notes, order
from kern.spec.file import Documents
from kern.spec.parse import Kind
from kern.views import summary
from kern.views.log import local, warn

_DAYS = ("today", "yesterday")  # each as many days ago as its place says
KINDS = (*map(str, Stage), *map(str, Aide), GATE)
GOES_ON = "under way"  # in place of why a step failed
_LEAST = 0.3  # percent of the width, so that the shortest bar can be seen


def shown(folder: Path, since: str, *, markdown: bool, as_json: bool, as_html: bool) -> str:
    if markdown + as_json + as_html > 1:
        what = "a report has one form: --md, --json and --html exclude each other"
        raise UsageError(what, hint="kern report --md")
    found, now, is_told = gathered(folder, since)
    if as_html:
        return page(found, now)
    if as_json:
        return plain.data(totals.summary(found, now))
    if is_told and not found.runs:
        return f"nothing in the journal since {plain.line(since)}"
    return summary.report(found, now, markdown=markdown)


def gathered(folder: Path, since: str) -> tuple[History, SpecState, bool]:
    """What the journal holds since then, how things stand now, and whether it holds anything."""
    began = _since(since, datetime.now(UTC))
    project = repository.open_at(folder, reading=True)
    records = store.load(store.place(project.common_dir), warn)
    recent = [record for record in records if record["time"] >= began]
    there = project.text("for-each-ref", "--format=%(refname)", refs.ATTEMPTS).splitlines()
    for row in recent:
        if row.get("ref") and f"refs/{row['ref']}" not in there:
            row["ref"] = ""  # what a run's end cleaned up
    return fold(recent), standing(project) if recent else NOT_READ, bool(records)


def standing(project: Repo) -> SpecState:
    """As SPEC.md has it now; where that cannot be read the journal's word counts."""
    try:
        parsed = Documents(project.root).spec()[1]
    except KernError:
        return NOT_READ
    marks = {}
    for task in parsed.tasks:
        answered = task.of(Kind.ANSWER) and not notes.pending(task)
        mark = "answered" if answered else "open"
        marks[task.text] = "done" if task.marker is Marker.DONE else mark
    return SpecState(order.needs(parsed), order.holds(parsed), marks)


def _since(text: str, now: datetime) -> str:
    """The moment as records write it, in UTC; a date is the person's own. Empty for all."""
    if not text:
        return ""
    try:
        if text in _DAYS:
            day = (now.astimezone() - timedelta(days=_DAYS.index(text))).date()
            began = datetime.fromisoformat(str(day)).astimezone(UTC)
        elif (age := plain.seconds(text, "d")) is not None and not text.isdecimal():
            began = now - timedelta(seconds=age)
        else:
            began = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since takes a day, an age or a date: {plain.line(text, 40)!r} is none of them",
            hint="kern report --since yesterday, --since 12h or --since 2026-11-21",
        ) from None
    return began.strftime("%Y-%m-%dT%H:%M:%S")


# ---------------------------------------------------------------- the page


def page(history: History, now: SpecState = NOT_READ, live: Mapping[str, Any] | None = None) -> str:
    """`live`: what a page tells at its top that renews itself (`follow`)."""
    import jinja2  # everything else starts without it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kern.views", "."),
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else plain.block(str(value)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= dict(line=plain.line, span=plain.span, of=plain.count, local=local)
    total = totals.summary(history, now)
    roots = [root for run in history.runs.values() if (root := run.fact("root"))]
    return environment.get_template("page.html").render(
        project=roots[0].rpartition("/")[2] if roots else "",
        total=total,
        tasks=sorted(total["tasks"], key=lambda task: -(task["cost_usd"] or 0)),
        runs=[(run, _lanes(run)) for run in history.runs.values()],
        stages={task.task: _steps(task.steps) for task in history.tasks.values()},
        kinds=KINDS,
        no_end=NO_END,
        live=live,
        cost=lambda spent: Cost(spent["cost_usd"], spent["unpriced"]),
    )


def _lanes(run: Run) -> dict[str, list[dict[str, str]]]:
    """The bars of its timeline, by task or by worker."""
    began = min([run.began, *(step.began for step in run.steps)])
    length, many = max(run.ended - began, 1.0), any(run.workers)
    rows: dict[str, list[dict[str, str]]] = {}
    for step in run.steps:
        width = max(100 * (step.ended - step.began) / length, _LEAST)
        left = min(100 * (step.began - began) / length, 100 - width)
        kind = step.kind if step.kind in KINDS else "other"
        look = "" if not step.failed else " going" if step.failed == GOES_ON else " failed"
        place = f"left:{left:.2f}%;width:{width:.2f}%"
        bar = {"kind": kind + look, "title": _title(step), "place": place}
        number = step.record.get("worker")
        of_worker = f"worker {number}" if number else "landing"
        name = of_worker if many else str(step.record.get("task") or "(of no task)")
        rows.setdefault(name, []).append(bar)
    return dict(sorted(rows.items())) if many else rows


def _title(step: Step) -> str:
    record = step.record
    cost = f"${record['cost_usd']:.2f}" if record.get("cost_usd") else ""
    head = f"{step.name} {plain.span(step.ended - step.began)}"
    about = head, record.get("model"), cost, step.failed, record.get("task")
    return plain.line(", ".join(str(text) for text in about if text), 400)


def _steps(steps: Sequence[Step]) -> str:
    """`research $0.10, implement 2 times $1.20, gate test 2 times 1 red`."""
    rows: dict[str, list[Step]] = {}
    for step in steps:
        if step.failed not in (NO_END, GOES_ON):
            rows.setdefault(plain.line(step.name, 40), []).append(step)
    return ", ".join(f"{name}{_ended(same)}" for name, same in rows.items())


def _ended(steps: Sequence[Step]) -> str:
    times = f" {len(steps)} times" if len(steps) > 1 else ""
    if steps[0].kind != GATE:
        return f"{times} {Cost.of(step.record.get('cost_usd') for step in steps)}"
    red = sum(bool(step.failed) for step in steps)
    return f"{times} {red} red" if red else f"{times} green"
