"""The journal on disk, read back as records.

One file per clone, shared by its worktrees, never committed; it survives a reboot.
"""

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.journal import record as records
from kern.journal import totals
from kern.journal.record import Record
from kern.system import process, workspace

FILE = "events.jsonl"
TAIL = 1 << 18  # bytes at the end: some 70 tasks

_DECODER = json.JSONDecoder(parse_constant=int)  # refuses NaN and the like
_TORN, _FOREIGN, _NEWER = "damaged", "not a journal record", "from a newer kern"
_COST = b'"cost_usd"'
_ALWAYS = {"id", "time", "run", "kind", "seq"}
_MOST = 1e15  # of any number that is added up
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
Paid = dict[str, list[float | None]]  # what each call for a task cost; None: it was not named


def place(common_dir: Path) -> Path:
    return common_dir / "kern" / FILE


def size(path: Path) -> int:
    """In bytes; 0 where there is none, or something else in its place."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def load(path: Path, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Its records in order; what had to be skipped is told."""
    return records.ordered(_told(path, _bytes(path, warn), warn))


def _belongs(record: Record, run: str) -> bool:
    """Whether the run itself wrote it, or one of its workers."""
    return run in (record["run"], record.get("fleet"))


def last_run(
    path: Path, branch: str, warn: Callable[[str], None]
) -> tuple[list[dict[str, Any]], Paid]:
    """The branch's run that began last, in order, which may be under way; and what every task's
    calls cost. No more of a long journal is parsed than these need.
    """
    data = _bytes(path, warn)
    at = len(data)
    own: list[dict[str, Any]] = []
    while not own and (at := data.rfind(b'"payer"', 0, at)) >= 0:
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        for begun in read([data[start:] if end < 0 else data[start:end]]):
            if begun.get("branch") == branch:
                held = read(data[start:].split(b"\n"), having=json.dumps(begun["run"]).encode())
                own = [record for record in held if _belongs(record, begun["run"])]
    return records.ordered(own), _paid(_told(path, data, warn, having=_COST))


def costs(path: Path, warn: Callable[[str], None]) -> Callable[[str], float]:
    """What each task cost so far by the journal; read when it is first asked for."""

    @cache
    def known() -> Paid:
        return _paid(_told(path, _bytes(path, warn), warn, having=_COST))

    return lambda task: sum(cost or 0.0 for cost in known().get(task, ()))


def beside_me(path: Path, run: str) -> Callable[[], float]:
    """What the other runs that this one belongs with have spent so far, US dollars."""
    fleet = os.environ.get(process.FLEET, "")
    if not fleet:
        return lambda: 0.0

    def spent() -> float:
        having = json.dumps(fleet).encode()
        found = read((workspace.read(path) or b"").split(b"\n"), having=having)
        others = (one for one in found if one["run"] != run and one.get("fleet") == fleet)
        return sum(one.get("cost_usd") or 0.0 for one in others)

    return spent


def forecast(path: Path, tasks: int) -> tuple[str, float]:
    """What so many of them may cost and take, in words, and the seconds; empty and 0 where too
    little is known. It is made from the journal's end, and is worth no complaint.
    """
    return totals.forecast(records.ordered(tail(path)), tasks)


def tail(path: Path, having: bytes = b"") -> list[dict[str, Any]]:
    """The records at the journal's end, or those of them that are `having` these bytes."""
    data = _since(path, max(0, size(path) - TAIL))
    return list(read(data.split(b"\n"), having=having))


class Follower:
    """Of the records that one run's workers write from now on, each once."""

    def __init__(self, path: Path, fleet: str) -> None:
        self.path = path
        self.fleet = fleet
        self.read = size(path)
        self.torn = b""
        self.seen: set[str] = set()  # a task's records come home again where it is sent once more

    def new(self) -> list[dict[str, Any]]:
        """Those since the last call."""
        data = _since(self.path, self.read)
        self.read += len(data)
        *whole, self.torn = (self.torn + data).split(b"\n")
        ours = {one["id"]: one for one in read(whole) if one.get("fleet") == self.fleet}
        new = [one for key, one in ours.items() if key not in self.seen]
        self.seen |= ours.keys()
        return new


def _since(path: Path, begin: int) -> bytes:
    """What stands there from this byte on; nothing where it cannot be read."""
    try:
        if size(path) <= begin:
            return b""
        with path.open("rb") as file:
            file.seek(begin)
            return file.read()
    except OSError:
        return b""


def _bytes(path: Path, warn: Callable[[str], None]) -> bytes:
    try:
        return workspace.read(path) or b""
    except KernError as exc:
        warn(f"without the journal: {exc}")
        return b""


def _paid(found: Iterable[Record]) -> Paid:
    paid: Paid = {}
    seen: set[str] = set()
    for record in found:
        if record["kind"] == "stage" and record.get("did") in ("end", "failed"):
            if record["id"] not in seen:
                paid.setdefault(record.get("task", ""), []).append(record.get("cost_usd"))
            seen.add(record["id"])
    return paid


# ---------------------------------------------------------------- lines


def read(
    lines: Iterable[bytes], skipped: Counter[str] | None = None, having: bytes = b""
) -> Iterator[dict[str, Any]]:
    """The records of this version; the other lines are counted in `skipped` by what they are. A
    line that looks like kern's own is parsed only where it is `having` these bytes.
    """
    skipped = Counter() if skipped is None else skipped
    for raw in lines:
        own = raw.startswith(records.BEGUN) and raw.endswith(b"}")
        if own and having not in raw:
            continue
        try:
            value = _DECODER.decode(str(raw, "utf-8"))
        except (ValueError, RecursionError):
            skipped[_TORN] += bool(raw.strip())
            continue
        version = value.get("v") if isinstance(value, dict) else None
        if version == records.VERSION and (_priced if own and having == _COST else _sound)(value):
            yield value
        else:
            newer = isinstance(version, int) and version > records.VERSION
            skipped[f"{_NEWER} (v{version})" if newer else _FOREIGN] += 1


def _told(
    path: Path, data: bytes, warn: Callable[[str], None], having: bytes = b""
) -> Iterator[dict[str, Any]]:
    """The records in these bytes; then the person is told what was skipped."""
    *whole, last = data.split(b"\n")
    skipped: Counter[str] = Counter()
    yield from read(whole, skipped, having)
    yield from read([last])  # it may be in the middle of being written
    if which := ", ".join(f"{count} {what}" for what, count in skipped.items() if count):
        remedy = ": kern --update" if _NEWER in which else ""
        number = plain.count(skipped.total(), "line")
        warn(f"the journal {path}: {number} skipped: {which}{remedy}")


def _priced(value: Record) -> bool:
    """Of a line as kern writes it: whether what a sum of costs needs is there, which is quickly
    seen in ten thousands of them.
    """
    cost = value.get("cost_usd")
    texts = (value["id"], value.get("kind"), value.get("did"), value.get("task", ""))
    return {*map(type, texts)} == {str} and (
        cost is None or (type(cost) in (int, float) and -_MOST < cost < _MOST)
    )


def _sound(value: Record) -> bool:
    """Whether it has what every record has, and each value that is added up is of its type."""
    if not value.keys() >= _ALWAYS or (value["kind"] in _TELLING and "text" not in value):
        return False
    for name, said in value.items():
        if name in _TYPES:
            is_a = type(said)
            if is_a not in _TYPES[name] or (is_a in (int, float) and not -_MOST < said < _MOST):
                return False
    for count in value.get("tokens", {}).values():
        if type(count) is not int or not -_MOST < count < _MOST:
            return False
    return not any(type(one) is not str for one in value.get("denied") or ())
