"""What many at once look like: the workers' records folded into one value. Pure."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from kern.frozen import frozen
from kern.journal import words
from kern.model import Cost, Stage

Record = Mapping[str, Any]
GATES, BEGINS, FAILED, PAUSED = "gates", "begins", "stage failed", "paused"
LIMITED = "usage limit"
SENT = "sent"  # to another machine, which tells nothing yet


@frozen
class Lane:
    worker: int  # 1 and up
    task: str = ""  # empty: it is idle
    doing: str = ""  # the stage or what else is under way
    since: float = 0.0  # epoch seconds
    waits: bool = False  # for a usage limit's reset


@frozen
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
    held: str = ""  # why nothing new begins: paused, a limit, asked to stop

    def lane(self, worker: int) -> Lane:
        return next((one for one in self.lanes if one.worker == worker), Lane(worker))

    def having(self, lane: Lane) -> "Picture":
        """With this lane in place of the worker's."""
        others = [one for one in self.lanes if one.worker != lane.worker]
        return replace(self, lanes=tuple(sorted([*others, lane], key=lambda one: one.worker)))


def after(so_far: Picture, record: Record, now: float) -> Picture:
    """`now`, epoch seconds, is when the record came."""
    lane = so_far.lane(int(record.get("worker") or 0))
    match record["kind"], record.get("did"):
        case "stage", "start":
            name = words.stage(str(record.get("stage")))
            attempt = int(record.get("attempt") or 1)
            again = f", attempt {attempt}" if attempt > 1 else ""
            new = replace(lane, doing=f"{name}{again}", since=now, waits=False)
            return so_far.having(new)
        case "stage", "end" | "failed":
            used = record.get("tokens")
            tokens = sum(used.values()) if isinstance(used, dict) else 0
            paid = so_far.cost + Cost.of([record.get("cost_usd")])
            counted = replace(so_far, cost=paid, tokens=so_far.tokens + tokens)
            doing = behind(record)
            return counted.having(replace(lane, doing=doing, since=now)) if doing else counted
        case "request", "paused" if lane.doing != LIMITED:
            return so_far.having(replace(lane, doing=PAUSED, since=now))
        case "limit", _:
            return so_far.having(replace(lane, doing=LIMITED, since=now, waits=True))
        case _:
            return so_far


def behind(record: Record) -> str:
    """What a worker does once a stage has ended; empty where the next one, or its end, follows at
    once.
    """
    if record.get("did") == "failed":
        return FAILED
    return GATES if record.get("stage") == Stage.IMPLEMENT else ""


def elsewhere(where: str, stage: str) -> str:
    """What becomes of a task that another machine is to carry out, `where` that is known."""
    return words.stage(stage) or (BEGINS if where else SENT)
