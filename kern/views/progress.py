"""What a run under way looks like, in words: one task after the other is a lane of the same picture
that many at once have. Pure.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kern import events, plain
from kern.events import Event
from kern.fleet import lanes
from kern.fleet.lanes import Lane, Picture
from kern.journal import words
from kern.model import Cost, Outcome

STOP = "Ctrl-C ends it now, kern stop after this stage; kern goes on from there"
STOPS = "stops after this stage"
SILENT_S = 120  # from here on silence is said
_CALLS = 4  # shown
_FOR_YOU = (Outcome.SKIPPED, Outcome.BLOCKED, Outcome.ASKED)


def after(now: Picture, event: Event, at: float) -> Picture:
    """Of one task after the other. `at`: epoch seconds."""
    for record in words.of(event):
        now = lanes.after(now, {**record, "worker": 1}, at)
    lane = now.lane(1)
    match event:
        case events.RunStarted():
            tasks = min(event.iterations, event.open_tasks)
            return Picture(tasks=tasks, max_cost=event.max_cost, expected=event.expected)
        case events.TaskStarted():
            return now.having(Lane(1, event.task, lanes.BEGINS, at))
        case events.StageStarted():
            return now.having(replace(lane, task=event.task, calls=(), count=0))
        case events.GateStarted() | events.ProbeStarted():
            name = plain.line(event.name, 60)
            return now.having(Lane(1, lane.task, name, at))
        case events.Acted():
            calls = (*lane.calls, *(plain.line(call, 200) for call in event.act.calls))
            count = lane.count + len(event.act.calls)
            return now.having(replace(lane, calls=calls[-_CALLS:], count=count))
        case events.TaskSettled():
            done, needs = event.outcome is Outcome.DONE, event.outcome in _FOR_YOU
            return replace(now, done=now.done + done, needs=now.needs + needs).having(Lane(1))
        case events.Steered():
            return replace(now, held=STOPS)
    return now


def figures(now: Picture, ran: float, silent: float = 0.0) -> str:
    """What matters most comes first. `ran`: seconds since the run began; `silent`: those since the
    agent's last sign of life.
    """
    most = f" of ${now.max_cost:.2f}" if now.max_cost else ""
    cost = f"${now.cost.usd or 0:.2f}{most}" if now.cost.known is not None else "cost unknown"
    of = f" of about {plain.span(now.expected)}" if now.expected else ""
    shown = [
        now.held,
        quiet(silent),
        cost if now.max_cost or now.cost != Cost(0.0) else "",
        f"{now.needs} need you" if now.needs else "",
        f"{now.done} of {max(now.tasks, now.done)} done" if now.tasks else "",
        f"{clock(ran)}{of}",
        f"{words.short(now.tokens)} tokens" if now.tokens else "",
    ]
    return " · ".join(filter(None, shown))


def landing(now: Picture, at: float) -> list[str]:
    """What lands of the finished tasks, and what waits."""
    if now.landing:
        return [f"landing for {clock(at - now.since)}: {plain.line(now.landing)}"]
    if not now.queue:
        return []
    why = f": {now.lying}" if now.lying else ""
    first = f"{plain.count(len(now.queue), 'finished task')} to land{why}: "
    return [plain.line(first + "; ".join(now.queue), 600)]


def beats(now: Picture, at: float, silent: float = 0.0) -> list[str]:
    """For a pipe: a line for each at work that says it is alive."""
    return [", ".join(filter(None, (_beat(now, lane, at), quiet(silent)))) for lane in at_work(now)]


def at_work(now: Picture) -> list[Lane]:
    return [lane for lane in now.lanes if lane.doing]


def _beat(now: Picture, lane: Lane, at: float) -> str:
    worker = f"{lane.worker}  " if len(now.lanes) > 1 else ""
    calls = f", {plain.count(lane.count, 'call')}, last: {lane.calls[-1]}" if lane.calls else ""
    return f"{worker}{lane.doing} for {clock(at - lane.since)}{calls}"


def quiet(seconds: float) -> str:
    return f"no sign of life for {clock(seconds)}" if seconds >= SILENT_S else ""


def clock(seconds: float) -> str:
    """`4:07`, `1:02:03`."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def tells(record: Mapping[str, Any]) -> bool:
    """Whether a worker's record is said as it comes. How its task or its kern has ended without a
    commit, the run itself says.
    """
    match record["kind"], record.get("did"):
        case ("task", "start") | ("stage", "end") | ("attempt" | "retry" | "stand-in", _):
            return True
        case "work", _:
            return bool(record.get("commit"))
        case "gate", _:
            return bool(record.get("flaky") or (record.get("red") and record.get("task")))
    return False
