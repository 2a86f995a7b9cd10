"""What a run under way looks like: events folded into one value, and its few lines; of many at
once, a line for each worker. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kern import events, plain
from kern.agents import protocol
from kern.events import Event
from kern.fleet.lanes import Lane, Picture
from kern.journal import words
from kern.model import Act, Cost, Outcome

STOP = "Ctrl-C ends it now, kern stop after this stage; kern goes on from there"
STOP_PLAN = "Ctrl-C ends it now; SPEC.md stays as it is"
STOPS = "stops after this stage; Ctrl-C ends it now"
SILENT_S = 120  # from here on silence is said
_CALLS = 4  # shown
_RECENT = 8  # messages that may still come in further parts
_MOST_LANES = 16
NAMED = 40  # characters of a task that has been told of before
_TOLD = ("task", "attempt", "retry", "stand-in")  # kinds of records


@dataclass(frozen=True, slots=True)
class Progress:
    root: str = ""
    task: str = ""
    number: int = 0  # of the task in this run
    tasks: int = 0  # that this run can take
    done: int = 0
    unsettled: int = 0  # skipped, blocked or asked
    work: str = ""  # the stage or gate under way; empty between them
    how: str = ""  # its model and attempt
    calls: tuple[str, ...] = ()  # the last ones of the stage
    count: int = 0  # of all its calls
    tokens: int = 0  # of the stage, as far as its live output tells
    recent: tuple[tuple[str, int], ...] = ()  # message ids with what each added to `tokens`
    cost_usd: float = 0.0  # of the run's finished stages
    max_cost: float = 0.0  # that the run may cost; 0: no bound
    expected: float = 0.0  # seconds that it may take; 0: not known
    stops: bool = False  # a person asked for it


@dataclass(frozen=True, slots=True)
class Seen:
    """How the person looks at it."""

    width: int = 80  # columns
    ran: float = 0.0  # seconds since the run began
    clock: str = ""  # the time of day


WIDE = Seen()


def after(so_far: Progress, event: Event) -> Progress:
    match event:
        case events.RunStarted():
            most = min(event.iterations, event.open_tasks)
            begun = Progress(root=event.root, tasks=most)
            return replace(begun, max_cost=event.max_cost, expected=event.expected)
        case events.TaskStarted():
            return replace(so_far, task=event.task, number=event.iteration)
        case events.StageStarted():
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            begun = replace(so_far, task=event.task)
            return _begun(begun, words.stage(event.stage), f" ({_who(event)}{again})")
        case events.GateStarted() | events.ProbeStarted():
            return _begun(so_far, plain.line(event.name, 60))
        case events.Acted():
            return _acted(so_far, event.act)
        case events.StageFinished() | events.StageFailed():
            cost = so_far.cost_usd + (event.cost_usd or 0)
            return replace(so_far, work="", how="", cost_usd=cost)
        case events.StageRetried():
            return _begun(so_far, f"waiting to try {event.stage} again")
        case events.GateEnded():
            return replace(so_far, work="")
        case events.TaskSettled():
            if event.outcome is Outcome.DONE:
                return replace(so_far, done=so_far.done + 1)
            lost = event.outcome in (Outcome.SKIPPED, Outcome.BLOCKED, Outcome.ASKED)
            return replace(so_far, unsettled=so_far.unsettled + lost)
        case events.Steered():
            return replace(so_far, stops=True)
        case _:
            return so_far


def _who(event: events.StageStarted) -> str:
    """The model, and the agent unless it is the usual one."""
    agent = event.agent if event.agent != protocol.DEFAULT else ""
    return plain.line(" ".join(filter(None, (agent, event.model))) or event.agent, 40)


def _begun(so_far: Progress, work: str, how: str = "") -> Progress:
    return replace(so_far, work=work, how=how, calls=(), count=0, tokens=0, recent=())


def _acted(so_far: Progress, act: Act) -> Progress:
    new = sum(act.tokens.values())
    known = dict(so_far.recent)
    recent = (*((i, n) for i, n in so_far.recent if i != act.message), (act.message, new))
    shown = (plain.line(_within(so_far.root, call), 200) for call in act.calls)
    return replace(
        so_far,
        calls=(*so_far.calls, *shown)[-_CALLS:],
        count=so_far.count + len(act.calls),
        tokens=so_far.tokens + new - known.get(act.message, 0),
        recent=recent[-_RECENT:],
    )


def _within(root: str, call: str) -> str:
    """Files of the repository by their names in it."""
    return call.replace(f"{root}/", "") if root else call


def lines(now: Progress, seconds: float, silent: float, seen: Seen = WIDE) -> Sequence[str]:
    """For a terminal, redrawn: what is at work, its last calls, where the run stands, what ends it.
    Where there is little room the least important is left out first.
    """
    return (
        _head(now, seconds, seen.width),
        *(f"  {call}" for call in now.calls),
        fitting(_figures(now, seen, silent), seen.width),
        _ending(STOPS if now.stops else STOP if now.number else STOP_PLAN, seen.width),
    )


def _head(now: Progress, seconds: float, width: int) -> str:
    labels = (f"{now.work}{now.how}", now.work, now.work.rpartition(" ")[2])
    room = width - len(clock(seconds)) - 4 - min(len(now.task), 12)
    label = next((one for one in labels if len(one) <= room), labels[-1])
    return f"{label}  {clock(seconds)}  {plain.line(now.task, 100)}".rstrip()


def _figures(now: Progress, seen: Seen, silent: float) -> list[tuple[int, str]]:
    """Each with its weight: the lightest goes first."""
    of = f" of about {plain.span(now.expected)}" if now.expected else " in all"
    ran = [(7, f"{clock(seen.ran)}{of}")] if seen.ran else []
    most = f" of ${now.max_cost:.2f}" if now.max_cost else ""
    cost = [(8, f"${now.cost_usd:.2f}{most}")] if now.cost_usd or now.max_cost else []
    standing = [
        (5, f"task {now.number} of {max(now.tasks, now.number)}"),
        (4, f"{now.done} done"),
        *([(6, f"{now.unsettled} need you")] if now.unsettled else []),
    ]
    return [
        *[(9, text) for text in _silence(silent)],
        *([(3, seen.clock)] if seen.clock else []),
        *ran,
        *cost,
        *(standing if now.number else []),  # a planner stands before any task
        *([(2, plain.count(now.count, "call"))] if now.count else []),
        *([(1, f"{words.short(now.tokens)} tokens")] if now.tokens else []),
    ]


def fitting(weighed: Sequence[tuple[int, str]], width: int) -> str:
    """The texts in one line, without the lightest where they do not all fit."""
    left = list(weighed)
    while len(left) > 1 and len(" · ".join(text for _, text in left)) > width:
        left.remove(min(left))
    return " · ".join(text for _, text in left)


def _ending(how: str, width: int) -> str:
    return how if len(how) <= width else how.partition(",")[0].partition(";")[0]


def beat(now: Progress, seconds: float, silent: float) -> str:
    """For a pipe: one line that says it is alive."""
    last = [f"last: {now.calls[-1]}"] if now.calls else []
    calls = [plain.count(now.count, "call")] if now.count else []
    used = [f"{words.short(now.tokens)} tokens"] if now.tokens else []
    return ", ".join(
        (f"{now.work}{now.how}: {clock(seconds)}", *calls, *used, *_silence(silent), *last)
    )


def _silence(silent: float) -> list[str]:
    return [f"no sign of life for {clock(silent)}"] if silent >= SILENT_S else []


def clock(seconds: float) -> str:
    """`4:07`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# -------------------------------------------------------------------- many at once


