"""The journal on disk: a line for each event, appended and read back.

One file per clone, shared by its worktrees, never committed; it survives a reboot. Nothing is ever
overwritten: what happened is what the lines say together, in any order of files.
"""

import errno
import json
import os
import secrets
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.events import Event, RunEnded, Sink, Warned
from kern.journal import totals, words
from kern.journal.history import Record, fold, moment
from kern.model import Cost
from kern.system import process, workspace

FILE = "events.jsonl"
VERSION = 1
BEGUN = b'{"v": 1, "id": "'  # how `line` begins each
COST = b'"cost_usd"'
TAIL = 1 << 18  # bytes at the end: some 70 tasks
_NIGHT = 8 * TAIL
_PAUSE_S = 6 * 3600.0  # at most between two runs of a night

_EXACT = ("kind", "did", "task", "stage", "root", "commit", "ref")  # by which records are found
_DECODER = json.JSONDecoder(parse_constant=int)  # refuses NaN and the like
_TORN, _FOREIGN, _NEWER = "damaged", "not a journal record", "from a newer kern"
_ALWAYS = {"id", "time", "run", "kind", "seq"}
_MOST = 1e15  # of any number that is added up
_NUMBERS = (int, float)
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "time", "run", "kind", "branch", "task", "stage", "did"), (str,)),
    **dict.fromkeys(("detail", "proved", "commit", "text", "reason", "ref", "gate"), (str,)),
    **dict.fromkeys(("output", "agent", "model", "payer", "mode"), (str,)),
    **dict.fromkeys(("cost_usd", "seconds", "attempt", "code", "exit"), (int, float, type(None))),
    **dict.fromkeys(("until", "wait"), (int, float, type(None))),
    **{"seq": (int,), "worker": (int,), "fleet": (str,), "tokens": (dict,), "denied": (list,)},
}
# Kinds that say nothing without a text.
_TELLING = ("error", "learning", "limit", "question", "warning")


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
    own: list[dict[str, Any]] = field(default_factory=list)  # records
    hidden: Sequence[str] = field(default_factory=lambda: plain.secrets(os.environ))

    def __call__(self, event: Event) -> None:
        for said in words.of(event, worker=bool(self.worker)):
            self.task = str(said.get("task", self.task))  # a planner's is none
            head = {"v": VERSION, "id": secrets.token_hex(8), "time": _now()}
            head |= {"run": self.run, "seq": len(self.own) + 1, "branch": self.branch}
            if said["kind"] == "outage":
                self.away = said["did"] != "over"
            elif self.away and said["kind"] == "stage" and said["did"] != "end":
                head["again"] = True
            if self.fleet:
                head |= {"fleet": self.fleet, "worker": self.worker}
            told = {
                key: value if key in _EXACT else plain.masked_data(value, self.hidden)
                for key, value in said.items()
            }
            self.own.append({**head, "task": self.task * (said["kind"] != "run"), **told})
            self._append(line(self.own[-1]))

    def _append(self, data: bytes) -> None:
        try:
            append(self.path, data)
        except OSError as exc:
            self._append = lambda data: None  # type: ignore[method-assign]
            self.warn(unwritten(self.path, exc))

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
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        size = found.st_size
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
    journal = Journal(place(common_dir), run, branch, lambda text: sink(Warned(text)))
    journal.worker, journal.fleet = number, fleet * bool(number)

    def both(event: Event) -> None:
        if isinstance(event, RunEnded):
            journal(event)
            sink(event if number else replace(event, night=journal.night()))
        else:
            sink(event)
            journal(event)

    return both


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


# ---------------------------------------------------------------- read


def load(
    path: Path, warn: Callable[[str], None], having: Sequence[bytes] = (b"",)
) -> list[dict[str, Any]]:
    """Its records in order, or those that are `having` one of these bytes; what had to be skipped
    is told.
    """
    return ordered(every(path, warn, having))


def every(
    path: Path, warn: Callable[[str], None], having: Sequence[bytes] = (b"",)
) -> list[dict[str, Any]]:
    """The same as they stand there: some of them twice."""
    try:
        data = workspace.read(path) or b""
    except KernError as exc:
        warn(f"without the journal: {exc}")
        return []
    *whole, last = data.split(b"\n")
    skipped: Counter[str] = Counter()
    found = [
        *read(whole, skipped, having),
        *read([last]),
    ]  # it may be in the middle of being written
    if which := ", ".join(f"{count} {what}" for what, count in skipped.items() if count):
        remedy = ": kern --update" if _NEWER in which else ""
        number = plain.count(skipped.total(), "line")
        warn(f"the journal {path}: {number} skipped: {which}{remedy}")
    return found


def paid(records: Iterable[Record]) -> dict[str, Cost]:
    """What each task cost, of ten thousands of records at once."""
    prices: dict[str, list[float | None]] = {}
    seen: set[str] = set()
    for record in records:
        if record["kind"] == "stage" and record["id"] not in seen and record.get("did") != "start":
            seen.add(record["id"])
            prices.setdefault(record.get("task", ""), []).append(record.get("cost_usd"))
    return {task: Cost.of(each) for task, each in prices.items()}


