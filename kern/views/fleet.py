"""`kern fleet`: the workers of the last run of many at once, by the journal: what each does and has
cost, and which finished tasks wait to land.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.journal import store, timeline, words
from kern.journal.record import Record
from kern.system import lock, workspace
from kern.views.log import warn

_START = "kern -j 4 begins one: kern help parallel"


@dataclass(slots=True)
class Worker:
    number: int
    task: str = ""  # empty: it is idle
    doing: str = ""
    since: float = 0.0  # epoch seconds
    finished: int = 0  # tasks
    cost_usd: float = 0.0


@dataclass(slots=True)
class Fleet:
    run: str
    workers: dict[int, Worker] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)  # finished tasks that wait to land
    landed: int = 0
    ended: bool = False


def shown(folder: Path, *, as_json: bool) -> str:
    """Raises UsageError where no run had workers."""
    found = repository.open_at(folder, reading=True)
    now = of(store.load(store.place(found.common_dir), warn))
    if now is None:
        raise UsageError("no run here has had several workers", hint=_START)
    scope = workspace.scope(found.root, found.head().name, create=False)
    holder = lock.holder(scope)
    noted = lock.noted(found.git_dir)
    alive = bool(holder and noted and lock.alive(*holder) and noted.run == now.run)
    if as_json:
        told = {**asdict(now), "workers": [asdict(one) for one in _ordered(now)], "alive": alive}
        return plain.data(told)
    return text(now, time.time(), alive=alive)


def of(found: Sequence[Record]) -> Fleet | None:
    """The last one that records in order tell of."""
    last = next((str(one["fleet"]) for one in reversed(found) if "fleet" in one), "")
    if not last:
        return None
    now = Fleet(last)
    for record in found:
        if record.get("fleet") == last:
            _of_worker(now, record)
        elif record["run"] == last:
            _of_landing(now, record)
    return now


def _of_worker(now: Fleet, record: Record) -> None:
    number = int(timeline.number(record.get("worker")))
    one = now.workers.setdefault(number, Worker(number))
    task, moment = str(record.get("task") or ""), timeline.moment(record["time"])
    match record["kind"], record.get("did"):
        case "task", "start":
            one.task, one.doing, one.since = task, "begins", moment
        case "stage", "start":
            one.task, one.doing = task, words.stage(str(record.get("stage")))
            one.since = moment
        case "stage", "end" | "failed" as how:
            one.cost_usd += timeline.number(record.get("cost_usd"))
            one.doing, one.since = "gates" if how == "end" else "stage failed", moment
        case "limit", _:
            one.doing, one.since = "waits for a usage limit", moment
        case "work", _:
            if record.get("commit"):
                one.finished += 1
                now.queue.append(task)
        case "run", _:
            one.task, one.doing = "", ""


def _of_landing(now: Fleet, record: Record) -> None:
    task = record.get("task")
    match record["kind"], record.get("did"):
        case "task", did if did != "start":
            now.landed += did == "done"
            now.queue = [one for one in now.queue if one != task]
        case "attempt", _:
            now.queue = [one for one in now.queue if one != task]
        case "run", "end":
            now.ended = True


def text(now: Fleet, clock: float, *, alive: bool) -> str:
    """`alive`: whether the run is in progress."""
    workers = _ordered(now)
    begun = "in progress" if alive else "ended" if now.ended else "interrupted: kern -j resumes it"
    cost = sum(one.cost_usd for one in workers)
    count = plain.count(len(workers), "worker")
    lines = [f"run {now.run[:8]}, {begun}: {count}, {now.landed} landed, ${cost:.2f}"]
    wide = len(str(len(workers)))
    for one in workers:
        tasks = plain.count(one.finished, "task")
        head = f"{one.number:>{wide}}  ${one.cost_usd:.2f}  {tasks} finished  "
        if one.task and alive:
            took = plain.span(max(clock - one.since, 0))
            lines.append(f"{head}{one.doing}, {took}: {plain.line(one.task, 100)}")
        else:
            lines.append(f"{head}{'idle' if alive else ''}".rstrip())
    if now.queue:
        lines.append(f"{plain.count(len(now.queue), 'finished task')} to land:")
        lines += [f"  {plain.line(task, 120)}" for task in now.queue]
    return "\n".join(lines)


def _ordered(now: Fleet) -> list[Worker]:
    return [now.workers[number] for number in sorted(now.workers)]
