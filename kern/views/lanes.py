"""Many at once on a terminal: a line for each worker, one for what lands, one for the run. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from kern import plain
from kern.fleet.lanes import Lane, Picture
from kern.journal import words
from kern.model import Cost
from kern.views.progress import KEYS, STOP, Seen, clock, fitting

_MOST = 16  # lanes that are shown
NAMED = 40  # characters of a task that has been told of before
_TOLD = ("task", "attempt", "retry", "stand-in")  # kinds of records


def lines(now: Picture, seen: Seen, time: float) -> Sequence[str]:
    """Redrawn; `time` in epoch seconds."""
    at_work = [lane for lane in now.lanes if lane.task]
    wide = len(str(max((lane.worker for lane in now.lanes), default=1)))
    shown = [_lane(lane, wide, seen.width, time) for lane in now.lanes[:_MOST]]
    more = len(at_work) - sum(bool(lane.task) for lane in now.lanes[:_MOST])
    return (
        *shown,
        *([f"and {plain.count(more, 'worker')} more at work"] if more > 0 else []),
        _queue(now, seen.width, time),
        fitting(_figures(now, seen), seen.width),
        _keys(seen),
    )


def _lane(lane: Lane, wide: int, width: int, time: float) -> str:
    number = f"{lane.worker:>{wide}}"
    if not lane.task:
        return f"{number}  idle"
    doing = lane.doing if width >= 60 else words.bare(lane.doing)
    head = f"{number}  {doing}  {clock(max(time - lane.since, 0))}  "
    return f"{head}{plain.line(lane.task, max(width - len(head), 8))}"


def _queue(now: Picture, width: int, time: float) -> str:
    if now.landing:
        rest = f", then {len(now.queue) - 1} more" if len(now.queue) > 1 else ""
        head = f"landing  {clock(max(time - now.since, 0))}  "
        return f"{head}{plain.line(now.landing, max(width - len(head) - len(rest), 8))}{rest}"
    if now.queue:
        head = f"{plain.count(len(now.queue), 'finished task')} to land: "
        head += f"{now.lying}: " * bool(now.lying)
        return plain.line(head + "; ".join(now.queue), width)
    return "nothing waits to land"


def _figures(now: Picture, seen: Seen) -> list[tuple[int, str]]:
    """Each with its weight: the lightest goes first."""
    most = f" of ${now.max_cost:.2f}" if now.max_cost else ""
    cost = f"${now.cost.usd or 0:.2f}{most}" if now.cost.known is not None else "cost unknown"
    return [
        *([(9, now.held)] if now.held else []),
        *([(3, seen.clock)] if seen.clock else []),
        *([(7, clock(seen.ran))] if seen.ran else []),
        *([(8, cost)] if now.cost != Cost(0.0) or now.max_cost else []),
        (6, f"{now.done} of {max(now.tasks, now.done)} landed"),
        *([(5, f"{now.needs} need you")] if now.needs else []),
        *([(1, f"{words.short(now.tokens)} tokens")] if now.tokens else []),
    ]


def _keys(seen: Seen) -> str:
    if seen.keys:
        return next((one for one in KEYS if len(one) <= seen.width), KEYS[-1])
    return STOP if len(STOP) <= seen.width else STOP.partition(",")[0]


def told(record: Mapping[str, Any]) -> list[str]:
    """What is said of a worker's record as it comes; nothing of most. How its task or its kern has
    ended without a commit, the run itself says.
    """
    kind, did = record["kind"], record.get("did")
    ended = (kind == "stage" and did == "end") or (kind == "work" and record.get("commit"))
    red = kind == "gate" and record.get("red") and record.get("task")
    if not (kind in _TOLD or ended or red) or (kind == "task" and did != "start"):
        return []
    first, *_ = words.said(record)
    task = plain.line(str(record.get("task") or ""), NAMED)
    named = "" if kind == "task" or not task else f"  ({task})"
    return [f"{record.get('worker')}  {first.strip()}{named}"]
