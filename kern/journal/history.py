"""What happened, folded once: runs, tasks and their steps, who worked and what it cost. Every view
is a loop over these. Pure.

A value of a record can be anything that its type allows: others write journals as well.
"""

import calendar
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kern import plain
from kern.model import Aide, Cost, Stage

Record = Mapping[str, Any]
GATE = "gate"
NO_END = "no end in the journal: killed, or still running"
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d(?:\.\d+)?)Z?", re.ASCII)


@dataclass(slots=True)
class Spent:
    """What calls of agents took."""

    stages: int = 0
    seconds: float = 0.0
    cost_usd: float | None = None  # None: no call has named one, which is never 0
    unpriced: int = 0  # calls that named none
    tokens: dict[str, int] = field(default_factory=dict)

    def pay(self, record: Record) -> None:
        self.stages += 1
        self.seconds = round(self.seconds + number(record.get("seconds")), 3)
        if (usd := record.get("cost_usd")) is None:
            self.unpriced += 1
        else:
            self.cost_usd = round((self.cost_usd or 0.0) + usd, 6)
        for kind, count in (record.get("tokens") or {}).items():
            self.tokens[kind] = self.tokens.get(kind, 0) + count

    @property
    def cost(self) -> Cost:
        return Cost(self.cost_usd, self.unpriced)

    def each(self, done: int) -> float | None:
        """US dollars for a finished task; None where that is not known."""
        usd = self.cost_usd
        return round(usd / done, 6) if done and usd is not None else None

    def in_words(self, done: int = 0) -> str:
        per = f", ${usd:.2f} per finished task" if (usd := self.each(done)) is not None else ""
        counted = sum(self.tokens.values())
        tokens = f", {counted:,} tokens" if counted else ""
        return f"{self.cost}{per}{tokens}, {plain.span(self.seconds)}"


@dataclass(slots=True)
class Step:
    """A call of an agent, or a gate."""

    kind: str  # a stage, an aide, or `gate`
    began: float  # epoch seconds
    ended: float
    record: Record  # of its end; of its start where it has none
    worker: int = 0
    failed: str = ""  # why

    @property
    def name(self) -> str:
        return str(self.record.get("gate") or self.kind)


@dataclass(slots=True)
class Task:
    task: str  # its text
    outcome: str = "open"
    detail: str = ""
    proved: str = ""  # what stands behind it
    commit: str | None = None
    branch: str = ""
    began: str = ""
    ended: str = ""
    runs: list[str] = field(default_factory=list)
    attempts: list[dict[str, Any]] = field(default_factory=list)  # that failed
    gates: list[Record] = field(default_factory=list)  # judges among them
    retried: list[Record] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    memory: list[Record] = field(default_factory=list)  # what it was told of LEARNINGS.md, votes
    steps: list[Step] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    whole: bool = False  # its beginning is in the records


@dataclass(slots=True)
class Worker:
    """Who does what. The run itself is number 0: it carries tasks out, or lands those of others."""

    number: int
    task: str = ""  # empty: it is idle
    doing: str = ""
    since: str = ""  # a record's time
    attempt: int | None = None
    where: str = ""  # which machine of a cluster has it
    finished: int = 0  # tasks that went on to be landed
    step: Step | None = None  # that has begun
    spent: Spent = field(default_factory=Spent)


@dataclass(slots=True)
class Run:
    """One call of `kern` with all its workers."""

    run: str
    branch: str
    first: str  # the times of its first record, and of its last
    last: str
    began: float  # the same in epoch seconds; a clock that goes back stands still
    ended: float
    root: str = ""
    payer: str = ""
    exit: int | None = None  # None: no end in the journal
    said: list[str] = field(default_factory=list)  # limits, and what ended it early
    steps: list[Step] = field(default_factory=list)
    workers: dict[int, Worker] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)  # finished tasks that wait to land
    spent: Spent = field(default_factory=Spent)
    done: int = 0

    @property
    def many(self) -> bool:
        return any(self.workers)


@dataclass(slots=True)
class History:
    runs: dict[str, Run] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    finished: list[Task] = field(default_factory=list)  # in the order in which they were done
    flaky: list[Record] = field(default_factory=list)  # gates: red, and green on the same files
    errors: list[Record] = field(default_factory=list)  # that ended runs early
    outages: list[Record] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # of no task
    steps: list[Step] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    @property
    def done(self) -> int:
        return sum(task.outcome == "done" for task in self.tasks.values())


def fold(records: Iterable[Record]) -> History:
    """Of records in order."""
    history = History()
    for record in records:
        run = _run(history, record)
        worker = _worker(run, record)
        task = _task(history, run, record)
        _of_step(history, run, worker, task, record)
        _of_task(history, run, worker, task, record)
        _of_run(history, run, worker, record)
    for run in history.runs.values():
        _break_off(run, *run.workers.values())
    return history


def _run(history: History, record: Record) -> Run:
    now, name = moment(record["time"]), str(record.get("fleet", record["run"]))
    run = history.runs.get(name)
    if run is None:
        time, branch = record["time"], str(record.get("branch") or "")
        run = history.runs[name] = Run(name, branch, time, time, now, now)
    run.last, run.ended = record["time"], max(run.ended, now)
    return run


def _worker(run: Run, record: Record) -> Worker:
    which = int(number(record.get("worker")))
    return run.workers.setdefault(which, Worker(which))


def _task(history: History, run: Run, record: Record) -> Task:
    """Of a record that belongs to none: one that is thrown away."""
    text = str(record.get("task") or "")
    if not text:
        return Task("")
    task = history.tasks.setdefault(text, Task(text, began=record["time"]))
    task.ended, task.branch = record["time"], str(record.get("branch") or "")
    if record["run"] not in task.runs:
        task.runs.append(record["run"])
    return task


