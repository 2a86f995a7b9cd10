"""`kern log`: the journal as people and as jq read it."""

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.journal import sentences, store
from kern.journal.history import Record
from kern.system import streams

_POLL_S = 0.5
_OF_A_TASK = ("task", "attempt", "question", "sent")
_TASK = 40  # characters of it
_ID = 6  # characters that tell runs apart


def warn(text: str) -> None:
    print(f"kern: {plain.block(text)}", file=sys.stderr)


def tell(text: str, *, as_data: bool = False) -> None:
    """On standard output. On a terminal it is wrapped between words, below its own beginning."""
    width = 0 if as_data or not sys.stdout.isatty() else shutil.get_terminal_size().columns
    for line in text.split("\n"):
        margin = " " * (len(line) - len(line.lstrip()) + 2)
        wrapper = textwrap.TextWrapper(width, subsequent_indent=margin, break_long_words=False)
        wrapper.break_on_hyphens = False
        print(*(wrapper.wrap(line) or [""]) if len(line) > width > 0 else [line], sep="\n")


def local(moment: str, form: str = "%Y-%m-%d %H:%M") -> str:
    """A record's time as the person's clock has it."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime(form)
    except (ValueError, OverflowError):
        return plain.line(moment, 30)


def show(folder: Path, task: str, run: str, *, follow: bool, as_json: bool) -> None:
    place = store.place(repository.open_at(folder, reading=True).common_dir)
    matched, many = False, set[str]()  # runs with several tasks under way
    is_repeated = Repeats()
    for record in _records(place, follow=follow):
        own, above = record["run"], record.get("fleet", "")
        many |= {above} if above else set()
        chosen = any(one.startswith(run) for one in (own, above))
        silent = is_repeated(record) and not as_json
        if task.casefold() in record.get("task", "").casefold() and chosen and not silent:
            text = plain.data(record, None) if as_json else line(record, with_run=own in many)
            print(text, flush=follow)
            matched = True
        if matched and streams.unread(sys.stdout):
            return
    filters = [f"--task {task!r}"] * bool(task) + [f"--run {run!r}"] * bool(run)
    if filters and not matched:
        raise UsageError(
            f"nothing in the journal matches {' and '.join(filters)}",
            hint="kern log shows the beginning of each run's id, and the tasks",
        )
    if not matched:
        warn("nothing in the journal yet: it begins with the first run")


class Repeats:
    """Whether a record only says again what was said. Of an API that is away: that it is asked once
    more. Of one of many workers: what the run says itself.
    """

    def __init__(self) -> None:
        self.away: set[str] = set()  # runs

    def __call__(self, record: Record) -> bool:
        kind, did, run = record["kind"], record.get("did"), record["run"]
        is_begin = kind in ("stage", "gate") and did != "end"
        again = run in self.away and (did == "still away" or is_begin)
        if kind == "outage" or did == "end":
            (self.away.discard if did in ("over", "end") else self.away.add)(run)
        own = kind in ("run", "outage") and "worker" in record
        return again or own or (kind == "work" and not record.get("commit"))


def line(record: Record, *, with_run: bool = False) -> str:
    """One record for a person: when, in which run, and what the run said of it; `named`: of which
    task.
    """
    when = local(record["time"], "%Y-%m-%d %H:%M:%S")
    run, worker = record.get("fleet", record["run"]), record.get("worker")
    head = f"{when}  {run[:_ID]:{_ID}}  " + (f"{worker}  " if worker else "")
    first, *more = sentences.format_record(record)
    if with_run and record["kind"] in _OF_A_TASK:
        first += f"  ({plain.line(str(record.get('task') or ''), _TASK)})"
    return plain.block("\n".join(f"{head}{sentence}" for sentence in (first, *more)))


def _records(place: Path, *, follow: bool) -> Iterator[dict[str, Any]]:
    follower = store.Follower(place)
    there = store.load(place, warn)
    follower.seen = {record["id"] for record in there}
    yield from there
    while follow and not streams.unread(sys.stdout):
        time.sleep(_POLL_S)
        yield from follower.new()
