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
        run = history.runs.setdefault(name, Run(run=name, began=now, ended=now))
        run.ended = max(run.ended, now)
        which, text = int(number(record.get("worker"))), str(record.get("task") or "")
        worker = run.workers.setdefault(which, Worker(which))
        task = history.tasks.setdefault(text, Task(task=text)) if text else Task()
        step = _step(run, worker, task, record)
        for story in (history, run, task):
            story.records.append(record)
            if step:
                story.steps.append(step)
            if record["kind"] == "stage" and record.get("did") != "start":
                story.spent.pay(record)
        _work(run, worker, record)
        _settle(history, run, task, record)
    for run in history.runs.values():
        _break_off(run, *run.workers.values())
    return history


def _step(run: Run, worker: Worker, task: Task, record: Record) -> Step | None:
    """One that is new."""
    took = max(number(record.get("seconds")), 0.0)
    step = Step(str(record.get("stage") or GATE), run.ended - took, run.ended, record)
    match record["kind"], record.get("did"):
        case "stage", "start":
            _break_off(run, worker)
            worker.step, step.began = step, run.ended
            return step
        case "stage", _:
            step.failed = str(record.get("reason") or "")
            begun, worker.step = worker.step, None
            if not begun or begun.kind != step.kind:
                return step
            begun.began, begun.ended, begun.record = step.began, step.ended, record
            begun.failed = step.failed
        case "gate", _ if step.name.startswith(Aide.JUDGE):  # whose call is a step already
            if record.get("red"):
                _fail(task, Aide.JUDGE, f"FAIL: {record.get('output')}")
        case "gate", _:
            step.failed = f"red, exit {record.get('code')}" if record.get("red") else ""
            return step
        case "attempt", _:
            _fail(task, Stage.IMPLEMENT, str(record.get("reason") or "failed"))
    return None


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


def _work(run: Run, worker: Worker, record: Record) -> None:
    """What the worker is at from its record on. A worker's kern ends with its task, and no run."""
    task, did = str(record.get("task") or ""), record.get("did")
    match record["kind"], did:
        case "task", "start":
            for other in run.workers.values():  # whose kern was killed: it begins anew here
                other.task = "" if other.task == task else other.task
            worker.task, worker.doing, worker.since = task, "begins", record["time"]
        case ("task", _) | ("work", _):
            for other in run.workers.values():
                other.task = "" if other.task == task else other.task
        case "run", "end":
            ended = [worker] if worker.number else [*run.workers.values()]
            _break_off(run, *ended)
            for one in ended:
                one.task, one.doing = "", ""
    if doing := _doing(record):
        worker.task, worker.doing, worker.since = task or worker.task, doing, record["time"]
        worker.where = str(record.get("where") or worker.where)


def _doing(record: Record) -> str:
    """Empty where it stays what it was."""
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
    return ""


def _settle(history: History, run: Run, task: Task, record: Record) -> None:
    """How tasks and runs end. Of many at once a task is done when its commit has landed."""
    own = "worker" not in record
    match record["kind"], record.get("did"):
        case "task", "start":
            task.outcome = "open"
        case "task", outcome:
            task.outcome, task.detail = str(outcome), str(record.get("detail") or "")
            task.proved = str(record.get("proved") or "")
            run.ends[task.outcome] += 1
            history.finished += [task] * (outcome == "done")
        case "work", _ if record.get("commit"):
            run.queue.append(task.task)
        case "commit", _:
            task.commit = record.get("commit")
        case "run", "start" if own:
            run.root, run.payer = str(record.get("root") or ""), str(record.get("payer") or "")
        case "run", "end" if own:
            code = record.get("exit")
            run.exit = code if isinstance(code, int) else None
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
    year, month, day, hour, minute = map(int, whole)
    return calendar.timegm((max(year, 1), month, day, hour, minute, 0)) + float(seconds)
