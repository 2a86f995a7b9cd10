"""An agent's output as it grows and once it has ended, and what its end means for the run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kern import plain
from kern.agents import transcript
from kern.agents.protocol import Agent, AgentError, Answer, AtLimit, Ended, Failed, TryAgain
from kern.agents.transcript import Object
from kern.errors import BudgetReached, KernError, LimitReached, Outage, TransientFault
from kern.events import Acted, Sink
from kern.model import Act, Aide, Role, Stage
from kern.system import process

_LOOK_S = 0.25  # between two looks at what the agent prints
_AT_ONCE = 256 * 1024  # bytes; what comes faster than this is passed over
_LONGER = "timeout below [stages.ROLE] in kern.toml sets how long a stage may take"


@dataclass(frozen=True, slots=True)
class Output:
    """What a transcript holds."""

    answer: Answer | None = None
    error: AgentError | None = None
    acts: tuple[Act, ...] = ()  # where it is without an answer, and of implement

    @property
    def cost(self) -> float | None:
        return self.answer.cost_usd if self.answer else None

    @property
    def tokens(self) -> Mapping[str, int]:
        """By kind; the parts of one message bear the same."""
        if self.answer:
            return self.answer.tokens
        messages = {act.message: act.tokens for act in self.acts}.values()
        kinds = dict.fromkeys(kind for one in messages for kind in one)
        return {kind: sum(one.get(kind, 0) for one in messages) for kind in kinds}

    def only_reads(self, agent: Agent) -> bool:
        """Whether no call of an agent that tells of its calls can have written: it shows them, or
        it answered in its first turn.
        """
        calls = {call.partition(" ")[0] for act in self.acts for call in act.calls}
        is_known = bool(self.acts) or (self.answer is not None and self.answer.turns == 1)
        return is_known and calls <= {*agent.offers(Aide.JUDGE)}


def read(agent: Agent, place: Path, stage: Role, end: Ended) -> Output:
    """What was cut for its length has no answer that could be read."""
    if not place.exists():
        return Output()
    with place.open("rb") as file:
        answer, error = None, None
        try:
            answer = agent.read(() if end.overflow else agent.objects(file), end)
        except AgentError as exc:
            answer, error = exc.answer, exc
        if answer and stage is not Stage.IMPLEMENT:
            return Output(answer, error)
        acts = (_act(agent, one) for one in transcript.objects(file))
        return Output(answer, error, tuple(filter(None, acts)))


def _act(agent: Agent, value: Object) -> Act | None:
    try:
        return agent.watch(value)
    except AgentError:
        return None


@dataclass(slots=True)
class Watch:
    """Tells what the agent does, by its transcript as it grows. Raises AgentError, which ends it,
    where it would go on without end.
    """

    agent: Agent
    stage: Role
    place: Path  # of its transcript
    sink: Sink
    tick: process.Tick
    most: float = 0  # tokens; 0: no bound
    used: dict[str, int] = field(default_factory=dict)  # tokens by message
    at: int = 0  # how far it was read
    due: float = 0.0

    def __call__(self, seconds: float, silent: float) -> None:
        if seconds >= self.due:
            self.due = seconds + _LOOK_S
            self.look(self.agent.watch)
            if self.most and sum(self.used.values()) > self.most:
                raise BudgetReached(
                    f"{self.stage} stage: the agent used up its {self.most:,.0f} tokens",
                    hint="raise it ([max_tokens] in kern.toml) and run kern again: it resumes",
                )
        self.tick(seconds, silent)

    def look(self, parse: Callable[[Object], Act | None]) -> None:
        """At what it did since the last look."""
        for line in self.lines():
            if act := parse(transcript.line(line)):
                self.sink(Acted(self.stage, act))
                self.used[act.message] = sum(act.tokens.values())

    def end(self) -> None:
        self.look(partial(_act, self.agent))

    def lines(self) -> list[bytes]:
        """The whole lines since the last call; after a burst only the newest, so that memory stays
        bounded whatever comes.
        """
        if not self.place.exists():
            return []
        with self.place.open("rb") as file:
            newest = file.seek(0, 2) - _AT_ONCE
            torn = newest > self.at  # the first line has lost its beginning
            self.at = file.seek(max(self.at, newest))
            *chunks, rest = file.read(_AT_ONCE).split(b"\n")
            self.at = file.tell() - len(rest)
        return chunks[torn:]


# ---------------------------------------------------------------- what it means


def timed_out(stage: Role, end: Ended, *, acted: bool) -> AgentError | None:
    """Half a change is an attempt; a stage that changes nothing can simply run again. Without a
    sign of life, an agent waits for its API.
    """
    if not end.timed_out:
        return None
    silent = end.timed_out.startswith(process.SILENT)
    if stage is Stage.IMPLEMENT and (acted or not silent):
        return Failed(f"timed out: {end.timed_out}", _LONGER)
    return TryAgain(f"timed out: {end.timed_out}", _LONGER, away=silent)


def error(stage: Role, fault: AgentError, transcript: Path) -> KernError:
    """As the run knows it."""
    text = f"{stage} stage: {fault.message}"
    if isinstance(fault, AtLimit):
        form = " (resets %Y-%m-%d %H:%M local time)"
        resets_at = fault.resets_at or (round(time.time() + fault.after) if fault.after else None)
        when = time.strftime(form, time.localtime(resets_at)) if resets_at else ""
        hint = "run kern again then: it resumes"
        return LimitReached(f"usage limit: {fault.message}{when}", hint=hint, resets_at=resets_at)
    if not isinstance(fault, TryAgain):
        return KernError(text, hint=fault.hint or f"the transcript: {transcript}")
    again = f"run kern again: it goes on at this stage; the transcript: {transcript}"
    if not fault.away:
        return TransientFault(text, hint=fault.hint or again)
    reason = fault.message.removeprefix("API Error: ").partition(". ")[0]
    return Outage(text, hint=fault.hint or again, reason=plain.line(reason, 80))
