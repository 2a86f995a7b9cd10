"""The journal on disk: a line for each event, appended and read back.

One file per clone, shared by its worktrees, never committed; it survives a reboot. Nothing is ever
overwritten: what happened is what the lines say together, in any order of files.
"""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from kern import plain
from kern.events import Event, RunEnded, Sink, warning
from kern.journal import totals
from kern.journal.history import Record, Task, fold, moment
from kern.system import process

FILE = "events.jsonl"
VERSION = 1
Warn = Callable[[str], None]
NIGHT = 1 << 21  # bytes at the end: some 500 tasks
_NIGHT_S = 14 * 3600.0  # from the evening to the morning
_EXACT = ("kind", "did", "task", "stage", "root", "commit", "ref")  # by which records are found
# What is added up or compared, by its type; others write journals as well.
_MUST = {"v", "id", "time", "run", "seq", "kind"}
_AMOUNTS = ("seconds", "since", "until")
_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("id", "time", "run", "kind", "task", "branch", "fleet", "text", "ref"), str),
    **dict.fromkeys(("v", "seq", "worker", "attempt"), int),
    **{"commit": (str, type(None)), "code": (int, type(None)), "tokens": dict, "denied": list},
}
_MOST = 1e15


def place(common_dir: Path) -> Path:
    return common_dir / "kern" / FILE


def line(record: Record) -> bytes:
    """One line of the file, whatever the record's texts hold."""
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


# ---------------------------------------------------------------- written


class Journal:
    """The journal, and after it a sink; the end of a run comes with the records of the night.
    Never a reason to stop paid work: that it cannot be written is said once.
    """

    def __init__(self, sink: Sink, common_dir: Path, branch: str, run: str) -> None:
        self.sink, self.path = sink, place(common_dir)
        worker, fleet = os.environ.get(process.WORKER, ""), os.environ.get(process.FLEET, "")
        self.worker = int(worker) if worker.isdecimal() and fleet else 0  # one of many: 1…
        of_many = {"fleet": fleet, "worker": self.worker} if self.worker else {}
        self.head = {"run": run, "branch": branch, **of_many}
        self.task, self.lost, self.hidden = "", False, plain.secrets(os.environ)
        self.own: list[dict[str, Any]] = []  # records

    def __call__(self, event: Event) -> None:
        if event.kept:
            self._keep(event.record)
        if isinstance(event, RunEnded) and not self.worker:
            event = replace(event, night=self._night())
        self.sink(event)

    def _keep(self, row: Record) -> None:
        if self.worker and row["kind"] == "task" and row["did"] != "start":
            # It is done when its commit has landed, which is not one worker's to say.
            row = {**row, "kind": "work"}
        self.task = str(row.get("task", self.task))  # a planner's is none
        time = max(now(), self.own[-1]["time"] if self.own else "")  # a clock may go back
        record = {"v": VERSION, "id": secrets.token_hex(8), "time": time, **self.head}
        record |= {"seq": len(self.own) + 1, "task": self.task * (row["kind"] != "run")}
        for name, value in row.items():
            record[name] = value if name in _EXACT else plain.masked_data(value, self.hidden)
        self.own.append(record)
        if row["kind"] == "task" and row["did"] != "start":  # what comes now is none of it
            self.task = ""
        try:
            append(self.path, line(record))
        except OSError as exc:
            if not self.lost:
                self.sink(warning(f"the journal {self.path} cannot be written: {exc.strerror}"))
            self.lost = True

    def _night(self) -> Sequence[Record]:
        """What the branch's runs recorded since the evening, in order."""
        name, branch, since = self.head["run"], self.head["branch"], time.time() - _NIGHT_S
        others = (one for one in load(self.path, size=8 * NIGHT) if one["run"] != name)
        records = ordered([*others, *self.own])
        whole = (one for one in records if (one["kind"], one.get("branch")) == ("run", branch))
        runs = {name, *(one["run"] for one in whole if moment(one["time"]) > since)}
        return [one for one in records if one.get("fleet", one["run"]) in runs]


