"""`kern log`: the journal as people and as jq read it."""

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import UsageError
from kern.git import refs, repository
from kern.git.repository import Repo
from kern.journal import sentences, store
from kern.journal.history import History, Record, fold
from kern.model import Outcome
from kern.system import streams

_POLL_S = 0.5
_OF_A_TASK = ("attempt", "sent", *Outcome)
_ID = 6  # characters that tell runs apart


@cache
def warn(text: str) -> None:
    """Once: a view reads the journal more often."""
    print(f"kern: {plain.block(text)}", file=sys.stderr)


def tell(text: str, *, as_data: bool = False) -> None:
    """On standard output. On a terminal it is wrapped between words, below its own beginning."""
    width = 0 if as_data or not sys.stdout.isatty() else shutil.get_terminal_size().columns
    for line in text.split("\n"):
        if not 0 < width < len(line):
            print(line)
            continue
        margin = " " * (len(line) - len(line.lstrip()) + 2)
        wrapper = textwrap.TextWrapper(width, subsequent_indent=margin, break_long_words=False)
        wrapper.break_on_hyphens = False
        print(*wrapper.wrap(line) or [""], sep="\n")


def local(moment: str, form: str = "%Y-%m-%d %H:%M") -> str:
    """A record's time as the person's clock has it."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime(form)
    except (ValueError, OverflowError):
        return plain.line(moment, 30)


def show(folder: Path, task: str, name: str, *, follow: bool, as_json: bool) -> None:
    place = store.place(repository.open_at(folder, reading=True).common_dir)
    past, matched = History(), False
    for record in _records(place, follow=follow):
        run = past.add(record)
        chosen = any(one.startswith(name) for one in (record["run"], run.run))
        silent = run.repeats(record) and not as_json
        if task.casefold() in record.get("task", "").casefold() and chosen and not silent:
            text = plain.data(record, None) if as_json else line(record, many=run.many)
            tell(text, as_data=as_json)
            if follow:
                sys.stdout.flush()
            matched = True
        if matched and streams.unread(sys.stdout):
            return
    filters = [f"--task {task!r}"] * bool(task) + [f"--run {name!r}"] * bool(name)
    if filters and not matched:
        what = f"nothing in the journal matches {' and '.join(filters)}"
        hint = "kern log shows the beginning of each run's id, and the tasks"
        raise UsageError(what, hint=hint)
    if not matched:
        warn("nothing in the journal yet: it begins with the first run")


def line(record: Record, *, many: bool = False) -> str:
    """One record for a person: when, in which run, and what the run said of it; where there are
    `many` at once of which task.
    """
    when, run = local(record["time"], "%Y-%m-%d %H:%M:%S"), record.get("fleet", record["run"])
    worker = f"{record['worker']}  " if record.get("worker") else ""
    texts = sentences.format_record(record)
    if many and (record["kind"] in _OF_A_TASK or record.get("did") in _OF_A_TASK):
        texts[0] += f"  ({plain.line(str(record.get('task') or ''), 40)})"
    return plain.block("\n".join(f"{when}  {run[:_ID]:{_ID}}  {worker}{text}" for text in texts))


def recorded(repo: Repo, since: str = "") -> History:
    """What the journal holds from then on; of kept work what is there still."""
    there = {*repo.text("for-each-ref", "--format=%(refname)", refs.ATTEMPTS).splitlines()}
    records = store.load(store.place(repo.common_dir), warn)
    for one in records:
        if one.get("ref") and f"refs/{one['ref']}" not in there:
            one["ref"] = ""
    return fold(one for one in records if one["time"] >= since)


def _records(place: Path, *, follow: bool) -> Iterator[dict[str, Any]]:
    follower = store.Follower(place)
    there = store.load(place, warn)
    follower.seen = {record["id"] for record in there}
    yield from there
    while follow and not streams.unread(sys.stdout):
        time.sleep(_POLL_S)
        yield from follower.new()
