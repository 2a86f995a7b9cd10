"""`kern fleet`: the workers of the last run of many at once, by the journal: what each does and has
cost, and which finished tasks wait to land.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kern import plain
from kern.errors import UsageError
from kern.fleet import lanes
from kern.git import repository
from kern.journal import history, store, words
from kern.journal.history import Record
from kern.model import Cost
from kern.system import lock
from kern.views import progress
from kern.views.log import warn

_START = "kern -j 4 begins one: kern help guide"
_WIDEST = 140  # columns
_TASK = 20  # columns that a task's text gets before anything beside it


@dataclass(slots=True)
class Worker:
    number: int
    task: str = ""  # empty: it is idle
    doing: str = ""
    since: float = 0.0  # epoch seconds
    where: str = ""  # on another machine: which of the cluster's workers has it
    finished: int = 0  # tasks
    cost_usd: float | None = None  # None: no stage has named a cost
    unpriced: int = 0  # stages that named none

    @property
    def cost(self) -> Cost:
        return Cost(self.cost_usd, self.unpriced)


@dataclass(slots=True)
class Fleet:
    run: str
    workers: dict[int, Worker] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)  # finished tasks that wait to land
    landed: int = 0
    ended: bool = False
    until: float = 0.0  # of a usage limit that all wait for, epoch seconds

    @property
    def busy(self) -> list[Worker]:
        """Those that have a task which is not finished."""
        return [one for one in _ordered(self) if one.task]


def shown(folder: Path, *, as_json: bool) -> str:
    """Raises UsageError where no run had workers."""
    found = repository.open_at(folder, reading=True)
    now = of(store.load(store.place(found.common_dir), warn))
    if now is None:
        raise UsageError("no run here has had several workers", hint=_START)
    holder = lock.holder(found.git_dir)
    alive = bool(holder and holder.run == now.run and holder.lives(found.git_dir))
    if as_json:
        told = {**asdict(now), "workers": [asdict(one) for one in _ordered(now)], "alive": alive}
        return plain.data(told)
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    return text(now, time.time(), width, alive=alive)


def of(found: Sequence[Record]) -> Fleet | None:
    """The last one that records in order tell of."""
    last = next((_fleet(one) for one in reversed(found) if _fleet(one)), "")
    if not last:
        return None
    now = Fleet(last)
    has: dict[str, Worker] = {}  # by work branch
    for record in found:
        if _fleet(record) == last:
            one = _of_worker(now, record)
            if record["kind"] == "task" and (branch := record.get("branch")):
                before, has[branch] = has.get(branch, one), one
                if before is not one and before.task == one.task:  # its kern was killed
                    before.task, before.doing = "", ""
        elif record["run"] == last:
            _of_landing(now, record)
    return now


def _fleet(record: Record) -> str:
    """The run whose worker the record tells of."""
    return str(record["run"]) if record["kind"] == "sent" else str(record.get("fleet", ""))


def _of_worker(now: Fleet, record: Record) -> Worker:
    number = int(history.number(record.get("worker")))
    one = now.workers.setdefault(number, Worker(number))
    task, moment = str(record.get("task") or ""), history.moment(record["time"])
    if doing := lanes.doing(record):
        one.doing, one.since = doing, moment
    match record["kind"], record.get("did"):
        case "task", "start":
            one.task, one.doing, one.since = task, lanes.BEGINS, moment
        case "stage", "start":
            one.task = task
        case "stage", "end" | "failed":
            paid = one.cost + Cost.of([record.get("cost_usd")])
            one.cost_usd, one.unpriced = paid.usd, paid.unpriced
        case "sent", _:
            one.where = plain.line(str(record.get("where") or ""), 60)
            one.doing = lanes.SENT
            one.task, one.since = task, moment
        case "work", _:
            one.task = ""
            if record.get("commit"):
                one.finished += 1
                now.queue.append(task)
        case "run", _:
            one.task, one.doing = "", ""
    return one


def _of_landing(now: Fleet, record: Record) -> None:
    task = record.get("task")
    match record["kind"], record.get("did"):
        case "task" | "attempt" as kind, did if did != "start":
            now.landed += did == "done"
            if task in now.queue:  # it, not another of the same text
                now.queue.remove(task)
            elif kind == "task":
                for worker in now.workers.values():
                    if worker.task == task:  # its kern was killed, and said no more
                        worker.task, worker.doing = "", ""
        case "limit", _:
            now.until = history.number(record.get("until"))
        case "run", "end":
            now.ended = True


def told(one: Worker) -> dict[str, str]:
    """What it does, in a word where that is a stage, and since when as the journal says it."""
    since = datetime.fromtimestamp(one.since, UTC).isoformat(timespec="milliseconds")
    where = f" on {one.where}" * bool(one.where)
    return {"doing": words.bare(one.doing) + where, "since": since.replace("+00:00", "Z")}


def text(now: Fleet, clock: float, width: int, *, alive: bool) -> str:
    """`alive`: whether the run is in progress. Where `width` columns do not hold all, what matters
    least goes first.
    """
    workers = _ordered(now)
    begun = "in progress" if alive else "ended"
    if not (alive or now.ended):
        begun = f"interrupted: kern -j {len(workers)} resumes it"
    cost = sum((one.cost for one in workers), Cost(None))
    until = time.strftime("%a %H:%M", time.localtime(now.until))
    told = [
        (9, f"run {now.run[:8]} {begun}" if width >= _TASK * 2 else begun),
        *([(8, f"usage limit until {until}")] if alive and now.until > clock else []),
        (6, plain.count(len(workers), "worker")),
        (8, f"{now.landed} landed"),
        *([(7, str(cost))] if cost != Cost() else []),
    ]
    lines = [progress.fitting(told, width), *_rows(workers, clock, width, alive=alive)]
    if now.queue:
        lines.append(f"{plain.count(len(now.queue), 'finished task')} to land:")
        lines += [f"  {plain.line(task, width - 2)}" for task in now.queue]
    return "\n".join(lines)


def _rows(workers: Sequence[Worker], clock: float, width: int, *, alive: bool) -> list[str]:
    """A line for each, in columns: the number, what it does and since when, what it has cost, how
    many tasks it has finished, and its task.
    """
    idle = "idle" if alive else ""
    busy = [one.number for one in workers if alive and one.task]
    doing = [one.doing if one.number in busy else idle for one in workers]
    took = [progress.clock(max(clock - one.since, 0)) for one in workers]
    columns = [
        [f"{one.number:>{len(str(workers[-1].number))}}" for one in workers],
        doing,
        [span if one.number in busy else "" for one, span in zip(workers, took, strict=True)],
        [f"on {one.where}" * bool(one.where and one.number in busy) for one in workers],
        [_cost(one.cost) for one in workers],
        [f"{one.finished} finished" for one in workers],
    ]
    short = [words.bare(text) for text in doing]
    for at, instead in ((5, None), (4, None), (3, None), (1, short), (2, None)):
        if _wide(columns) + _TASK * bool(busy) <= width:
            break
        columns[at : at + 1] = [] if instead is None else [instead]
    rows = []
    for one, *cells in zip(workers, *columns, strict=True):
        head = "  ".join(
            f"{cell:{max(map(len, column))}}"
            for cell, column in zip(cells, columns, strict=True)
            if any(column)
        )
        room = max(width - len(head) - 2, 8)
        task = plain.line(one.task, room) if one.number in busy else ""
        rows.append(f"{head}  {task}".rstrip())
    return rows


def _cost(cost: Cost) -> str:
    """In few columns; nothing before the first stage has ended."""
    if not cost.unpriced or cost.known is None:
        return "" if cost == Cost() else str(cost)
    return f"over ${cost.known:.2f}"


def _wide(columns: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in columns if any(column))


def _ordered(now: Fleet) -> list[Worker]:
    return [now.workers[number] for number in sorted(now.workers)]
