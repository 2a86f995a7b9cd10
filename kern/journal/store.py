"""The journal on disk: a line for each event, appended and read back.

One file per clone, shared by its worktrees, never committed; it survives a reboot. Nothing is ever
overwritten: what happened is what the lines say together, in any order of files.
"""

import contextlib
import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from kern import plain
from kern.events import Event, RunEnded, Sink, Warned
from kern.journal import totals
from kern.journal.history import Record, Task, fold, moment
from kern.system import process

FILE = "events.jsonl"
VERSION = 1
NIGHT = 1 << 21  # bytes at the end: some 500 tasks
_PAUSE_S = 6 * 3600.0  # at most between two runs of a night
_EXACT = ("kind", "did", "task", "stage", "root", "commit", "ref")  # by which records are found
_ALWAYS = {"v", "id", "time", "run", "seq", "kind"}
# What is added up or compared; others write journals as well.
_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("id", "time", "run", "kind", "task", "branch", "fleet", "text", "ref"), str),
    **dict.fromkeys(("v", "seq", "worker", "attempt"), int),
    **dict.fromkeys(("cost_usd", "seconds", "until"), (int, float, type(None))),
    **{"tokens": dict, "denied": list},
}


def place(common_dir: Path) -> Path:
    return common_dir / "kern" / FILE


def line(record: Record) -> bytes:
    """One line of the file, whatever the record's texts hold."""
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


# ---------------------------------------------------------------- written


@dataclass
class Journal:
    """Never a reason to stop paid work: that it cannot be written is said once."""

    path: Path
    run: str
    branch: str
    warn: Callable[[str], None]
    worker: int = 0  # 1 and up, where it is one of many
    fleet: str = ""  # the run that these belong to
    task: str = ""
    lost: bool = False  # it cannot be written
    own: list[dict[str, Any]] = field(default_factory=list)  # records
    hidden: Sequence[str] = field(default_factory=lambda: plain.secrets(os.environ))

    def __call__(self, event: Event) -> None:
        for row in event.records(worker=bool(self.worker)):
            self.task = str(row.get("task", self.task))  # a planner's is none
            head = {"v": VERSION, "id": secrets.token_hex(8), "time": now()}
            head |= {"run": self.run, "seq": len(self.own) + 1, "branch": self.branch}
            if self.worker:
                head |= {"fleet": self.fleet, "worker": self.worker}
            head["task"] = self.task * (row["kind"] != "run")
            for name, value in row.items():
                head[name] = value if name in _EXACT else plain.masked_data(value, self.hidden)
            self.own.append(head)
            try:
                append(self.path, line(head))
            except OSError as exc:
                if not self.lost:
                    self.warn(f"the journal {self.path} cannot be written: {exc.strerror}")
                self.lost = True

    def night(self) -> Sequence[Record]:
        """What the branch's runs recorded since the evening's first: no long pause lies between
        them. In order.
        """
        records = ordered([*load(self.path, size=NIGHT), *self.own])
        runs, began = set(), moment(now())
        for run in reversed(fold(records).runs.values()):
            near = run.fact("branch") == self.branch and began - run.ended < _PAUSE_S
            if near and run.of("run"):  # and no plan
                runs.add(run.run)
                began = run.began
        return [one for one in records if one.get("fleet", one["run"]) in runs]


def append(path: Path, line: bytes) -> None:
    """One write to the file's end, so that two worktrees' lines never mix."""
    path.parent.mkdir(exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        whole = b"\n" * torn + line  # a torn line costs itself alone
        if os.write(descriptor, whole) < len(whole):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)


def beside(sink: Sink, common_dir: Path, branch: str, run: str) -> Sink:
    """The sink, and the journal after it; the end of a run comes with the records of the night."""
    worker, fleet = os.environ.get(process.WORKER, ""), os.environ.get(process.FLEET, "")
    number = int(worker) if worker.isdecimal() and fleet else 0
    own = place(common_dir), run, branch, lambda text: sink(Warned(text))
    journal = Journal(*own, worker=number, fleet=fleet)

    def both(event: Event) -> None:
        if not isinstance(event, RunEnded):
            sink(event)
        journal(event)
        if isinstance(event, RunEnded):
            sink(event if number else replace(event, night=journal.night()))

    return both


