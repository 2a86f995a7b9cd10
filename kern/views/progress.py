"""What a run under way looks like: events folded into one value, and its few lines. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kern import events, plain
from kern.events import Event
from kern.journal import words
from kern.model import Act, Outcome

STOP = "Ctrl-C ends it now, kern stop after this stage; the next kern goes on from there"
STOP_PLAN = "Ctrl-C ends it now; SPEC.md stays as it is"
SILENT_S = 120  # from here on silence is said
_CALLS = 4  # shown
_RECENT = 8  # messages that may still come in further parts


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


def after(so_far: Progress, event: Event) -> Progress:
    match event:
        case events.RunStarted():
            most = min(event.iterations, event.open_tasks)
            return Progress(root=event.root, tasks=most)
        case events.TaskStarted():
            return replace(so_far, task=event.task, number=event.iteration)
        case events.StageStarted():
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            model = plain.line(event.model, 40)
            begun = replace(so_far, task=event.task)
            return _begun(begun, words.stage(event.stage), f" ({model}{again})")
        case events.GateStarted() | events.ProbeStarted():
            return _begun(so_far, plain.line(event.name, 60))
        case events.Acted():
            return _acted(so_far, event.act)
        case events.StageFinished() | events.StageFailed():
            cost = so_far.cost_usd + (event.cost_usd or 0)
            return replace(so_far, work="", cost_usd=cost)
        case events.GateEnded():
            return replace(so_far, work="")
        case events.TaskSettled():
            if event.outcome is Outcome.DONE:
                return replace(so_far, done=so_far.done + 1)
            lost = event.outcome in (Outcome.SKIPPED, Outcome.BLOCKED, Outcome.ASKED)
            return replace(so_far, unsettled=so_far.unsettled + lost)
        case _:
            return so_far


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


def lines(now: Progress, seconds: float, silent: float) -> Sequence[str]:
    """For a terminal, redrawn: what is at work, its last calls, where the run stands."""
    task = plain.line(now.task, 100)
    return (
        f"{now.work}{now.how}  {clock(seconds)}  {task}".rstrip(),
        *(f"  {call}" for call in now.calls),
        " · ".join((*_figures(now), *_standing(now), *_silence(silent))),
        STOP if now.number else STOP_PLAN,
    )


def beat(now: Progress, seconds: float, silent: float) -> str:
    """For a pipe: one line that says it is alive."""
    last = [f"last: {now.calls[-1]}"] if now.calls else []
    return ", ".join(
        (f"{now.work}{now.how}: {clock(seconds)}", *_figures(now), *_silence(silent), *last)
    )


def _figures(now: Progress) -> list[str]:
    calls = [plain.count(now.count, "call")] if now.count else []
    return [*calls, f"{words.short(now.tokens)} tokens"] if now.tokens else calls


def _standing(now: Progress) -> list[str]:
    lost = [f"{now.unsettled} need you"] if now.unsettled else []
    cost = [f"${now.cost_usd:.2f} before this stage"] if now.cost_usd else []
    if not now.number:  # a planner before any task
        return cost
    return [f"task {now.number} of {max(now.tasks, now.number)}", f"{now.done} done", *lost, *cost]


def _silence(silent: float) -> list[str]:
    return [f"no sign of life for {clock(silent)}"] if silent >= SILENT_S else []


def clock(seconds: float) -> str:
    """`4:07`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
