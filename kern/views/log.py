"""`kern log`: the journal as people and as jq read it; and how every view is printed."""

import select
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.journal import sentences, store
from kern.journal.history import History, Record, fold, moment

_POLL_S = 0.5
_GONE = select.POLLERR | select.POLLHUP  # a followed log ends with its reader
_ID = 6  # characters that tell runs apart


@cache
def warn(text: str) -> None:
    """Once: a view reads the journal more often."""
    print(f"kern: {plain.block(text)}", file=sys.stderr)


def view(facts: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """What a view knows, as data or in words."""
    tell(plain.data(facts) if as_json else plain.block("\n".join(lines)), as_data=as_json)


def tell(text: str, *, as_data: bool = False) -> None:
    """On standard output."""
    if not as_data and sys.stdout.isatty():
        text = wrapped(text, shutil.get_terminal_size().columns)
    print(text)


def wrapped(text: str, width: int) -> str:
    """For a terminal: between words, each line below its own beginning."""
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = []
    for line in text.split("\n"):
        wrapper.subsequent_indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines.append(wrapper.fill(line))
    return "\n".join(lines)


def local(text: str, form: str = "%Y-%m-%d %H:%M") -> str:
    """A record's time as the person's clock has it."""
    seconds = moment(text)
    return time.strftime(form, time.localtime(seconds)) if seconds else plain.line(text, 30)


def show(folder: Path, task: str, name: str, *, follow: bool, as_json: bool) -> None:
    place = store.place(repository.open_at(folder).common_dir)
    past, matched = History(), False
    for record in _records(place, follow=follow):
        run = past.add(record)
        chosen = any(one.startswith(name) for one in (record["run"], run.run))
        silent = run.repeats(record) and not as_json
        if task.casefold() in record.get("task", "").casefold() and chosen and not silent:
            text = plain.data(record, None) if as_json else line(record, many=run.many)
            tell(text, as_data=as_json)
            matched = True
    if not matched and (task or name):
        hint = "kern log shows the beginning of each run's id, and the tasks"
        raise UsageError(f"nothing in the journal matches {task or name!r}", hint=hint)
    if not matched:
        warn("nothing in the journal yet: it begins with the first run")


def line(record: Record, *, many: bool) -> str:
    """One record for a person: when, in which run, and what the run said of it."""
    when, run = local(record["time"], "%Y-%m-%d %H:%M:%S"), record.get("fleet", record["run"])
    texts = sentences.format_record(record, many=many)
    return plain.block("\n".join(f"{when}  {run[:_ID]:{_ID}}  {text}" for text in texts))


def recorded(repo: Repo, since: str = "", size: int = 0) -> History:
    """What the journal holds from then on, or in so many bytes at its end."""
    records = store.load(store.place(repo.common_dir), warn, size)
    return fold(one for one in records if one["time"] >= since)


def _records(place: Path, *, follow: bool) -> Iterator[dict[str, Any]]:
    reader = select.poll()
    reader.register(1, 0)
    follower = store.Follower(place)
    there = store.load(place, warn)
    follower.seen = {record["id"] for record in there}
    yield from there
    while follow and not any(event & _GONE for _, event in reader.poll(0)):
        sys.stdout.flush()
        time.sleep(_POLL_S)
        yield from follower.new()
