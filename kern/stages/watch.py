"""An agent's output, as it grows and once it has ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kern.agents.protocol import Agent, Fault, Reply
from kern.errors import BudgetReached
from kern.events import Acted, Sink
from kern.model import Act, Aide, Role, Stage
from kern.system import process

_LOOK_S = 0.25  # between two looks at what the agent prints
_AT_ONCE = 256 * 1024  # bytes; what comes faster than this is passed over


class Refused(Exception):
    """Its key is refused, and what it would do is ask again for minutes."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Output:
    """What a transcript holds."""

    reply: Reply | None = None
    acts: tuple[Act, ...] = ()  # where it is without a reply, and of implement

    @property
    def cost(self) -> float | None:
        return self.reply.cost_usd if self.reply else None

    @property
    def tokens(self) -> Mapping[str, int]:
        """By kind; the parts of one message bear the same."""
        if self.reply:
            return self.reply.tokens
        messages = {act.message: act.tokens for act in self.acts}.values()
        kinds = dict.fromkeys(kind for one in messages for kind in one)
        return {kind: sum(one.get(kind, 0) for one in messages) for kind in kinds}

    def only_reads(self, agent: Agent) -> bool:
        """Whether no call of an agent that shows its calls can have written."""
        calls = {call.partition(" ")[0] for act in self.acts for call in act.calls}
        return bool(self.acts) and calls <= {*agent.tools(Aide.JUDGE)}


def read(agent: Agent, place: Path, stage: Role, *, whole: bool = True) -> Output:
    """`whole`: it was not cut for its length, so that its reply can be read."""
    if not place.exists():
        return Output()
    with place.open("rb") as file:
        reply = agent.read(agent.objects(file), stage) if whole else None
        file.seek(0)
        if reply and stage is not Stage.IMPLEMENT:
            return Output(reply)
        lines = (json.dumps(dict(one)).encode() for one in agent.objects(file))
        return Output(reply, tuple(act for line in lines if (act := agent.act(line))))


@dataclass(slots=True)
class Watch:
    """Tells what the agent does, by its transcript as it grows; raises `Refused`, which ends it."""

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
            if not ended and (fault := self.agent.refused(line)):
                raise Refused(fault)
            if act := self.agent.act(line):
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
