"""The journal on disk: a line for each event, appended and read back.

One file per clone, shared by its worktrees, never committed; it survives a reboot. Nothing is ever
overwritten: what happened is what the lines say together, in any order of files.
"""

import errno
import json
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.events import Event, RunEnded, Sink, Warned
from kern.journal import totals
from kern.journal.history import History, Record, Spent, Task, fold, moment
from kern.system import process, workspace

FILE = "events.jsonl"
VERSION = 1
TAIL = 1 << 18  # bytes at the end: some 70 tasks
_NIGHT = 8 * TAIL
_PAUSE_S = 6 * 3600.0  # at most between two runs of a night

_BEGUN = b'{"v": 1, "id": "'  # how `line` begins each
_COST = b'"cost_usd"'
_EXACT = ("kind", "did", "task", "stage", "root", "commit", "ref")  # by which records are found
_DECODER = json.JSONDecoder(parse_constant=int)  # refuses NaN and the like
_TORN, _FOREIGN, _NEWER = "damaged", "not a journal record", "from a newer kern"
_ALWAYS = {"id", "time", "run", "kind", "seq"}
_TELLING = ("error", "learning", "limit", "question", "warning")  # nothing without a text
_MOST = 1e15  # of any number that is added up
_TEXTS = (
    *("id", "time", "run", "kind", "branch", "task", "stage", "did", "detail", "proved", "commit"),
    *("text", "reason", "ref", "gate", "output", "agent", "model", "payer", "mode", "fleet"),
)
_NUMBERS = ("cost_usd", "seconds", "attempt", "code", "exit", "until", "wait")
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS, (str,)),
    **dict.fromkeys(_NUMBERS, (int, float, type(None))),
    **{"seq": (int,), "worker": (int,), "tokens": (dict,), "denied": (list,)},
}


def place(common_dir: Path) -> Path:
    return common_dir / "kern" / FILE


def line(record: Record) -> bytes:
    """One line of the file, whatever the record's texts hold."""
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


# ---------------------------------------------------------------- written


@dataclass
class Journal:
    """Never a reason to stop paid work: a journal that cannot be written is told of once."""

    path: Path
    run: str
    branch: str
    warn: Callable[[str], None]
    task: str = ""
    away: bool = False  # the API: it is asked again and again
    worker: int = 0  # 1 and up, where it is one of many
    fleet: str = ""  # the run that these belong to
    lost: bool = False  # it cannot be written
    own: list[dict[str, Any]] = field(default_factory=list)  # records
    hidden: Sequence[str] = field(default_factory=lambda: plain.secrets(os.environ))

    def __call__(self, event: Event) -> None:
        for row in event.records(worker=bool(self.worker)):
            self.task = str(row.get("task", self.task))  # a planner's is none
            head = {"v": VERSION, "id": secrets.token_hex(8), "time": _now()}
            head |= {"run": self.run, "seq": len(self.own) + 1, "branch": self.branch}
            if row["kind"] == "outage":
                self.away = row["did"] != "over"
            elif self.away and row["kind"] == "stage" and row["did"] != "end":
                head["again"] = True
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
                    self.warn(unwritten(self.path, exc))
                self.lost = True

    def night(self) -> Sequence[Record]:
        """What the branch's runs recorded since the evening's first: no long pause lies between
        them. In order.
        """
        found = ordered([*tail(self.path, size=_NIGHT), *self.own])
        runs, began = set(), moment(_now())
        for run in reversed(fold(found).runs.values()):
            near = run.branch == self.branch and began - run.ended < _PAUSE_S
            if near and run.of("run"):  # and no plan
                runs.add(run.run)
                began = run.began
        return [one for one in found if one.get("fleet", one["run"]) in runs]


def unwritten(path: Path, exc: OSError) -> str:
    return f"the journal {path} cannot be written: {exc.strerror}"


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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---------------------------------------------------------------- read


def load(path: Path, warn: Callable[[str], None], having: bytes = b"") -> list[dict[str, Any]]:
    """Its records in order, or those with these bytes; what had to be skipped is told."""
    try:
        data = workspace.read(path) or b""
    except KernError as exc:
        warn(f"without the journal: {exc}")
        return []
    *whole, last = data.split(b"\n")  # it may be in the middle of being written
    skipped: Counter[str] = Counter()
    found = ordered([*read(whole, skipped, having), *read([last])])
    if skipped:
        which = ", ".join(f"{count} {what}" for what, count in skipped.items())
        remedy = ": kern --update" if _NEWER in which else ""
        lines = plain.count(skipped.total(), "line")
        warn(f"the journal {path}: {lines} skipped: {which}{remedy}")
    return found


