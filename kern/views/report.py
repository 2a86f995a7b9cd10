"""`kern report`: what the journal adds up to, as text, Markdown, JSON or a page: one of no script,
nothing that is loaded, readable on a phone, in the dark and on paper. `page.html` lays it out.
"""

import contextlib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.journal import totals
from kern.journal.history import GATE, History, Record, Run, Story, moment
from kern.journal.sentences import format_record
from kern.model import Aide, Cost, Marker, Stage
from kern.spec import notes, order
from kern.spec.file import Documents
from kern.spec.parse import Kind, parse
from kern.views import summary
from kern.views.log import local, recorded

_DAYS = ("today", "yesterday")  # each as many days ago as its place says
KINDS = (*map(str, Stage), *map(str, Aide), GATE)
_LEAST = 0.3  # percent of the width, so that the shortest bar can be seen


def shown(folder: Path, since: str, *, markdown: bool, as_json: bool, as_html: bool) -> str:
    history = gathered(folder, since)
    if as_html:
        return page(history)
    if as_json:
        return plain.data(totals.summary(history))
    if not history.runs:
        when = f"since {plain.line(since)}" if since else "yet: it begins with the first run"
        return f"nothing in the journal {when}"
    return summary.report(history, markdown=markdown)


def gathered(folder: Path, since: str) -> History:
    """What the journal holds since then, and how things stand now, as far as that can be read."""
    began, project = _since(since, datetime.now(UTC)), repository.open_at(folder)
    history, parsed = recorded(project, began), parse("")
    with contextlib.suppress(KernError):
        parsed = Documents(project.root).spec()[1]
    history.needs = order.needs(parsed)
    for one in parsed.tasks:
        if task := history.tasks.get(one.text):
            answered = one.of(Kind.ANSWER) and not notes.pending(one)
            task.mark = "answered" if answered else "open"
            if one.marker is Marker.DONE:
                task.mark = "done"
    return history


def _since(text: str, now: datetime) -> str:
    """The moment as records write it, in UTC; a date is the person's own. Empty for all."""
    if not text:
        return ""
    try:
        if text in _DAYS:
            text = str((now.astimezone() - timedelta(days=_DAYS.index(text))).date())
        age = None if text.isdecimal() else plain.seconds(text, "d")
        began = datetime.fromisoformat(text) if age is None else now - timedelta(seconds=age)
        return began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError):
        what = f"--since takes a day, an age or a date: {plain.line(text, 40)!r} is none of them"
        hint = "kern report --since yesterday, --since 12h or --since 2026-11-21"
        raise UsageError(what, hint=hint) from None


# ---------------------------------------------------------------- the page


def page(history: History, live: Mapping[str, Any] | None = None) -> str:
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
    roots = (str(run.start["root"]) for run in history.runs.values() if run.start.get("root"))
    return environment.get_template("page.html").render(
        project=next(roots, "").rpartition("/")[2],
        history=history,
        review=totals.review(history),
        tasks=sorted(history.tasks.values(), key=lambda task: -task.sums[0]),
        runs=[*history.runs.values()],
        lanes=_lanes,
        steps=_steps,
        kinds=KINDS,
        live=live,
        cost=Cost,
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
        text, task = format_record(one)[0].strip(), one.get("task") or "(of no task)"
        name = task if not many else f"worker {one['worker']}" if "worker" in one else "landing"
        place, title = f"left:{left:.2f}%;width:{width:.2f}%", plain.line(f"{text}, {task}", 400)
        rows.setdefault(name, []).append({"kind": kind + look, "title": title, "place": place})
    return dict(sorted(rows.items())) if many else rows


def _steps(task: Story) -> str:
    """`research, implement 2 times, gate test 2 times`."""
    names = (plain.line(str(one.get("gate") or one.get("stage")), 40) for one in _ended(task))
    calls = Counter(names).items()
    return ", ".join(f"{name} {often} times" if often > 1 else name for name, often in calls)
