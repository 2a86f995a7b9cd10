"""What happened, as frozen values. A `Sink` is a callable that takes one; it decides nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kern.model import Act, Cost, Need, Outcome, Question, Result, Role


class Event:
    """What any of them is. `KEPT`: its kind in the journal, and which values that keeps, where it
    names them otherwise `theirs=ours`; empty: it is seen live, and no more.
    """

    __slots__ = ()
    KEPT: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    KEPT: ClassVar[str] = "run did:start run root iterations payer open=open_tasks models"
    run: str
    root: str
    branch: str
    folder: str  # where the stage files are
    commands: tuple[str, ...]  # what the repository makes kern run
    payer: str  # which credential the agent will use, as far as that can be known
    open_tasks: int
    iterations: int
    forecast: str = ""  # what it may cost and take, in words
    expected: float = 0.0  # seconds that it may take; 0: not known
    max_cost: float = 0.0  # US dollars that it may cost; 0: no bound
    until: float = 0.0  # epoch seconds from which nothing is begun; 0: no bound
    lands: str = ""  # where its commits go, in words
    models: Mapping[Role, str] = field(default_factory=dict)  # each with its effort
    yours: str = ""  # what a person has not committed, in words
    sandbox: str = ""  # what holds agents and gates, in words
    awake: str = ""  # what keeps the machine so


@dataclass(frozen=True, slots=True)
class TaskStarted(Event):
    KEPT: ClassVar[str] = "task did:start task iteration resumed"
    task: str
    iteration: int
    resumed: str = ""  # at which step, where an earlier run left it


@dataclass(frozen=True, slots=True)
class StageStarted(Event):
    KEPT: ClassVar[str] = "stage did:start task stage model attempt agent mode"
    stage: Role
    task: str
    model: str
    attempt: int
    mode: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Acted(Event):
    """The agent at work, as far as its live output shows it."""

    stage: Role
    act: Act


@dataclass(frozen=True, slots=True)
class StageFinished(Event):
    KEPT: ClassVar[str] = (
        "stage did:end task stage model attempt agent cost_usd tokens "
        "turns session denied effort version sent_back seconds"
    )
    stage: Role
    task: str
    text: str  # the agent's answer
    seconds: float
    cost_usd: float | None
    denied: tuple[str, ...] = ()
    attempt: int = 1
    model: str = ""
    session: str = ""  # the agent's own id
    turns: int | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)  # by kind, as the agent counts them
    effort: str = ""  # as pinned; empty: what the agent's CLI took by itself
    version: str = ""  # of that CLI
    sent_back: int = 0  # how often a red gate let it not end yet
    agent: str = ""


@dataclass(frozen=True, slots=True)
class StageFailed(Event):
    """A call that came to nothing, and may be made again; it can have cost all the same."""

    KEPT: ClassVar[str] = (
        "stage did:failed task stage model attempt agent reason cost_usd tokens seconds"
    )
    stage: Role
    task: str
    reason: str
    seconds: float
    cost_usd: float | None
    attempt: int
    model: str = ""
    agent: str = ""
    tokens: Mapping[str, int] = field(default_factory=dict)  # as far as its output tells


@dataclass(frozen=True, slots=True)
class StageRetried(Event):
    KEPT: ClassVar[str] = "retry stage reason try=attempt wait=wait_seconds"
    stage: Role
    reason: str
    attempt: int  # which try has failed
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class StoodIn(Event):
    """Another agent takes a stage over, from its beginning."""

    KEPT: ClassVar[str] = "stand-in stage agent reason instead_of until"
    stage: Role
    agent: str
    instead_of: str  # which rests
    until: float  # epoch seconds
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptNoted(Event):
    KEPT: ClassVar[str] = "attempt task reason ref cause attempt=number"
    task: str
    number: int
    reason: str
    ref: str
    cause: str = ""  # what it failed over, in a word: model.Cause


@dataclass(frozen=True, slots=True)
class QuestionNoted(Event):
    """A task waits for a person's answer."""

    KEPT: ClassVar[str] = "question task stage ref text=question"
    task: str
    stage: Role
    question: str
    ref: str  # where the work so far is kept; empty where there is none


@dataclass(frozen=True, slots=True)
class TaskSettled(Event):
    KEPT: ClassVar[str] = "task did=outcome task detail proved"
    task: str
    outcome: Outcome
    detail: str  # the commit, or the reason
    commit: str = ""  # its full hash
    proved: str = ""  # what stands behind it