def lanes(now: Picture, seen: Seen, time: float) -> Sequence[str]:
    """For a terminal, redrawn: a line for each worker, one for what lands, one for the run.
    `time`: in epoch seconds.
    """
    at_work = [lane for lane in now.lanes if lane.task]
    wide = len(str(max((lane.worker for lane in now.lanes), default=1)))
    shown = [_lane(lane, wide, seen.width, time) for lane in now.lanes[:_MOST_LANES]]
    more = len(at_work) - sum(bool(lane.task) for lane in now.lanes[:_MOST_LANES])
    return (
        *shown,
        *([f"and {plain.count(more, 'worker')} more at work"] if more > 0 else []),
        _queue(now, seen.width, time),
        fitting(_of_all(now, seen), seen.width),
        _ending(STOP, seen.width),
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


def _of_all(now: Picture, seen: Seen) -> list[tuple[int, str]]:
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


def told(record: Mapping[str, Any]) -> list[str]:
    """What is said of a worker's record as it comes; nothing of most. How its task or its kern has
    ended without a commit, the run itself says.
    """
    kind, did = record["kind"], record.get("did")
    ended = (kind == "stage" and did == "end") or (kind == "work" and record.get("commit"))
    red = kind == "gate" and record.get("red") and record.get("task")
    if not (kind in _TOLD or ended or red or record.get("flaky")) or (
        kind == "task" and did != "start"
    ):
        return []
    first, *_ = words.said(record)
    task = plain.line(str(record.get("task") or ""), NAMED)
    named = "" if kind == "task" or not task else f"  ({task})"
    return [f"{record.get('worker')}  {first.strip()}{named}"]
