"""When each stage and gate of the journal ran: bars, grouped by run and task, and the axis that
they lie on. Values alone; `html` draws them. Pure.
"""

import calendar
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kern.journal.record import Record
from kern.model import Aide, Stage

GATE = "gate"
NO_END = "no end in the journal: killed, or still running"
KINDS = (*map(str, Stage), *map(str, Aide), GATE)
DAY_S = 86400
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d(?:\.\d+)?)Z?", re.ASCII)
_STEPS_S = (10, 30, *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)))
_TICKS = 6  # at most; a phone is as wide as so many labels


@dataclass(frozen=True, slots=True)
class Bar:
    """A stage or a gate that took time. Moments in epoch seconds."""

    kind: str
    name: str  # the stage, or which gate
    task: str
    began: float
    ended: float
    attempt: str = ""
    model: str = ""
    cost_usd: float | None = None
    failed: str = ""  # why
    worker: int = 0  # 1 and up, where it is one of many


@dataclass(slots=True)
class Run:
    """One call of `kern` with all its workers, as their records build it up."""

    name: str
    branch: str
    began: float
    ended: float
    date: str
    root: str = ""
    code: int | None = None  # None: no end in the journal
    said: list[str] = field(default_factory=list)  # limits and what ended it early
    bars: list[Bar] = field(default_factory=list)
    open: dict[int, Bar] = field(default_factory=dict)  # a stage that has begun, by worker


def runs(found: Iterable[Record]) -> list[Run]:
    """Of records in order. A moment that cannot be read, or lies before the one ahead of it, counts
    as that one.
    """
    known: dict[str, Run] = {}
    for record in found:
        now, name = moment(record["time"]), str(record.get("fleet", record["run"]))
        run = known.get(name)
        if run is None:
            branch, day = str(record.get("branch") or ""), record["time"][:10]
            run = known[name] = Run(name, branch, now, now, day)
        run.ended = max(run.ended, now)
        _add(run, record)
    for run in known.values():
        _break_off(run, *list(run.open))
    return list(known.values())


def _add(run: Run, record: Record) -> None:
    reason, worker = str(record.get("reason") or ""), _worker(record)
    match record["kind"], record.get("did"):
        case "stage", "start":
            _break_off(run, worker)
            run.open[worker] = _bar(run, record, str(record.get("stage")))
        case "stage", "end" | "failed":
            run.open.pop(worker, None)
            run.bars.append(replace(_bar(run, record, str(record.get("stage"))), failed=reason))
        case "attempt", _:
            _fail(run, Stage.IMPLEMENT, record, reason or "failed")
        case "gate", _ if str(record.get("gate")).startswith(Aide.JUDGE):
            if record.get("red"):
                _fail(run, Aide.JUDGE, record, f"FAIL: {record.get('output')}")
        case "gate", _:
            red = f"red, exit {record.get('code')}" if record.get("red") else ""
            bar = _bar(run, record, GATE)
            run.bars.append(replace(bar, name=str(record.get("gate")), failed=red))
        case "error", _ if worker:
            pass  # where it ends all of them, the run says so itself
        case "limit" | "error", _:
            run.said.append(str(record.get("text") or ""))
        case "run", "end" if worker:  # of one task, which is not the end of all
            _break_off(run, worker)
        case "run", "start" if not worker:
            run.root = str(record.get("root") or "")
        case "run", "end":
            _break_off(run, *list(run.open))
            code = record.get("exit")
            run.code = code if isinstance(code, int) else None


def _bar(run: Run, record: Record, kind: str) -> Bar:
    """It ended with its record, except for a start."""
    took = 0.0 if record.get("did") == "start" else max(number(record.get("seconds")), 0.0)
    cost = None if record.get("cost_usd") is None else number(record["cost_usd"])
    task, which, model = (str(record.get(name) or "") for name in ("task", "attempt", "model"))
    moments = run.ended - took, run.ended
    return Bar(kind, kind, task, *moments, which, model, cost, worker=_worker(record))


def _worker(record: Record) -> int:
    return int(number(record.get("worker")))


def _fail(run: Run, kind: str, record: Record, reason: str) -> None:
    """The task's last bar of the kind failed, as is known only now."""
    for at in range(len(run.bars) - 1, -1, -1):
        bar = run.bars[at]
        if bar.worker != _worker(record):
            continue
        if bar.task != record.get("task"):
            return
        if bar.kind == kind:
            run.bars[at] = replace(bar, failed=bar.failed or reason)
            return


def _break_off(run: Run, *workers: int) -> None:
    for worker in workers:
        if begun := run.open.pop(worker, None):
            run.bars.append(replace(begun, ended=run.ended, failed=NO_END))


def number(value: object) -> float:
    """What a journal has where a number belongs; 0 for anything else."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def moment(text: str) -> float:
    """Epoch seconds; 0 for what is no time."""
    match = _TIME.fullmatch(text)
    if not match or not 1 <= int(match[2]) <= 12:
        return 0.0
    *whole, seconds = match.groups()
    year, month, day, hour, minute = map(int, whole)
    return calendar.timegm((max(year, 1), month, day, hour, minute, 0)) + float(seconds)


@dataclass(frozen=True, slots=True)
class Axis:
    """Moments as shares of a width, 0 to 1."""

    began: float
    ended: float

    def at(self, moment: float) -> float:
        return (moment - self.began) / max(self.ended - self.began, 1.0)

    @property
    def step(self) -> int:
        """Seconds between two labels."""
        length = self.ended - self.began
        days = math.ceil(length / DAY_S / _TICKS) * DAY_S
        return next((step for step in _STEPS_S if length / step <= _TICKS), days)

    def ticks(self) -> list[int]:
        """Round moments, far enough from each other to be labelled."""
        first = math.ceil(self.began / self.step) * self.step
        return list(range(first, math.floor(self.ended) + 1, self.step))
