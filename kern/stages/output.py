"""An agent's output, read as it grows and once it has ended, and what its end means for the run."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kern import events, plain
from kern.agents import transcript
from kern.agents.protocol import (
    Agent,
    AgentError,
    Answer,
    AtLimit,
    Ended,
    Failed,
    OverBudget,
    TryAgain,
)
from kern.errors import BudgetReached, KernError, LimitReached, Outage, TransientFault
from kern.events import Sink
from kern.model import Act, Aide, Role, Stage
from kern.system import process

RAISE = "raise it ([max_cost], [max_tokens] in kern.toml; --max-cost) and run kern: it resumes"
_LONGER = "timeout below [stages.ROLE] in kern.toml sets how long a stage may take"


@dataclass(frozen=True, slots=True)
class Output:
    """What a transcript holds."""

    answer: Answer = field(default_factory=Answer)
    error: AgentError | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)  # by kind
    acted: bool = True  # so far as is known, a call of its can have changed a file


@dataclass(slots=True)
class Watch:
    """What the agent does, by its transcript."""

    agent: Agent
    stage: Role
    place: Path  # of its transcript
    sink: Sink = lambda event: None
    tick: process.Tick = process.unwatched
    most: float = 0  # tokens; 0: no bound
    used: dict[str, Mapping[str, int]] = field(default_factory=dict)  # tokens by message
    calls: set[str] = field(default_factory=set)  # the tools
    at: int = 0  # how far it was read

    def __call__(self, seconds: float, silent: float) -> None:
        self.look()
        self.tick(seconds, silent)

    def look(self) -> None:
        """At what it did since the last look. Raises what ends it, where it would go on without
        end.
        """
        for act in self._acts():
            self.sink(events.live("act", calls=act.calls))
            # The parts of one message bear the same.
            self.used[act.message] = act.tokens
            self.calls |= {call.partition(" ")[0] for call in act.calls}
        if self.most and sum(self.tokens.values()) > self.most:
            raise BudgetReached(
                f"{self.stage} stage: the agent used up its {self.most:,.0f} tokens", hint=RAISE
            )

    def read(self, end: Ended) -> Output:
        """What came of it, once it has ended; what was cut for its length has no answer that could
        be read.
        """
        if not self.place.exists():
            return Output()
        self.most, at = 0, -1
        while self.at > at:
            at = self.at
            with suppress(AgentError):
                self.look()
        answer, error = None, None
        with self.place.open("rb") as file:
            try:
                answer = self.agent.read(() if end.overflow else self.agent.objects(file), end)
            except AgentError as exc:
                answer, error = exc.answer, exc
        # An agent that tells of its calls shows them, or answered in its first turn.
        tells = bool(self.used) or (answer is not None and answer.turns == 1)
        acted = not (tells and self.calls <= {*self.agent.offers(Aide.JUDGE)})
        error = timed_out(self.stage, end, acted=bool(self.used)) or error
        return Output(answer or Answer(), error, answer.tokens if answer else self.tokens, acted)

    @property
    def tokens(self) -> Mapping[str, int]:
        counts = Counter[str]()
        for one in self.used.values():
            counts.update(one)
        return counts

    def _acts(self) -> Iterator[Act]:
        """By whole lines, so that memory stays bounded whatever comes."""
        with self.place.open("rb") as file:
            file.seek(self.at)
            while data := file.readline(transcript.LINE_LIMIT):
                if not data.endswith(b"\n") and len(data) < transcript.LINE_LIMIT:
                    return
                self.at = file.tell()
                if act := self.agent.watch(transcript.line(data)):
                    yield act


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
    if isinstance(fault, OverBudget):
        return BudgetReached(text, hint=RAISE)
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
