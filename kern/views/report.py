"""`kern report`: what the journal adds up to, in one of its forms."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import refs, repository
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.journal.history import fold
from kern.journal.totals import NOWHERE, Standing
from kern.model import Marker
from kern.spec import notes, order
from kern.spec.file import Documents
from kern.spec.parse import Kind
from kern.views import page, summary
from kern.views.log import warn

_DAYS = ("today", "yesterday")  # each as many days ago as its place says


def shown(folder: Path, since: str, *, markdown: bool, as_json: bool, as_html: bool) -> str:
    chosen = {"--md": markdown, "--json": as_json, "--html": as_html}
    forms = [name for name, wanted in chosen.items() if wanted]
    if len(forms) > 1:
        raise UsageError(
            f"a report has one form: {' and '.join(forms)} exclude each other",
            hint=f"kern report {forms[-1]}",
        )
    began = _since(since, datetime.now(UTC))
    project = repository.open_at(folder, reading=True)
    records = store.load(store.place(project.common_dir), warn)
    kept = [record for record in records if record["time"] >= began]
    there = project.text("for-each-ref", "--format=%(refname)", refs.ATTEMPTS).splitlines()
    for gone in (one for one in kept if one.get("ref") and f"refs/{one['ref']}" not in there):
        gone["ref"] = ""  # what a run's end cleaned up
    found, now = fold(kept), standing(project) if kept else NOWHERE
    if as_html:
        return page.drawn(found, now)
    if as_json:
        return plain.data(totals.summary(found, now))
    if records and not kept:
        return f"nothing in the journal since {plain.line(since)}"
    return summary.report(found, now, markdown=markdown)


def standing(project: Repo) -> Standing:
    """As SPEC.md has it now; where that cannot be read the journal's word counts."""
    try:
        parsed = Documents(project.root).spec()[1]
    except KernError:
        return NOWHERE
    done = frozenset(task.text for task in parsed.tasks if task.marker is Marker.DONE)
    answered = frozenset(
        task.text for task in parsed.tasks if task.of(Kind.ANSWER) and not notes.pending(task)
    )
    return Standing(order.needs(parsed), order.holds(parsed), done, answered)


def _since(text: str, now: datetime) -> str:
    """The moment as records write it, in UTC; a date is the person's own. Empty for all."""
    if not text:
        return ""
    try:
        if text in _DAYS:
            midnight = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
            day = (midnight - timedelta(days=_DAYS.index(text))).replace(tzinfo=None)
            began = day.astimezone(UTC)
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