def now() -> str:
    when = datetime.fromtimestamp(time.time(), UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---------------------------------------------------------------- read


def load(
    path: Path,
    warn: Callable[[str], None] = lambda text: None,
    having: bytes = b"",
    size: int = 0,
) -> list[dict[str, Any]]:
    """Its records in order, or those with these bytes, in so many bytes at the end; that lines
    cannot be read is said.
    """
    try:
        begin = max(_length(path) - size, 0) if size else 0
        data = _since(path, begin)
    except OSError as exc:
        warn(f"without the journal {path}: {exc.strerror}")
        return []
    *whole, last = data.split(b"\n")  # it may be in the middle of being written
    records, skipped = read(whole[bool(begin) :], having)
    if skipped:
        what = f"{plain.count(skipped, 'line')} skipped: damaged, or from a newer kern"
        warn(f"the journal {path}: {what}")
    return ordered([*records, *read([last], having)[0]])


def costs(path: Path, warn: Callable[[str], None]) -> Callable[[str], tuple[float, int]]:
    """What each task took so far by the journal, US dollars and tokens; read when it is first asked
    for.
    """
    tasks = cache(lambda: fold(load(path, warn, b'"cost_usd"')).tasks)
    return lambda task: tasks().get(task, Task()).spent.sums


def beside_me(path: Path, run: str) -> Callable[[], tuple[float, int]]:
    """What the other runs that this one belongs with have taken so far: US dollars and tokens."""
    fleet = os.environ.get(process.FLEET, "")

    def spent() -> tuple[float, int]:
        records = load(path, having=json.dumps(fleet).encode()) if fleet else []
        others = (one for one in records if one["run"] != run and one.get("fleet") == fleet)
        return fold(others).spent.sums

    return spent


def forecast(path: Path, tasks: int) -> str:
    """What so many of them may cost and take, by the last ones."""
    return totals.forecast(fold(load(path, size=NIGHT)), tasks)


class Follower:
    """Of the records that come from now on, each once; `fleet`: only those of its workers."""

    def __init__(self, path: Path, fleet: str = "") -> None:
        self.path, self.fleet, self.read, self.torn = path, fleet, _length(path), b""
        self.seen: set[str] = set()  # a task's records come home again where it is sent once more

    def new(self) -> list[dict[str, Any]]:
        """Those since the last call."""
        data = _since(self.path, self.read)
        self.read += len(data)
        *whole, self.torn = (self.torn + data).split(b"\n")
        every = (one for one in read(whole)[0] if self.fleet in ("", one.get("fleet")))
        new = {one["id"]: one for one in every if one["id"] not in self.seen}
        self.seen |= new.keys()
        return [*new.values()]


def _length(path: Path) -> int:
    """In bytes; 0 where there is none, or something else in its place."""
    return path.stat().st_size if path.is_file() else 0


def _since(path: Path, begin: int) -> bytes:
    """What stands there from this byte on."""
    if _length(path) <= begin:
        return b""
    with path.open("rb") as file:
        file.seek(begin)
        return file.read()


def ordered(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, runs by when they began, within a run by sequence: a clock that goes back
    disturbs nothing. Runs that belong together are one story, by the clock.
    """
    unique = {record["id"]: record for record in records}.values()
    many = {record["fleet"] for record in unique if "fleet" in record}
    began: dict[str, str] = {}
    for one in unique:
        name = one.get("fleet", one["run"])
        began[name] = min(began.get(name, one["time"]), one["time"])

    def place(one: Record) -> tuple[str, str, str, str, int]:
        name = one.get("fleet", one["run"])
        return began[name], name, one["time"] if name in many else "", one["run"], one["seq"]

    return sorted(unique, key=place)


def read(lines: Iterable[bytes], having: bytes = b"") -> tuple[list[dict[str, Any]], int]:
    """The records of this version with these bytes, and how many other lines there are."""
    records: list[dict[str, Any]] = []
    some = [raw for raw in lines if having in raw and raw.strip()]
    for raw in some:
        with contextlib.suppress(ValueError, RecursionError):
            if _is_sound(record := json.loads(raw)):
                records.append(record)
    return records, len(some) - len(records)


def _is_sound(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and record.keys() >= _ALWAYS
        and record["v"] == VERSION
        and all(isinstance(value, _TYPES.get(name, object)) for name, value in record.items())
    )