def _of_step(history: History, run: Run, worker: Worker, task: Task, record: Record) -> None:
    places = history.steps, run.steps, task.steps
    match record["kind"], record.get("did"):
        case "stage", "start":
            _break_off(run, worker)
            worker.step = _step(run, record, str(record.get("stage")), 0.0)
            for steps in places:
                steps.append(worker.step)
        case "stage", "end" | "failed":
            for spent in (history.spent, run.spent, worker.spent, task.spent):
                spent.pay(record)
            task.denied += record.get("denied") or []
            begun, worker.step = worker.step, None
            step = _step(run, record, str(record.get("stage")), number(record.get("seconds")))
            step.failed = str(record.get("reason") or "")
            if begun and begun.name == step.name:
                begun.began, begun.ended, begun.record = step.began, step.ended, record
                begun.failed = step.failed
            else:
                for steps in places:
                    steps.append(step)
        case "gate", _:
            step = _step(run, record, GATE, number(record.get("seconds")))
            step.failed = f"red, exit {record.get('code')}" if record.get("red") else ""
            if step.name.startswith(Aide.JUDGE):  # whose call is a step already
                _fail(task, Aide.JUDGE, f"FAIL: {record.get('output')}" * bool(step.failed))
            else:
                for steps in places:
                    steps.append(step)
            task.gates.append(record)
            history.flaky += [record] * bool(record.get("flaky"))
        case "attempt", _:
            _fail(task, Stage.IMPLEMENT, str(record.get("reason") or "failed"))


def _step(run: Run, record: Record, kind: str, seconds: float) -> Step:
    """It ended with its record."""
    began = run.ended - max(seconds, 0.0)
    return Step(kind, began, run.ended, record, int(number(record.get("worker"))))


def _break_off(run: Run, *workers: Worker) -> None:
    for worker in workers:
        if worker.step:
            worker.step.ended, worker.step.failed = run.ended, NO_END
            worker.step = None


def _fail(task: Task, kind: str, reason: str) -> None:
    """Its last step of the kind failed, as is known only now."""
    for step in reversed(task.steps):
        if step.kind == kind:
            step.failed = step.failed or reason
            return


def _of_task(history: History, run: Run, worker: Worker, task: Task, record: Record) -> None:
    match record["kind"], record.get("did"):
        case "task", "start":
            task.outcome, task.whole = "open", task.whole or not record.get("resumed")
            worker.task, worker.doing, worker.since = task.task, "begins", record["time"]
            for other in run.workers.values():  # its kern was killed, and it begins anew elsewhere
                if other is not worker and other.task == task.task:
                    other.task = ""
        case "task", outcome:
            task.outcome, task.detail = str(outcome), str(record.get("detail") or "")
            task.proved, worker.task = str(record.get("proved") or ""), ""
            if outcome == "done":
                history.finished.append(task)
                run.done += 1
            _landed(run, task)
        case "work", _:
            worker.task = ""
            if record.get("commit"):
                worker.finished += 1
                run.queue.append(task.task)
        case "commit", _:
            task.commit = record.get("commit")
        case "attempt", _:
            names = ("attempt", "reason", "ref", "cause")
            task.attempts.append({name: record.get(name) for name in names})
            if not worker.number and task.task in run.queue:
                run.queue.remove(task.task)
        case "retry", _:
            task.retried.append(record)
        case "warning", _:
            (task if task.task else history).warnings.append(str(record.get("text")))
        case "learning", _:
            task.learned.append(str(record.get("text")))
        case "recall" | "vote", _:
            task.memory.append(record)


def _landed(run: Run, task: Task) -> None:
    """It needs no worker any more."""
    if task.task in run.queue:
        run.queue.remove(task.task)
    for worker in run.workers.values():
        if worker.task == task.task:
            worker.task = ""


def _of_run(history: History, run: Run, worker: Worker, record: Record) -> None:
    """What it is at, and how it ended. A worker's kern ends with its task, which ends no run."""
    if doing := _doing(record):
        worker.doing, worker.since, worker.attempt = doing, record["time"], record.get("attempt")
        worker.task = str(record.get("task") or worker.task)
    match record["kind"], record.get("did"):
        case "sent", _:
            worker.task, worker.where = str(record.get("task")), str(record.get("where") or "")
        case "outage", _:
            history.outages.append(record)
        case "limit", _:
            run.said.append(str(record.get("text")))
        case "error", _ if not worker.number:
            run.said.append(str(record.get("text")))
            history.errors.append(record)
        case "run", "start" if not worker.number:
            run.root, run.payer = str(record.get("root") or ""), str(record.get("payer") or "")
        case "run", "end":
            code = record.get("exit")
            run.exit = run.exit if worker.number else code if isinstance(code, int) else None
            ended = [worker] if worker.number else [*run.workers.values()]
            _break_off(run, *ended)
            for one in ended:
                one.task, one.doing = "", ""


def _doing(record: Record) -> str:
    """What a worker does from its record on; empty where that stays what it was."""
    match record["kind"], record.get("did"):
        case "stage", "start":
            return str(record.get("stage"))
        case "stage", _:
            return f"what follows {record.get('stage')}"
        case "limit", _:
            return f"waiting for a usage limit: {record.get('text')}"
        case "outage", "away" | "still away":
            return f"waiting: {record.get('text')}"
        case "sent", _:
            return str(record.get("stage") or ("begins" if record.get("where") else "sent"))
        case _:
            return ""


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
