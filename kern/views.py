"""`kern log` and `kern report`: the journal as people and as jq read it."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kern import journal, page, plain, repo
from kern import report as folds
from kern.errors import UsageError
from kern.records import Record

_POLL_S = 0.5
_OWN = ("v", "id", "time", "run", "seq", "branch", "task", "kind")


def log(folder: Path, task: str, run: str, *, follow: bool, as_json: bool) -> None:
    place = journal.place(repo.open_at(folder))
    for record in _records(place, follow=follow):
        if task.casefold() in record.get("task", "").casefold() and record["run"].startswith(run):
            shown = json.dumps(record, ensure_ascii=False) if as_json else line(record)
            print(shown, flush=follow)


def line(record: Record) -> str:
    """One record for a person: when, what, and its values."""
    when = record["time"][:19].replace("T", " ")
    said = ", ".join(
        f"{name} {plain.line(_value(value), 120)}"
        for name, value in record.items()
        if name not in _OWN and value not in ("", None, [], {})
    )
    task = plain.line(record.get("task", ""), 50)
    return f"{when}  {record['kind']:8}  {task}{'  ' if task else ''}{said}"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _records(place: Path, *, follow: bool) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    while True:
        for record in journal.load(place):
            if record["id"] not in seen:
                seen.add(record["id"])
                yield record
        if not follow:
            return
        time.sleep(_POLL_S)


def report(folder: Path, since: str, *, markdown: bool, as_json: bool, as_html: bool) -> str:
    chosen = {"--md": markdown, "--json": as_json, "--html": as_html}
    forms = [name for name, wanted in chosen.items() if wanted]
    if len(forms) > 1:
        raise UsageError(
            f"a report has one form: {' and '.join(forms)} exclude each other",
            hint=f"kern report {forms[-1]}",
        )
    found = repo.open_at(folder)
    began = _since(since, datetime.now(UTC))
    kept = [record for record in journal.load(journal.place(found)) if record["time"] >= began]
    if as_html:
        return page.page(kept)
    summed = folds.summary(kept)
    if as_json:
        return json.dumps(summed, indent=1, ensure_ascii=False)
    return folds.text(summed, markdown=markdown)


def _since(text: str, now: datetime) -> str:
    """The moment as records write it; empty for all."""
    if not text:
        return ""
    if match := re.fullmatch(r"(\d{1,5})([dhm])", text):
        unit = {"d": "days", "h": "hours", "m": "minutes"}[match[2]]
        return (now - timedelta(**{unit: int(match[1])})).strftime("%Y-%m-%dT%H:%M:%S")
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%S")
    except ValueError:
        raise UsageError(
            f"--since takes an age or a date: {text!r} is neither",
            hint="kern report --since 2d, or --since 2026-11-21",
        ) from None
