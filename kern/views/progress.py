"""What a run under way looks like: events folded into one value, and its few lines. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from kern import events, plain
from kern.agents import protocol
from kern.events import Event
from kern.frozen import frozen
from kern.journal import words
from kern.model import Act, Outcome, Request

STOP = "Ctrl-C ends it now, kern stop after this stage; kern goes on from there"
STOP_PLAN = "Ctrl-C ends it now; SPEC.md stays as it is"
KEYS = ("p pause · s stop after this stage · q end now · ? keys", "p pause · s stop · q now · ?")
STOPS = (
    "stops after this stage · p takes it back · q end now · ? keys",
    "stops after this stage · p takes it back",
    "stops after this",
)
KEYS_SAID = """\
p  pause after this stage; again: go on
s  stop after this stage (p takes it back)
q  end now, as Ctrl-C: the next kern goes on from there
?  this list"""
SILENT_S = 120  # from here on silence is said
_CALLS = 4  # shown
_RECENT = 8  # messages that may still come in further parts


@frozen
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


@frozen
class Seen:
    """How the person looks at it."""

    width: int = 80  # columns
    ran: float = 0.0  # seconds since the run began
    clock: str = ""  # the time of day
    keys: bool = False  # whether kern reads the terminal's keys


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
            return replace(so_far, stops=event.asked is Request.STOP and not event.late)
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
    """For a terminal, redrawn: what is at work, its last calls, where the run stands, the keys.
    Where there is little room the least important is left out first.
    """
    return (
        _head(now, seconds, seen.width),
        *(f"  {call}" for call in now.calls),
        fitting(_figures(now, seen, silent), seen.width),
        _keys(now, seen),
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


def _keys(now: Progress, seen: Seen) -> str:
    if seen.keys:
        offered = STOPS if now.stops else KEYS
        return next((one for one in offered if len(one) <= seen.width), offered[-1])
    how = STOP if now.number else STOP_PLAN
    return how if len(how) <= seen.width else how.partition(",")[0].partition(";")[0]


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