def last_run(path: Path, branch: str) -> str:
    """The id of the branch's run that began last, which may be under way; empty where none did."""
    data = _since(path, 0)
    at = len(data)
    while (at := data.rfind(b'"payer"', 0, at)) >= 0:
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        for begun in read([data[start:] if end < 0 else data[start:end]]):
            if begun.get("branch") == branch:
                return str(begun["run"])
    return ""


def costs(path: Path, warn: Callable[[str], None]) -> Callable[[str], tuple[float, int]]:
    """What each task took so far by the journal, US dollars and tokens; read when it is first asked
    for.
    """

    @cache
    def known() -> Mapping[str, tuple[float, int]]:
        records, tokens = every(path, warn, [COST]), Counter[str]()
        for one in {one["id"]: one for one in records}.values():  # a start has none
            tokens[one.get("task", "")] += sum((one.get("tokens") or {}).values())
        return {task: (cost.usd or 0.0, tokens[task]) for task, cost in paid(records).items()}

    return lambda task: known().get(task, (0.0, 0))


def beside_me(path: Path, run: str) -> Callable[[], tuple[float, int]]:
    """What the other runs that this one belongs with have taken so far: US dollars and tokens."""
    fleet = os.environ.get(process.FLEET, "")
    if not fleet:
        return lambda: (0.0, 0)

    def spent() -> tuple[float, int]:
        found = load(path, lambda text: None, [json.dumps(fleet).encode()])
        others = [one for one in found if one["run"] != run and one.get("fleet") == fleet]
        tokens = (sum((one.get("tokens") or {}).values()) for one in others)
        return sum(one.get("cost_usd") or 0.0 for one in others), sum(tokens)

    return spent


def forecast(path: Path, tasks: int) -> tuple[str, float]:
    """What so many of them may cost and take, in words, and the seconds; empty and 0 where too
    little is known. It is made from the journal's end, and is worth no complaint.
    """
    return totals.forecast(fold(ordered(tail(path))), tasks)


def tail(path: Path, having: bytes = b"", size: int = TAIL) -> list[dict[str, Any]]:
    """The records at the journal's end, or those of them that are `having` these bytes."""
    data = _since(path, max(0, length(path) - size))
    return list(read(data.split(b"\n"), having=[having]))


def length(path: Path) -> int:
    """In bytes; 0 where there is none, or something else in its place."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


class Follower:
    """Of the records that come from now on, each once; `fleet`: only those of its workers."""

    def __init__(self, path: Path, fleet: str = "") -> None:
        self.path = path
        self.fleet = fleet
        self.read = length(path)
        self.torn = b""
        self.seen: set[str] = set()  # a task's records come home again where it is sent once more

    def new(self) -> list[dict[str, Any]]:
        """Those since the last call."""
        data = _since(self.path, self.read)
        self.read += len(data)
        *whole, self.torn = (self.torn + data).split(b"\n")
        every = (one for one in read(whole) if self.fleet in ("", one.get("fleet")))
        ours = {one["id"]: one for one in every}
        new = [one for key, one in ours.items() if key not in self.seen]
        self.seen |= ours.keys()
        return new


def _since(path: Path, begin: int) -> bytes:
    """What stands there from this byte on; nothing where it cannot be read."""
    try:
        if length(path) <= begin:
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
        time = one["time"] if run in many else ""
        return began[run], run, time, one["run"], one["seq"]

    return sorted(known.values(), key=place)


def read(
    lines: Iterable[bytes],
    skipped: Counter[str] | None = None,
    having: Sequence[bytes] = (b"",),
) -> Iterator[dict[str, Any]]:
    """The records of this version; the other lines are counted in `skipped` by what they are. A
    line that looks like kern's own is parsed only where it is `having` one of these bytes.
    """
    skipped = Counter() if skipped is None else skipped
    for raw in lines:
        if raw.startswith(BEGUN) and raw.endswith(b"}") and not any(one in raw for one in having):
            continue
        try:
            value = _DECODER.decode(str(raw, "utf-8"))
        except (ValueError, RecursionError):
            skipped[_TORN] += bool(raw.strip())
            continue
        version = value.get("v") if isinstance(value, dict) else None
        if version == VERSION and _sound(value):
            yield value
        else:
            newer = isinstance(version, int) and version > VERSION
            skipped[f"{_NEWER} (v{version})" if newer else _FOREIGN] += 1


def _sound(value: Record) -> bool:
    """Whether it has what every record has, and each value that is added up is of its type."""
    if not value.keys() >= _ALWAYS or (value["kind"] in _TELLING and "text" not in value):
        return False
    for name, said in value.items():
        types = _TYPES.get(name)
        if types and (
            type(said) not in types or (type(said) in _NUMBERS and not -_MOST < said < _MOST)
        ):
            return False
    for count in value.get("tokens", {}).values():
        if type(count) is not int or not -_MOST < count < _MOST:
            return False
    return not any(type(one) is not str for one in value.get("denied") or ())