def append(path: Path, line: bytes) -> None:
    """One write to the file's end, so that two worktrees' lines never mix."""
    path.parent.mkdir(exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
        file.write(b"\n" * torn + line)  # a torn line costs itself alone


def now() -> str:
    when = datetime.fromtimestamp(time.time(), UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---------------------------------------------------------------- read


def load(path: Path, warn: Warn = lambda text: None, size: int = 0) -> list[dict[str, Any]]:
    """Its records in order, or those in so many bytes at the end; that lines cannot be read is
    said.
    """
    data = _since(path, -size, warn)
    whole = data.split(b"\n")[:-1]  # the last may be in the middle of being written
    records, skipped = read(whole[len(data) == size :])  # of a part the first is only an end
    if skipped:
        what = f"{plain.count(skipped, 'line')} skipped: damaged, or from a newer kern"
        warn(f"the journal {path}: {what}")
    return ordered(records)


def earlier(path: Path, but: str) -> Callable[[str], tuple[float, int]]:
    """What a task took by then, without one run: US dollars and tokens. It is read once."""
    tasks = cache(lambda: fold(one for one in load(path) if one["run"] != but).tasks)
    return lambda text: tasks().get(text, Task()).sums


def beside(path: Path, fleet: str, but: str) -> Callable[[], tuple[float, int]]:
    """What the runs of a fleet have taken so far, without one."""

    def own(record: Record) -> bool:
        return record.get("fleet") == fleet and record["run"] != but

    return lambda: fold(filter(own, load(path, size=8 * NIGHT))).sums


def forecast(path: Path, tasks: int) -> str:
    """What so many of them may cost and take, by the last ones."""
    return totals.forecast(fold(load(path, size=NIGHT)), tasks)


class Follower:
    """Of the records that come from now on, each once; `fleet`: only those of its workers."""

    def __init__(self, path: Path, fleet: str = "") -> None:
        self.path, self.fleet, self.read = path, fleet, len(_since(path))
        self.seen: set[str] = set()  # a task's records come home again where it is sent once more

    def new(self) -> list[dict[str, Any]]:
        """Those since the last call, but for a line that is being written."""
        whole, end, _ = _since(self.path, self.read).rpartition(b"\n")
        self.read += len(whole + end)
        every = (one for one in read(whole.split(b"\n"))[0] if self.fleet in ("", one.get("fleet")))
        new = {one["id"]: one for one in every if one["id"] not in self.seen}
        self.seen |= new.keys()
        return [*new.values()]


def _since(path: Path, begin: int = 0, warn: Warn = lambda text: None) -> bytes:
    """What stands there from this byte on; below 0: in so many at its end."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(begin if begin >= 0 else max(size + begin, 0))
            return file.read()
    except FileNotFoundError:
        pass
    except OSError as exc:
        warn(f"without the journal {path}: {exc.strerror or exc}")
    return b""


def ordered(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, by the clock, of a run by sequence."""
    unique = {record["id"]: record for record in records}.values()
    return sorted(unique, key=itemgetter("time", "run", "seq"))


def read(lines: Iterable[bytes]) -> tuple[list[dict[str, Any]], int]:
    """The records of this version, and how many other lines there are."""
    records: list[dict[str, Any]] = []
    some = [raw for raw in lines if raw.strip()]
    for raw in some:
        with contextlib.suppress(ValueError, RecursionError):
            if _is_sound(record := json.loads(raw)):
                records.append(record)
    return records, len(some) - len(records)


def _is_sound(record: Any) -> bool:
    if not (isinstance(record, dict) and record.keys() >= _MUST and record["v"] == VERSION):
        return False
    if not all(isinstance(value, _TYPES.get(name, object)) for name, value in record.items()):
        return False
    cost = record.get("cost_usd")  # None: not known
    amounts = [0.0 if cost is None else cost, *(record.get(name, 0.0) for name in _AMOUNTS)]
    amounts += record.get("tokens", {}).values()
    return all(isinstance(one, (int, float)) and 0 <= one < _MOST for one in amounts)
