"""What happened, as values: an event knows its fields, its lines in the journal and its sentence.

`journal/sentences.py` fills the sentence with the journal's record, so that a run and `kern log`
say the same, of an old journal too. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, dataclass_transform

from kern.model import Act, Cost, Need, Outcome, Question, Result, Role

Record = Mapping[str, Any]
_LONGEST = 4000  # characters of a text from outside
_MOST = 100  # of such texts in one value
# The sentence of each kind of record, with its values and the computed ones; a part in brackets
# only where there is the value.
SAYS: Mapping[str, str] = {
    "run start": "run begins on {branch}: {open} open, takes {iterations}[; billing: {payer}]",
    "run end": "run ends: {done} done[, {open} open], {span}[, exit {exit}]",
    "error": "ended early: {text}",
    "task start": "task: {task}[ (resumed: {resumed})]",
    "task": "{outcome}[: {detail}]",
    "commit": "  git show {commit:.7}",
    "work": "[finished as {commit:.7}; it is done when that has landed]",
    "sent": "sent to another machine",
    "stage start": "{name} ({who}[, attempt {again}])[, {split}]",
    "stage end": "{stage}[ took {took}][, {usd}][, {used} tokens][, sent back by red gates: {back}]"
    "[\n  refused: {denied}]",
    "stage failed": "{stage} failed[ after {took}]: {reason}",
    "retry": "{reason}: again in {wait} s",
    "stand-in": "{agent} takes the {stage} stage over from {instead_of}: {reason}",
    "gate": "  {gate}: green[, {took}][, flaky: {flaky}]",
    "gate red": "  {gate}: red ({how}[, {took}])[, {before}]",
    "attempt": "attempt {attempt} failed: {reason}[\n  its work: git show {ref}]",
    "recall": "{stage} is told: {lesson}[; left out {left}]",
    "question": "asks: {text}",  # of an old journal
    "vote": "learning {entry} was {opinion}: {reason}",
    "learning": "learned: {text}",
    "plan": "[new task: {added}]\n[nothing is missing: {done}]",
    "warning": "warning: {text}",
    "request": "asked to {did} (kern {did})",
}


@dataclass_transform(frozen_default=True)
class Event:
    """Any of them is a frozen dataclass. `keeps`: its kind in the journal and the values there;
    `theirs=ours` where it names one otherwise, `theirs:value` where that is always the same; empty:
    it is seen live, and no more.
    """

    keeps: ClassVar[str]

    def __init_subclass__(cls, keeps: str = "") -> None:
        dataclass(frozen=True)(cls)
        cls.keeps = keeps

    def records(self, *, worker: bool = False) -> list[dict[str, Any]]:
        """What the journal keeps of it. `worker`: of one of many, whose task is done when its
        commit has landed, which is not its own to say.
        """
        return [self.row()] if self.keeps else []

    def row(self, **more: Any) -> dict[str, Any]:
        kind, *names = self.keeps.split()
        row: dict[str, Any] = {"kind": kind}
        for name in names:
            theirs, same, value = name.partition(":")
            theirs, _, ours = theirs.partition("=")
            row[theirs] = value if same else _kept(getattr(self, ours or theirs))
        return row | more


def _kept(value: object) -> object:
    match value:
        case float():
            return round(value, 6)
        case str():
            return value[:_LONGEST]
        case tuple():
            return [_kept(one) for one in value[:_MOST]]
    return value


class RunStarted(Event, keeps="run did:start run root iterations payer open=open_tasks max_cost"):
    run: str
    root: str
    branch: str
    payer: str  # which credential the agent will use, as far as that can be known
    open_tasks: int
    iterations: int
    max_cost: float = 0.0  # US dollars that it may cost; 0: no bound
    facts: Mapping[str, str] = field(default_factory=dict)  # what a person sees first, by name
    lines: Sequence[str] = ()  # and what the repository makes kern run
    yours: str = ""  # what a person has not committed, in words


class TaskStarted(Event, keeps="task did:start task iteration resumed"):
    task: str
    iteration: int
    resumed: str = ""  # at which step, where an earlier run left it


class StageStarted(Event, keeps="stage did:start task stage model attempt agent mode"):
    stage: Role
    task: str
    model: str
    attempt: int
    agent: str = ""
    mode: str = ""
    effort: str = ""  # as pinned; empty: what the agent's CLI takes by itself


class Acted(Event):
    """The agent at work, as far as its live output shows it."""

    stage: Role
    act: Act


class StageEnded(
    Event,
    keeps="stage did task stage model attempt agent cost_usd tokens turns denied effort"
    " sent_back seconds reason",
):
    stage: Role
    task: str
    text: str  # the agent's answer
    seconds: float
    cost_usd: float | None
    denied: tuple[str, ...] = ()
    attempt: int = 1
    model: str = ""
    turns: int | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)  # by kind, as the agent counts them
    effort: str = ""
    sent_back: int = 0  # how often a red gate let it not end yet
    agent: str = ""
    reason: str = ""  # why it came to nothing; it may be made again, and can have cost all the same

    @property
    def did(self) -> str:
        return "failed" if self.reason else "end"


class StageRetried(Event, keeps="retry stage reason try=attempt wait=wait_seconds"):
    stage: Role
    reason: str
    attempt: int  # which try has failed
    wait_seconds: float


class StoodIn(Event, keeps="stand-in stage agent reason instead_of"):
    """Another agent takes a stage over, from its beginning."""

    stage: Role
    agent: str
    instead_of: str  # which rests
    reason: str


class AttemptNoted(Event, keeps="attempt task reason ref cause attempt=number"):
    task: str
    number: int
    reason: str
    ref: str
    cause: str = ""  # what it failed over, in a word: model.Cause


class TaskSettled(Event, keeps="task did=outcome task detail proved"):
    task: str
    outcome: Outcome
    detail: str  # the commit, or the reason
    commit: str = ""  # its full hash
    proved: str = ""  # what stands behind it

    def records(self, *, worker: bool = False) -> list[dict[str, Any]]:
        if worker:
            return [self.row(kind="work", commit=self.commit)]
        commit = {"kind": "commit", "task": self.task, "commit": self.commit}
        return [self.row(), *[commit] * bool(self.commit)]


class Learned(Event, keeps="learning task text"):
    """An entry of LEARNINGS.md."""

    task: str
    text: str


class Recalled(Event, keeps="recall task stage told left"):
    """What a stage is told of LEARNINGS.md."""

    stage: Role
    task: str
    told: Mapping[str, str]  # by an entry's id why it
    left: Mapping[str, str]  # entries that would have served, and why they are not told


class Voted(Event, keeps="vote task entry helpful reason=why"):
    """What a task says of an entry of LEARNINGS.md."""

    task: str
    entry: str  # its id
    helpful: bool
    why: str


class Planned(Event, keeps="plan added=tasks done"):
    """What a planner answered, and kern took into SPEC.md."""

    tasks: tuple[str, ...]  # new ones
    done: str  # why nothing is missing


class GateStarted(Event):
    name: str
    command: str
    before: bool = False  # the baseline, before the task's change


class GateEnded(Event):
    result: Result
    before: bool = False

    def records(self, *, worker: bool = False) -> list[dict[str, Any]]:
        """Before a task, it tells of the tree and of no task."""
        ended, names = self.result, ("code", "red", "red_before", "seconds")
        row = {"kind": "gate", "gate": ended.name} | {name: getattr(ended, name) for name in names}
        row |= {"output": ended.output[-_LONGEST:] * ended.red, "flaky": ended.flaky[:_LONGEST]}
        return [row | {"task": ""} if self.before else row]


class LimitReset(Event, keeps="limit text until"):
    """A usage limit's wait begins."""

    text: str
    until: float  # epoch seconds


