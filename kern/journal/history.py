"""What happened, folded once: runs, tasks and their steps, who worked and what it cost. Every view
is a loop over these. Pure.

A value of a record can be anything that its type allows: others write journals as well.
"""

import calendar
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kern import plain
from kern.model import Aide, Cost, Stage

Record = Mapping[str, Any]
GATE = "gate"
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d(?:\.\d+)?)Z?", re.ASCII)
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
    task: str = ""  # empty: it is idle
    doing: str = ""
    since: str = ""  # a record's time
    where: str = ""  # which machine of a cluster has it
    step: Step | None = None  # that has begun

    def begin(self, doing: str, record: Record) -> None:
        self.task, self.doing = str(record.get("task") or self.task), doing
        self.since, self.where = record["time"], str(record.get("where") or self.where)

    def break_off(self, now: float) -> None:
        if self.step:
            self.step.ended, self.step.failed, self.step = now, NO_END, None


@dataclass(slots=True)
class Run(Story):
    """One call of `kern` with all its workers."""

    run: str = ""
    began: float = 0.0  # epoch seconds; a clock that goes back stands still
    ended: float = 0.0
    root: str = ""
    payer: str = ""
    exit: int | None = None  # None: no end in the journal
    workers: dict[int, Worker] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)  # finished tasks that wait to land
    ends: Counter[str] = field(default_factory=Counter)  # of its tasks

    @property
    def branch(self) -> str:
        return str(self.records[0].get("branch") or "")


@dataclass(slots=True)
class History(Story):
    runs: dict[str, Run] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    finished: list[Task] = field(default_factory=list)  # in the order in which they were done

    @property
    def done(self) -> list[Task]:
        return self.ended("done")

    def ended(self, *outcomes: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.outcome in outcomes]


def fold(records: Iterable[Record]) -> History:
    """Of records in order."""
    history = History()
    for record in records:
        now, name = moment(record["time"]), str(record.get("fleet", record["run"]))
        if not (run := history.runs.get(name)):
            run = history.runs[name] = Run(run=name, began=now, ended=now)
        run.ended = max(run.ended, now)
        text, which = str(record.get("task") or ""), int(number(record.get("worker")))
        if not (task := history.tasks.get(text, Task())).task and text:
            task = history.tasks[text] = Task(task=text)
        worker = run.workers.setdefault(which, Worker(which))
        step = _step(run, worker, task, record)
        for story in (history, run, task):
            story.records.append(record)
            if step:
                story.steps.append(step)
            if record["kind"] == "stage" and record.get("did") != "start":
                story.spent.pay(record)
        _settle(history, run, worker, task, record)
    for run in history.runs.values():
        for worker in run.workers.values():
            worker.break_off(run.ended)
    return history


def _step(run: Run, worker: Worker, task: Task, record: Record) -> Step | None:
    """One that is new."""
    kind, did = record["kind"], record.get("did")
    if kind not in ("stage", GATE, "attempt"):
        return None
    took = max(number(record.get("seconds")), 0.0)
    step = Step(str(record.get("stage") or GATE), run.ended - took, run.ended, record)
    if kind == "attempt":
        _fail(task, Stage.IMPLEMENT, str(record.get("reason") or "failed"))
        return None
    if kind == GATE:
        step.failed = f"red, exit {record.get('code')}" if record.get("red") else ""
        if not step.name.startswith(Aide.JUDGE):
            return step
        if step.failed:  # a judge's call is a step already
            _fail(task, Aide.JUDGE, f"FAIL: {record.get('output')}")
        return None
    if did == "start":
        worker.break_off(run.ended)
        worker.step, step.began = step, run.ended
        return step
    begun, worker.step = worker.step, None
    step.failed = str(record.get("reason") or "")
    if not begun or begun.kind != step.kind:
        return step
    begun.began, begun.ended = step.began, step.ended
    begun.record, begun.failed = record, step.failed
    return None


def _fail(task: Task, kind: str, reason: str) -> None:
    """Its last step of the kind failed, as is known only now."""
    for step in reversed(task.steps):
        if step.kind == kind:
            step.failed = step.failed or reason
            return


def _settle(history: History, run: Run, worker: Worker, task: Task, record: Record) -> None:
    """What the worker is at from its record on, and how tasks and runs end. Of many at once a task
    is done when its commit has landed; a worker's kern ends with its task, and no run.
    """
    did, own, stage = record.get("did"), "worker" not in record, str(record.get("stage") or "")
    match record["kind"]:
        case "stage":
            worker.begin(stage if did == "start" else f"what follows {stage}", record)
        case "limit":
            worker.begin(f"waiting for a usage limit: {record.get('text')}", record)
        case "outage" if did != "over":
            worker.begin(f"waiting: {record.get('text')}", record)
        case "sent":
            worker.begin(stage or ("begins" if record.get("where") else "sent"), record)
        case "commit":
            task.commit = record.get("commit")
        case "run" if did == "start" and own:
            run.root, run.payer = str(record.get("root") or ""), str(record.get("payer") or "")
        case "run" if did == "end":
            for one in [*run.workers.values()] if own else [worker]:
                one.break_off(run.ended)
                one.task = one.doing = ""
            if own:
                run.exit = record["exit"] if isinstance(record.get("exit"), int) else None
        case "task" | "work" as kind:
            for one in run.workers.values():  # whose kern was killed: it begins anew elsewhere
                one.task = "" if one.task == task.task else one.task
            if kind == "work" and record.get("commit"):
                run.queue.append(task.task)
            elif kind == "task" and did == "start":
                worker.begin("begins", record)
                task.outcome = "open"
            elif kind == "task":
                task.outcome, task.detail = str(did), str(record.get("detail") or "")
                task.proved = str(record.get("proved") or "")
                run.ends[task.outcome] += 1
                history.finished += [task] * (did == "done")
    if record["kind"] in ("task", "attempt") and own and task.task in run.queue:
        run.queue.remove(task.task)


def number(value: object) -> float:
    """What a journal has where a number belongs; 0 for anything else."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def moment(text: str) -> float:
    """Epoch seconds; 0 for what is no time."""
    match = _TIME.fullmatch(text)
    if not match or not 1 <= int(match[2]) <= 12:
        return 0.0
    *whole, seconds = match.groups()
    year, *rest = map(int, whole)
    return calendar.timegm((max(year, 1), *rest, 0)) + float(seconds)