@dataclass(frozen=True, slots=True)
class Learned(Event):
    """An entry of LEARNINGS.md."""

    KEPT: ClassVar[str] = "learning task text"
    task: str
    text: str


@dataclass(frozen=True, slots=True)
class Recalled(Event):
    """What a stage is told of LEARNINGS.md."""

    KEPT: ClassVar[str] = "recall task stage told left irrelevant size"
    stage: Role
    task: str
    told: Mapping[str, str]  # by an entry's id why it
    left: Mapping[str, str]  # entries that would have served, and why they are not told
    irrelevant: int  # how many the task does not call for
    size: int  # tokens of what is told


@dataclass(frozen=True, slots=True)
class Voted(Event):
    """What a task says of an entry of LEARNINGS.md."""

    KEPT: ClassVar[str] = "vote task entry helpful reason=why"
    task: str
    entry: str  # its id
    helpful: bool
    why: str


@dataclass(frozen=True, slots=True)
class Planned(Event):
    """What a planner answered, and kern took into SPEC.md."""

    KEPT: ClassVar[str] = "plan added=tasks done"
    tasks: tuple[str, ...]  # new ones
    done: str  # why nothing is missing


@dataclass(frozen=True, slots=True)
class GateStarted(Event):
    name: str
    command: str
    before: bool = False  # the baseline, before the task's change


@dataclass(frozen=True, slots=True)
class GateEnded(Event):
    KEPT: ClassVar[str] = "gate"
    result: Result
    before: bool = False


@dataclass(frozen=True, slots=True)
class ProbeStarted(Event):
    """A command that tells a stage how things stand."""

    name: str
    command: str


@dataclass(frozen=True, slots=True)
class LimitReset(Event):
    """A usage limit's wait begins."""

    KEPT: ClassVar[str] = "limit text until"
    text: str
    seconds: float
    until: float  # epoch seconds


@dataclass(frozen=True, slots=True)
class Outage(Event):
    """A wait for an API that is away begins, or it answers again."""

    KEPT: ClassVar[str] = "outage text since until seconds"
    text: str
    since: float  # epoch seconds
    until: float  # when it is asked again, or was and answered
    seconds: float  # of this wait
    number: int  # of the waits, from 1; 0: it is over


@dataclass(frozen=True, slots=True)
class Steered(Event):
    """A person asked the run to stop: from another terminal, or beforehand by --until."""

    KEPT: ClassVar[str] = "request did:stop"
    at_once: bool  # nothing is under way: it ends here
    late: bool = False  # the time of --until has come


@dataclass(frozen=True, slots=True)
class Warned(Event):
    text: str
    kept: bool = False  # for the morning: in summary, report and journal


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """A task went to a worker whose own records come later: with the task from another machine, or
    once its worktree is set up.
    """

    KEPT: ClassVar[str] = "sent task worker where stage"
    task: str
    worker: int
    where: str = ""  # which machine has it; empty: it is not known yet
    stage: str = ""  # that is in progress there, as far as that is known


@dataclass(frozen=True, slots=True)
class Traced(Event):
    """A debug line, shown with -v."""

    text: str


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    seconds: float


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    KEPT: ClassVar[str] = "run did:end exit=exit_code seconds open=open_tasks"
    done: tuple[tuple[str, str, str], ...]  # (task, commit, what proved it)
    needs_help: tuple[tuple[str, str], ...]  # (task, why)
    stuck: tuple[tuple[str, str], ...]  # open tasks that wait, where none is ready
    open_tasks: int | None  # no parents; None where SPEC.md cannot be read any more
    seconds: float
    cost: Cost
    interrupted: str  # what ended the run early
    exit_code: int
    stopped: str = ""  # where the next run goes on, if a person asked for the end
    until: bool = False  # by --until
    commits: tuple[str, ...] = ()  # full hashes, one for each of `done`
    questions: tuple[Question, ...] = ()  # that wait for an answer
    tokens: int = 0  # of all stages
    needs: tuple[Need, ...] = ()  # the tasks that a person can help on, each once
    held: tuple[Need, ...] = ()  # those that a person holds
    called: str = "kern"  # what the next run is begun with
    night: Sequence[Mapping[str, Any]] = ()  # the journal's records since the evening's first run


Sink = Callable[[Event], None]