def recent(path: Path, warn: Callable[[str], None]) -> History:
    """What each task cost, and all of the last runs: no more of a long journal is parsed."""
    return fold(ordered([*load(path, warn, _COST), *tail(path, size=_NIGHT)]))


def costs(path: Path, warn: Callable[[str], None]) -> Callable[[str], tuple[float, int]]:
    """What each task took so far by the journal, US dollars and tokens; read when it is first asked
    for.
    """

    @cache
    def tasks() -> Mapping[str, Task]:
        return fold(load(path, warn, _COST)).tasks

    return lambda task: _sums(tasks().get(task, Task()).spent)


def beside_me(path: Path, run: str) -> Callable[[], tuple[float, int]]:
    """What the other runs that this one belongs with have taken so far: US dollars and tokens."""
    fleet = os.environ.get(process.FLEET, "")

    def spent() -> tuple[float, int]:
        found = load(path, lambda text: None, json.dumps(fleet).encode()) if fleet else []
        others = (one for one in found if one["run"] != run and one.get("fleet") == fleet)
        return _sums(fold(others).spent)

    return spent


def _sums(spent: Spent) -> tuple[float, int]:
    return spent.cost_usd or 0.0, sum(spent.tokens.values())


def forecast(path: Path, tasks: int) -> tuple[str, float]:
    """What so many of them may cost and take, in words, and the seconds; empty and 0 where too
    little is known. It is made from the journal's end, and is worth no complaint.
    """
    return totals.forecast(fold(ordered(tail(path))), tasks)


def tail(path: Path, having: bytes = b"", size: int = TAIL) -> list[dict[str, Any]]:
    """The records at the journal's end, or those of them with these bytes."""
    return [*read(_since(path, max(0, _length(path) - size)).split(b"\n"), having=having)]


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
        every = (one for one in read(whole) if self.fleet in ("", one.get("fleet")))
        new = {one["id"]: one for one in every if one["id"] not in self.seen}
        self.seen |= new.keys()
        return [*new.values()]


def _length(path: Path) -> int:
    """In bytes; 0 where there is none, or something else in its place."""
    return path.stat().st_size if path.is_file() else 0


def _since(path: Path, begin: int) -> bytes:
    """What stands there from this byte on; nothing where it cannot be read."""
    try:
        if _length(path) <= begin:
            return b""
        with path.open("rb") as file:
            file.seek(begin)
            return file.read()
    except OSError:
        return b""


def ordered(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, runs by when they began, within a run by sequence: a clock that goes back
    disturbs nothing. The union of two journals is one. Runs that belong together are one story, by
    the clock.
    """
    known = {record["id"]: record for record in found}
    began: dict[str, str] = {}
    many = {record["fleet"] for record in known.values() if "fleet" in record}
    for record in known.values():
        run, time = record.get("fleet", record["run"]), record["time"]
        began[run] = min(began.get(run, time), time)

    def place(one: Record) -> tuple[str, str, str, str, int]:
        run = one.get("fleet", one["run"])
        return began[run], run, one["time"] if run in many else "", one["run"], one["seq"]

    return sorted(known.values(), key=place)


def read(
    lines: Iterable[bytes], skipped: Counter[str] | None = None, having: bytes = b""
) -> Iterator[dict[str, Any]]:
    """The records of this version; the other lines are counted in `skipped` by what they are. A
    line that looks like kern's own is parsed only where it has these bytes.
    """
    skipped = Counter() if skipped is None else skipped
    for raw in lines:
        if having not in raw and raw.startswith(_BEGUN) and raw.endswith(b"}"):
            continue
        try:
            value = _DECODER.decode(str(raw, "utf-8"))
        except (ValueError, RecursionError):
            if raw.strip():
                skipped[_TORN] += 1
            continue
        version = value.get("v") if isinstance(value, dict) else None
        if version == VERSION and _is_sound(value):
            yield value
        else:
            newer = isinstance(version, int) and version > VERSION
            skipped[f"{_NEWER} (v{version})" if newer else _FOREIGN] += 1


def _is_sound(record: Record) -> bool:
    """Whether it has what every record has, and what is added up or compared is of its type."""
    if not record.keys() >= _ALWAYS or (record["kind"] in _TELLING and "text" not in record):
        return False
    for name, value in record.items():
        kind = type(value)
        if kind not in _TYPES.get(name, (kind,)):
            return False
        if kind in (int, float) and not -_MOST < value < _MOST:
            return False
    counts, denied = record.get("tokens", {}).values(), record.get("denied", ())
    return all(type(one) is int and abs(one) < _MOST for one in counts) and all(
        type(one) is str for one in denied
    )
