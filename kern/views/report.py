"""`kern report`: what the journal adds up to, as text, Markdown, JSON or a page: one of no script,
nothing that is loaded, readable on a phone, in the dark and on paper. `page.html` lays it out.
"""

import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.journal import totals
from kern.journal.history import GATE, History, Record, Run, Story, moment
from kern.journal.sentences import format_record
from kern.journal.totals import NEEDY, UNREAD, SpecState
from kern.model import Aide, Cost, Marker, Need, Stage
from kern.spec import notes, order
from kern.spec.file import Documents
from kern.spec.parse import Kind
from kern.views import summary
from kern.views.log import local, recorded

_DAYS = ("today", "yesterday")  # each as many days ago as its place says
KINDS = (*map(str, Stage), *map(str, Aide), GATE)
_LEAST = 0.3  # percent of the width, so that the shortest bar can be seen


def shown(folder: Path, since: str, *, markdown: bool, as_json: bool, as_html: bool) -> str:
    history, now = gathered(folder, since)
    if as_html:
        return page(history, now)
    if as_json:
        return plain.data(totals.summary(history, now))
    if not history.runs:
        when = f"since {plain.line(since)}" if since else "yet: it begins with the first run"
        return f"nothing in the journal {when}"
    return summary.report(history, now, markdown=markdown)


def gathered(folder: Path, since: str) -> tuple[History, SpecState]:
    """What the journal holds since then, and how things stand now."""
    began = _since(since, datetime.now(UTC))
    project = repository.open_at(folder, reading=True)
    history = recorded(project, began)
    return history, standing(project, history) if history.runs else SpecState()


def standing(project: Repo, history: History) -> SpecState:
    """As SPEC.md has it now; where that cannot be read the journal's word counts."""
    try:
        parsed = Documents(project.root).spec()[1]
    except KernError:
        needy = (Need(0, 0, one.task, one.detail, "kern status") for one in history.ended(*NEEDY))
        return SpecState(tuple(needy), (), {one.task: "open" for one in history.ended("open")})
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


def page(history: History, now: SpecState = UNREAD, live: Mapping[str, Any] | None = None) -> str:
    """`live`: the status, at the top of a page that renews itself (`follow`)."""
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
        stages={task.task: _steps(task) for task in history.tasks.values()},
        kinds=KINDS,
        live=live,
        cost=lambda spent: Cost(spent["cost_usd"], spent["unpriced"]),
        age=lambda when: plain.span(max(time.time() - moment(when), 0)),
    )


def _ended(story: Story) -> list[Record]:
    """Its calls of agents and its gates."""
    kinds = ("stage", GATE)
    return [one for one in story.records if one["kind"] in kinds and one.get("did") != "start"]


def _lanes(run: Run) -> dict[str, list[dict[str, str]]]:
    """The bars of its timeline, by task or by worker."""
    length, many = max(run.ended - run.began, 1.0), run.many
    rows: dict[str, list[dict[str, str]]] = {}
    for one in _ended(run):
        seconds = max(one.get("seconds") or 0.0, 0.0)
        left = 100 * (moment(one["time"]) - seconds - run.began) / length
        left = min(max(left, 0.0), 100 - _LEAST)
        width = min(max(100 * seconds / length, _LEAST), 100 - left)
        kind = next((kind for kind in KINDS if kind in (one["kind"], one.get("stage"))), "other")
        look = " failed" if one.get("red") or one.get("reason") else ""
        text, task = format_record(one)[0].strip(), str(one.get("task") or "(of no task)")
        place, title = f"left:{left:.2f}%;width:{width:.2f}%", plain.line(f"{text}, {task}", 400)
        name = task if not many else f"worker {one['worker']}" if "worker" in one else "landing"
        rows.setdefault(name, []).append({"kind": kind + look, "title": title, "place": place})
    return dict(sorted(rows.items())) if many else rows


def _steps(task: Story) -> str:
    """`research, implement 2 times, gate test 2 times`."""
    names = (plain.line(str(one.get("gate") or one.get("stage")), 40) for one in _ended(task))
    calls = Counter(names).items()
    return ", ".join(f"{name} {often} times" if often > 1 else name for name, often in calls)
