"""An agent's output, as it grows and once it has ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kern.agents import transcript
from kern.agents.protocol import Agent, AgentError, Answer, Ended
from kern.agents.transcript import Object
from kern.errors import BudgetReached
from kern.events import Acted, Sink
from kern.model import Act, Aide, Role, Stage
from kern.system import process

_LOOK_S = 0.25  # between two looks at what the agent prints
_AT_ONCE = 256 * 1024  # bytes; what comes faster than this is passed over


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
        """Whether no call of an agent that shows its calls can have written."""
        calls = {call.partition(" ")[0] for act in self.acts for call in act.calls}
        return bool(self.acts) and calls <= {*agent.offers(Aide.JUDGE)}


def read(agent: Agent, place: Path, stage: Role, ended: Ended) -> Output:
    """What was cut for its length has no answer that could be read."""
    if not place.exists():
        return Output()
    with place.open("rb") as file:
        answer, error = None, None
        try:
            answer = agent.read(() if ended.overflow else agent.objects(file), ended)
        except AgentError as exc:
            answer, error = exc.answer, exc
        if answer and stage is not Stage.IMPLEMENT:
            return Output(answer, error)
        acts = (_shown(agent, one) for one in agent.objects(file))
        return Output(answer, error, tuple(filter(None, acts)))


def _shown(agent: Agent, value: Object) -> Act | None:
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
            self.look(ended=False)
        self.tick(seconds, silent)

    def look(self, *, ended: bool) -> None:
        """At what it did since the last look."""
        for line in self.lines():
            value = transcript.line(line)
            if act := _shown(self.agent, value) if ended else self.agent.watch(value):
                self.sink(Acted(self.stage, act))
                self.used[act.message] = sum(act.tokens.values())
        if not ended and self.most and sum(self.used.values()) > self.most:
            raise BudgetReached(
                f"{self.stage} stage: the agent used up its {self.most:,.0f} tokens",
                hint="raise it ([max_tokens] in kern.toml) and run kern again: it resumes",
            )

    def lines(self) -> list[bytes]:
        """The whole lines since the last call; after a burst only the newest, so that memory stays
        bounded whatever comes.
        """
        try:
            with self.place.open("rb") as file:
                newest = file.seek(0, 2) - _AT_ONCE
                torn = newest > self.at  # the first line has lost its beginning
                self.at = file.seek(max(self.at, newest))
                *found, rest = file.read(_AT_ONCE).split(b"\n")
                self.at = file.tell() - len(rest)
        except OSError:
            return []
        return found[torn:]


def cut_off(agent: Agent, place: Path, stage: Role) -> Output:
    """Of a call that was ended before it answered."""
    return read(agent, place, stage, Ended(-1))
