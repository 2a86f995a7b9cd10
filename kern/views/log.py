"""`kern log`: the journal as people and as jq read it."""

import json
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.journal import store
from kern.journal.record import Record
from kern.system import streams

_POLL_S = 0.5
_ID = 6  # characters that tell runs apart
_OWN = ("v", "id", "time", "run", "seq", "branch", "task", "kind")


def warn(text: str) -> None:
    print(f"kern: {plain.block(text)}", file=sys.stderr)


def local(moment: str, form: str = "%Y-%m-%d %H:%M") -> str:
    """A record's time as the person's clock has it."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime(form)
    except (ValueError, OverflowError):
        return plain.line(moment, 30)


def show(folder: Path, task: str, run: str, *, follow: bool, as_json: bool) -> None:
    place = store.place(repository.open_at(folder, reading=True).common_dir)
    found = False
    for record in _records(place, follow=follow):
        if task.casefold() in record.get("task", "").casefold() and record["run"].startswith(run):
            shown = plain.data(record, None) if as_json else line(record)
            print(shown, flush=follow)
            found = True
        if found and streams.unread(sys.stdout):
            return
    wanted = [f"--task {task!r}"] * bool(task) + [f"--run {run!r}"] * bool(run)
    if wanted and not found:
        raise UsageError(
            f"nothing in the journal matches {' and '.join(wanted)}",
            hint="kern log shows the beginning of each run's id, and the tasks",
        )


def line(record: Record) -> str:
    """One record for a person: when, in which run, what, and its values."""
    when = local(record["time"], "%Y-%m-%d %H:%M:%S")
    said = ", ".join(
        f"{name} {plain.line(_value(value), 120)}"
        for name, value in record.items()
        if name not in _OWN and value not in ("", None, [], {})
    )
    task = plain.line(record.get("task", ""), 50)
    head = f"{when}  {record['run'][:_ID]:{_ID}}  {record['kind']:8}"
    return plain.block(f"{head}  {task}{'  ' if task else ''}{said}")


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _records(place: Path, *, follow: bool) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    size, told = -1, warn
    while True:
        if (now := store.size(place)) != size:
            for record in store.load(place, told):
                if record["id"] not in seen:
                    seen.add(record["id"])
                    yield record
            size, told = now, lambda text: None  # once
        if not follow or streams.unread(sys.stdout):
            return
        time.sleep(_POLL_S)