class Outage(Event, keeps="outage text since until seconds"):
    """A wait for an API that is away begins, or it answers again."""

    text: str
    since: float  # epoch seconds
    until: float  # when it is asked again, or was and answered
    seconds: float  # of this wait
    number: int  # of the waits, from 1; 0: it is over

    def records(self, *, worker: bool = False) -> list[dict[str, Any]]:
        return [self.row(did=("over", "away", "still away")[min(self.number, 2)])]


class Steered(Event, keeps="request did:stop"):
    """A person asked the run to stop: from another terminal, or beforehand by --until."""

    at_once: bool  # nothing is under way: it ends here
    late: bool = False  # the time of --until has come


class Warned(Event, keeps="warning text"):
    text: str
    kept: bool = False  # for the morning: in summary, report and journal

    def records(self, *, worker: bool = False) -> list[dict[str, Any]]:
        return [self.row()] if self.kept else []


class Sent(Event, keeps="sent task worker"):
    """A task went to a worker whose own records come later, with the task."""

    task: str
    worker: int


class Traced(Event):
    """A line that is only seen; with -v, unless it is `plain`."""

    text: str
    plain: bool = False


class RunEnded(Event, keeps="run did:end exit=exit_code seconds open=open_tasks"):
    done: tuple[tuple[str, str], ...]  # (task, full hash of its commit)
    needs_help: tuple[tuple[str, str], ...]  # (task, why)
    stuck: tuple[tuple[str, str], ...]  # open tasks that wait, where none is ready
    open_tasks: int | None  # no parents; None where SPEC.md cannot be read any more
    seconds: float
    cost: Cost
    tokens: int
    interrupted: str  # what ended the run early
    exit_code: int
    stopped: str = ""  # where the next run goes on, if a person asked for the end
    until: bool = False  # by --until
    questions: tuple[Question, ...] = ()  # that wait for an answer
    needs: tuple[Need, ...] = ()  # the tasks that a person can help on, each once
    held: tuple[Need, ...] = ()  # those that a person holds
    called: str = "kern"  # what the next run is begun with
    night: Sequence[Mapping[str, Any]] = ()  # the journal's records since the evening's first run

    def records(self, *, worker: bool = False) -> list[dict[str, Any]]:
        early = {"kind": "error", "text": self.interrupted}
        return [*[early] * bool(self.interrupted), self.row(done=len(self.done))]


Sink = Callable[[Event], None]
