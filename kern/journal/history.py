"""What happened, folded once: runs and tasks, who worked and what it cost. Every view
is a loop over these; a run under way adds its records as they come. Pure.
"""

import calendar
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kern import plain
from kern.model import Cost

Record = Mapping[str, Any]
GATE = "gate"


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

    def __str__(self) -> str:
        tokens = f", {self.sums[1]:,} tokens" if self.tokens else ""
        return f"{self.cost}{tokens}, {plain.span(self.seconds)}"


@dataclass(slots=True)
class Story:
    """What happened, in order."""

    records: list[Record] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["kind"] == kind]

    def texts(self, kind: str) -> list[str]:
        return [str(one.get("text") or "") for one in self.of(kind)]


@dataclass(slots=True)
class Task(Story):
    task: str = ""  # its text
    outcome: str = "open"
    detail: str = ""
    proved: str = ""  # what stands behind it
    commit: str | None = None


class Doing(NamedTuple):
    doing: str
    task: str
    since: str  # a record's time
    attempt: int

    def lasts(self, now: float) -> str:
        return plain.span(max(round(now - moment(self.since)), 0))


@dataclass(slots=True)
class Run(Story):
    """One call of `kern` with all its workers."""

    run: str = ""
    began: float = 0.0  # epoch seconds; a clock that goes back stands still
    ended: float = 0.0
    exit: int | None = None  # None: no end in the journal
    many: bool = False  # at once: it has workers
    away: set[str] = field(default_factory=set)  # itself or workers, whom the API does not answer
    # What each worker is at; below 0: which work of its waits to land. The run itself is number 0.
    workers: dict[int, Doing] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)  # of its tasks

    def begin(self, doing: str, record: Record) -> None:
        number, text = record.get("worker") or 0, str(record.get("task") or "")
        self.workers[number] = Doing(doing, text, record["time"], record.get("attempt") or 1)

    def fact(self, name: str) -> str:
        """What its beginning says of it: its root, branch, payer."""
        own = (one for one in self.of("run") if "fleet" not in one)
        return str(next(own, self.records[0]).get(name) or "")

    def repeats(self, record: Record) -> bool:
        """Whether its record only says again what was said: of an API that is away that it is asked
        once more, of a worker what the run says itself.
        """
        own = record["kind"] in ("run", "outage") and "fleet" in record
        own |= record["kind"] == "work" and not record.get("commit")
        again = record["kind"] in ("stage", GATE) and record.get("did") != "end"
        asked = record["run"] in self.away and again
        return own or asked or record.get("did") == "still away"


@dataclass(slots=True)
class History(Story):
    runs: dict[str, Run] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)

    def ended(self, *outcomes: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.outcome in outcomes]

    def add(self, record: Record) -> Run:
        """Each in its order; the run that it belongs to."""
        now, name = moment(record["time"]), str(record.get("fleet", record["run"]))
        run = self.runs.setdefault(name, Run(run=name, began=now, ended=now))
        run.ended, run.many = max(run.ended, now), run.many or "fleet" in record
        text = record.get("task") or ""
        task = self.tasks.setdefault(text, Task(task=text)) if text else Task()
        for story in (self, run, task):
            story.records.append(record)
            if record["kind"] == "stage" and record.get("did") != "start":
                story.spent.pay(record)
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
        case "commit", _ if own:  # of an old journal
            task.commit = record.get("commit")
        case "task", "start":
            run.begin("begins", record)
            task.outcome = "open"
        case "work", "done":
            run.begin("waits to land", {**record, "worker": -(record.get("worker") or 0)})
        case ("run", "end") | ("work" | "task", _):
            run.workers.pop(record.get("worker") or 0, None)
    if (kind, did) == ("run", "end") and own:
        run.exit = record.get("exit")
    if kind == "task" and did != "start" and own:
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
