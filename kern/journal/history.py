"""What happened, folded once: runs and tasks, who worked and what it cost. Every view is a loop
over these; a run under way adds its records as they come. Pure.
"""

import calendar
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kern.model import SAID, UNVERIFIED, Cost, Need, unverified

Record = Mapping[str, Any]
GATE = "gate"
NEEDY = ("skipped", "blocked", "asked")  # outcomes that call for a person


@dataclass
class Story:
    """What happened, in order, and what its calls of agents took."""

    records: list[Record] = field(default_factory=list)
    stages: int = 0
    seconds: float = 0.0
    cost: Cost = field(default_factory=Cost)
    tokens: dict[str, int] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        self.records.append(record)
        if record["kind"] != "stage" or record.get("did") == "start":
            return
        self.stages += 1
        self.seconds = round(self.seconds + (record.get("seconds") or 0.0), 3)
        self.cost += Cost.of(record.get("cost_usd"))
        self.tokens = dict(Counter(self.tokens) + Counter(record.get("tokens") or {}))

    @property
    def sums(self) -> tuple[float, int]:
        """US dollars and tokens, as far as they are known."""
        return self.cost.usd, sum(self.tokens.values())

    @property
    def figures(self) -> dict[str, Any]:
        """As JSON has them; null where no call has named a cost, which is never 0."""
        usd = self.cost.known if self.stages else None
        cost = {"cost_usd": usd, "unpriced": self.cost.unpriced}
        return {"stages": self.stages, "seconds": self.seconds, **cost, "tokens": self.tokens}

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["kind"] == kind]


@dataclass
class Task(Story):
    task: str = ""  # its text
    outcome: str = "open"
    detail: str = ""
    proved: str = ""  # what stands behind it
    commit: str | None = None
    mark: str = ""  # as SPEC.md has it now: done, answered or open; empty: not there, or not read

    @property
    def open(self) -> bool:
        return self.mark in ("open", "answered")

    @property
    def done(self) -> bool:
        """But for one that was opened again, by kern undo or by hand."""
        return self.outcome == "done" and not self.open

    @property
    def bare(self) -> bool:
        """It is done, and nothing stands behind it."""
        return self.done and unverified(self.proved)

    @property
    def state(self) -> str:
        """In a word or two, with what a person has done since."""
        if self.outcome == "done" and self.open:
            return "opened again"
        if self.outcome in (*NEEDY, "open") and self.mark == "done":
            return "done by you"
        if (self.outcome, self.mark) == ("asked", "answered"):
            return self.mark
        return f"done, {UNVERIFIED}" if self.bare else SAID.get(self.outcome, self.outcome)


class Doing(NamedTuple):
    doing: str
    task: str
    since: str  # a record's time
    attempt: int


@dataclass
class Run(Story):
    """One call of `kern` with all its workers."""

    run: str = ""
    start: Record = field(default_factory=dict)  # its first word: root, branch, max_cost
    began: float = 0.0  # epoch seconds; a clock that goes back stands still
    ended: float = 0.0
    exit: int | None = None  # None: no end in the journal
    many: bool = False  # at once: it has workers
    away: set[str] = field(default_factory=set)  # itself or workers, whom the API does not answer
    # What each worker is at. The run itself is number 0: it carries tasks out, or lands others'.
    workers: dict[int, Doing] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)  # of its tasks

    @property
    def branch(self) -> str:
        return str((self.start or self.records[0]).get("branch") or "")

    def begin(self, doing: str, record: Record) -> None:
        number, text = record.get("worker") or 0, str(record.get("task") or "")
        self.workers[number] = Doing(doing, text, record["time"], record.get("attempt") or 1)

    def repeats(self, record: Record) -> bool:
        """Whether its record only says again what was said: of an API that is away that it is asked
        once more, of a worker what the run says itself.
        """
        match record["kind"], record.get("did"):
            case "work", _:
                return not record.get("commit")
            case "run" | "outage", did:
                return "fleet" in record or did == "still away"
            case (("stage" | "gate"), did):
                return did != "end" and record["run"] in self.away
        return False


@dataclass
class History(Story):
    runs: dict[str, Run] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()  # as SPEC.md has it now, whatever the journal tells

    def ended(self, *outcomes: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.outcome in outcomes]

    @property
    def done(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.done]

    def add(self, record: Record) -> Run:
        """Each in its order; the run that it belongs to."""
        now, name = moment(record["time"]), str(record.get("fleet", record["run"]))
        run = self.runs.get(name) or self.runs.setdefault(name, Run(run=name, began=now, ended=now))
        run.ended, run.many = max(run.ended, now), run.many or "worker" in record
        text = record.get("task") or ""
        task = self.tasks.setdefault(text, Task(task=text)) if text else Task()
        for story in (self, run, task):
            story.take(record)
        _settle(run, task, record)
        return run


def fold(records: Iterable[Record]) -> History:
    """Of records in order."""
    history = History()
    for record in records:
        history.add(record)
    return history


def _settle(run: Run, task: Task, record: Record) -> None:
    """What the worker is at from its record on, and how tasks and runs end: of many at once not by
    a worker's word, whose task is done when its commit has landed.
    """
    kind, did, stage = record["kind"], record.get("did"), record.get("stage")
    own = "fleet" not in record
    if kind in ("task", "work"):  # whose kern was killed: it begins anew elsewhere
        run.workers = {at: one for at, one in run.workers.items() if one.task != task.task}
    match kind, did:
        case "stage", _:
            run.begin(str(stage) if did == "start" else f"after {stage}", record)
        case "outage", "over":
            run.away.discard(record["run"])
        case "limit" | "outage", _:
            run.away |= {record["run"]} if kind == "outage" else set()
            run.begin(f"waiting: {record.get('text')}", record)
        case "sent", _:
            run.begin("sent", record)
        case "task", "start":
            run.begin("begins", record)
            task.outcome = "open"
        case "work", "done":
            run.begin("waits to land", record)
        case "run", "end" if own:
            run.exit = record.get("exit")
        case "run", _ if own:
            run.start = run.start or record
        case "commit", _ if own:  # of an old journal
            task.commit = record.get("commit")
        case "task", _ if own:
            task.outcome, task.detail = str(did), str(record.get("detail") or "")
            task.proved = str(record.get("proved") or "")
            task.commit = record.get("commit") or task.commit
            run.ends[task.outcome] += 1


def moment(text: str) -> float:
    """Epoch seconds; 0 for what is no time."""
    try:
        *whole, thousandths = map(int, re.findall(r"\d+", text))
        return calendar.timegm((*whole, 0, 0, 0)) + thousandths / 1000
    except (ValueError, OverflowError):
        return 0.0
