"""What many at once look like: the workers' records folded into one value. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kern.events import Outage
from kern.journal import sentences, totals
from kern.model import Cost, Outcome, Stage

Record = Mapping[str, Any]
GATES, BEGINS, FAILED = "gates", "begins", "stage failed"
LIMITED = "usage limit"
AWAY = "the API is away"


@dataclass(frozen=True, slots=True)
class Lane:
    worker: int  # 1 and up
    task: str = ""  # empty: it is idle
    doing: str = ""  # the stage or what else is under way
    since: float = 0.0  # epoch seconds
    calls: tuple[str, ...] = ()  # the last ones of the stage
    count: int = 0  # of all its calls


@dataclass(frozen=True, slots=True)
class Picture:
    lanes: tuple[Lane, ...] = ()
    queue: tuple[str, ...] = ()  # tasks that are finished and wait to land
    lying: str = ""  # why finished tasks cannot land
    landing: str = ""  # what is checked or landed just now
    since: float = 0.0  # when that began, epoch seconds
    tasks: int = 0  # that this run can take
    done: int = 0  # that have landed
    needs: int = 0  # that need a person
    cost: Cost = field(default_factory=lambda: Cost(0.0))
    tokens: int = 0
    max_cost: float = 0.0  # US dollars, of all workers together; 0: no bound
    expected: float = 0.0  # seconds that one worker would take; 0: not known
    away: bool = False  # the API, as workers tell
    held: str = ""  # why nothing new begins: a limit, asked to stop

    def lane(self, worker: int) -> Lane:
        return next((one for one in self.lanes if one.worker == worker), Lane(worker))

    def having(self, lane: Lane) -> "Picture":
        """With this lane in place of the worker's."""
        others = [one for one in self.lanes if one.worker != lane.worker]
        return replace(self, lanes=tuple(sorted([*others, lane], key=lambda one: one.worker)))


def after(so_far: Picture, record: Record, now: float) -> Picture:
    """`now`, epoch seconds, is when the record came."""
    if record["kind"] == "stage" and record.get("did") in ("end", "failed"):
        used = record.get("tokens")
        tokens = sum(used.values()) if isinstance(used, dict) else 0
        paid = so_far.cost + Cost.of([record.get("cost_usd")])
        so_far = replace(so_far, cost=paid, tokens=so_far.tokens + tokens)
    if record["kind"] == "outage":
        so_far = replace(so_far, away=record.get("did") != "over")
    lane = so_far.lane(int(record.get("worker") or 0))
    if not (now_does := doing(record)):
        return so_far
    attempt = int(record.get("attempt") or 1) if record.get("did") == "start" else 1
    again = f", attempt {attempt}" if attempt > 1 else ""
    return so_far.having(replace(lane, doing=f"{now_does}{again}", since=now))


def doing(record: Record) -> str:
    """What a worker does from its record on; empty where that stays what it was, or where the next
    stage, or its end, follows at once.
    """
    match record["kind"], record.get("did"):
        case "stage", "start":
            return sentences.format_stage(str(record.get("stage")))
        case "stage", "failed":
            return FAILED
        case "stage", "end" if record.get("stage") == Stage.IMPLEMENT:
            return GATES
        case "limit", _:
            return LIMITED
        case "outage", "away" | "still away":
            return AWAY
        case _:
            return ""


def outage(record: Record) -> Outage:
    """As a worker tells of it."""
    since, until, seconds = (float(record.get(name) or 0) for name in totals.SPAN)
    away = record.get("did") != "over"
    return Outage(str(record.get("text")), since, until, seconds, int(away))


@dataclass
class Board:
    """The picture of a run, as it changes. `at`: epoch seconds."""

    now: Picture = field(default_factory=Picture)

    def begin(self, worker: int, task: str, at: float) -> None:
        self.now = self.now.having(Lane(worker, task, BEGINS, at))

    def idle(self, worker: int) -> None:
        self.now = self.now.having(Lane(worker))

    def read(self, record: Record, at: float) -> list[Outage]:
        """What is told of it: each worker waits by itself for an API that is away."""
        before, self.now = self.now.away, after(self.now, record, at)
        return [outage(record)] if self.now.away != before else []

    def land(self, task: str, at: float) -> None:
        self.now = replace(self.now, landing=task, since=at)

    def settle(self, outcome: Outcome) -> None:
        needs = outcome in (Outcome.SKIPPED, Outcome.BLOCKED, Outcome.ASKED)
        done = self.now.done + (outcome is Outcome.DONE)
        self.now = replace(self.now, done=done, needs=self.now.needs + needs)

    def shown(self, queue: Iterable[str], lying: Iterable[str], *, stops: bool) -> Picture:
        held, why = "stops after these stages" if stops else "", next(iter(lying), "")
        return replace(self.now, queue=tuple(queue), lying=why, held=held)
