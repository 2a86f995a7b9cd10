"""An agent at work, seen by the output that it writes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kern.agents.protocol import Agent, Fault, Reply
from kern.events import Acted, Sink
from kern.model import Act, Aide, Role
from kern.system import process

_LOOK_S = 0.25  # between two looks at what the agent prints
_AT_ONCE = 256 * 1024  # bytes; what comes faster than this is passed over
_LONGEST = 128 * 1024  # bytes of a line; a longer one is passed over


class Refused(Exception):
    """Its key is refused, and what it would do is ask again for minutes."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def acts(agent: Agent, place: Path) -> list[Act]:
    """What a transcript shows of the agent at work; empty where the agent shows nothing."""
    with place.open("rb") as file:
        lines = (json.dumps(dict(one)).encode() for one in agent.objects(file))
        return [act for line in lines if (act := agent.act(line))]


def tokens(seen: Iterable[Act]) -> Mapping[str, int]:
    """By kind; the parts of one message bear the same."""
    messages = {act.message: act.tokens for act in seen}.values()
    kinds = dict.fromkeys(kind for one in messages for kind in one)
    return {kind: sum(one.get(kind, 0) for one in messages) for kind in kinds}


def only_reads(agent: Agent, seen: Iterable[Act]) -> bool:
    """Whether no call of an agent that shows its calls can have written."""
    every = list(seen)
    calls = {call.partition(" ")[0] for act in every for call in act.calls}
    return bool(every) and calls <= {*agent.tools(Aide.JUDGE)}


@dataclass(slots=True)
class Watch:
    """Tells what the agent does; raises `Refused`, which ends it."""

    agent: Agent
    stage: Role
    output: "Growing"  # its transcript
    sink: Sink
    tick: process.Tick
    due: float = 0.0

    def __call__(self, seconds: float, silent: float) -> None:
        if seconds >= self.due:
            self.due = seconds + _LOOK_S
            for line in self.output.lines():
                if fault := self.agent.refused(line):
                    raise Refused(fault)
                self._tell(line)
        self.tick(seconds, silent)

    def rest(self) -> None:
        """What it did since the last look; it has ended."""
        for line in self.output.lines():
            self._tell(line)

    def _tell(self, line: bytes) -> None:
        if act := self.agent.act(line):
            self.sink(Acted(self.stage, act))


@dataclass(slots=True)
class Growing:
    """A file that another process appends to, read as it grows: after a burst only the newest
    lines, so that memory stays bounded whatever comes.
    """

    path: Path
    at: int = 0  # how far it was read
    rest: bytes = b""  # of a line that is not whole yet
    torn: bool = False  # the line under way has lost its beginning

    def lines(self) -> list[bytes]:
        """The whole lines since the last call."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                if size - self.at > _AT_ONCE:
                    self.at, self.rest, self.torn = size - _AT_ONCE, b"", True
                file.seek(self.at)
                new = file.read(_AT_ONCE)
        except OSError:
            return []
        self.at += len(new)
        *found, self.rest = (self.rest + new).split(b"\n")
        if found and self.torn:
            del found[0]
            self.torn = False
        if len(self.rest) > _LONGEST:
            self.rest, self.torn = b"", True
        return [line for line in found if len(line) <= _LONGEST]


def reply(agent: Agent, place: Path, stage: Role) -> Reply | None:
    """What the transcript at `place` holds."""
    with place.open("rb") as file:
        return agent.read(agent.objects(file), stage)
