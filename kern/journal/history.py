"""What happened, folded once: runs, tasks and their steps, who worked and what it cost. Every view
is a loop over these; a run under way adds its records as they come. Pure.
"""

import calendar
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kern import plain
from kern.model import Cost

Record = Mapping[str, Any]
GATE = "gate"
FINISHED = "finished, waits to land"
NO_END = "no end in the journal: killed, or still running"


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
        self.seconds = round(self.seconds + (record.get("seconds") or 0.0), 3)
        sum_ = self.cost + Cost.of([record.get("cost_usd")])
        self.cost_usd, self.unpriced = sum_.usd, sum_.unpriced
        self.tokens = dict(Counter(self.tokens) + Counter(record.get("tokens") or {}))

    @property
    def cost(self) -> Cost:
        return Cost(self.cost_usd, self.unpriced)

    @property
    def sums(self) -> tuple[float, int]:
        """US dollars and tokens, as far as they are known."""
        return self.cost_usd or 0.0, sum(self.tokens.values())

    def each(self, done: int) -> float | None:
        """US dollars for a finished task; None where that is not known."""
        return round(self.cost_usd / done, 6) if done and self.cost_usd is not None else None

    def in_words(self, done: int = 0) -> str:
        usd, counted = self.each(done), self.sums[1]
        per = f", ${usd:.2f} per finished task" if usd is not None else ""
        tokens = f", {counted:,} tokens" if counted else ""
        return f"{self.cost}{per}{tokens}, {plain.span(self.seconds)}"


@dataclass(slots=True)
class Step:
    """A call of an agent, or a gate. Moments in epoch seconds."""

    kind: str  # a stage, an aide, or `gate`
    began: float
    ended: float
    record: Record  # of its end; of its start where it has none
    failed: str = ""  # why

    @property
    def name(self) -> str:
        return str(self.record.get("gate") or self.kind)


@dataclass(slots=True)
class Story:
    """What happened, in order."""

    records: list[Record] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["kind"] == kind]

    def texts(self, kind: str) -> list[str]:
        return [str(one.get("text") or "") for one in self.of(kind)]

    @property
    def denied(self) -> list[str]:
        """What agents were refused."""
        return [tool for one in self.of("stage") for tool in one.get("denied") or ()]


@dataclass(slots=True)
class Task(Story):
    task: str = ""  # its text
    outcome: str = "open"
    detail: str = ""
    proved: str = ""  # what stands behind it
    commit: str | None = None


@dataclass(slots=True)
class Worker:
    """Who does what. The run itself is number 0: it carries tasks out, or lands those of others."""

    number: int
    task: str = ""
    doing: str = ""  # empty: it is idle
    attempt: int = 1
    since: str = ""  # a record's time
    step: Step | None = None  # that has begun

    def begin(self, doing: str, record: Record) -> None:
        self.task, self.doing = str(record.get("task") or self.task), doing
        self.since, self.attempt = record["time"], record.get("attempt") or 1

    def rest(self) -> None:
        self.task = self.doing = ""

    def break_off(self, now: float) -> None:
        if self.step:
            self.step.ended, self.step = now, None


@dataclass(slots=True)
class Run(Story):
    """One call of `kern` with all its workers."""

    run: str = ""
    began: float = 0.0  # epoch seconds; a clock that goes back stands still
    ended: float = 0.0
    exit: int | None = None  # None: no end in the journal
    workers: dict[int, Worker] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)  # of its tasks

    def worker(self, number: int) -> Worker:
        return self.workers.setdefault(number, Worker(number))

    def fact(self, name: str) -> str:
        """What its beginning says of it: its root, branch, payer."""
        own = (one for one in self.of("run") if "worker" not in one)
        return str(next(own, self.records[0]).get(name) or "")


@dataclass(slots=True)
class History(Story):
    runs: dict[str, Run] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def finished(self) -> list[str]:
        """What waits to land."""
        return [task.task for task in self.ended(FINISHED)]

    def ended(self, *outcomes: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.outcome in outcomes]

    def add(self, record: Record) -> Run:
        """Each in its order; the run that it belongs to."""
        now, name = moment(record["time"]), str(record.get("fleet", record["run"]))
        run = self.runs.setdefault(name, Run(run=name, began=now, ended=now))
        run.ended = max(run.ended, now)
        text = record.get("task") or ""
        task = self.tasks.setdefault(text, Task(task=text)) if text else Task()
        worker = run.worker(record.get("worker") or 0)
        step = _step(run.ended, worker, record)
        for story in (self, run, task):
            story.records.append(record)
            if step:
                story.steps.append(step)
            if record["kind"] == "stage" and record.get("did") != "start":
                story.spent.pay(record)
        _settle(run, worker, task, record)
        return run


def fold(records: Iterable[Record]) -> History:
    """Of records in order."""
    history = History()
    for record in records:
        history.add(record)
    for run in history.runs.values():
        for worker in run.workers.values():
            worker.break_off(run.ended)
    return history


def _step(now: float, worker: Worker, record: Record) -> Step | None:
    """One that is new."""
    began, stage = now - max(record.get("seconds") or 0.0, 0.0), str(record.get("stage") or "")
    match record["kind"], record.get("did"):
        case "stage", "start":
            worker.break_off(now)
            worker.step = Step(stage, now, now, record, NO_END)
            return worker.step
        case "stage", _:
            open_step, worker.step = worker.step, None
            step = open_step or Step(stage, 0.0, 0.0, record)
            step.began, step.ended, step.record = began, now, record
            step.failed = str(record.get("reason") or "")
            return None if open_step else step
        case "gate", _:
            red = f"red, exit {record.get('code')}" if record.get("red") else ""
            return Step(GATE, began, now, record, red)
    return None


def _settle(run: Run, worker: Worker, task: Task, record: Record) -> None:
    """What the worker is at from its record on, and how tasks and runs end. Of many at once a task
    is done when its commit has landed; a worker's kern ends with its task, and no run.
    """
    did, own, stage = record.get("did"), "worker" not in record, record.get("stage")
    match record["kind"]:
        case "stage":
            worker.begin(str(stage) if did == "start" else f"after {stage}", record)
        case "limit" | "outage" if did != "over":
            worker.begin(f"waiting: {record.get('text')}", record)
        case "sent":
            worker.begin("sent", record)
        case "commit":
            task.commit = record.get("commit")
        case "run" if did == "end":
            for one in [*run.workers.values()] if own else [worker]:
                one.break_off(run.ended)
                one.rest()
            run.exit = record.get("exit") if own else run.exit
        case "task" | "work" as kind:
            for one in run.workers.values():  # whose kern was killed: it begins anew elsewhere
                if one.task == task.task:
                    one.rest()
            if kind == "work":
                task.outcome = FINISHED if record.get("commit") else task.outcome
            elif did == "start":
                worker.begin("begins", record)
                task.outcome = "open"
            else:
                task.outcome, task.detail = str(did), str(record.get("detail") or "")
                task.proved = str(record.get("proved") or "")
                run.ends[task.outcome] += 1
        case "attempt" if own and task.outcome == FINISHED:
            task.outcome = "open"


def moment(text: str) -> float:
    """Epoch seconds; 0 for what is no time."""
    try:
        *whole, thousandths = map(int, re.findall(r"\d+", text))
        return calendar.timegm((*whole, 0, 0, 0)) + thousandths / 1000
    except ValueError:
        return 0.0
