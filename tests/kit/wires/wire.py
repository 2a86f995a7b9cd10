"""What the scripted server asks of a wire: a vendor's way to write a request and an answer.

A wire is a module that is a `Wire`; its name in `scripted_server.WIRES` makes it known. It says
nothing of scripts, and the server nothing of vendors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as a script is told of it."""

    prompt: str  # what the user said, without results of tools
    said: int  # turns of the model that the request repeats
    tools: tuple[str, ...] = ()  # offered
    system: str = ""  # the system prompt
    last: str = ""  # all of the last message


@dataclass(frozen=True, slots=True)
class Call:
    name: str  # as the CLI calls its tool
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """A turn of the model."""

    number: int  # of the request, for ids
    text: str | None = None
    calls: Sequence[Call] = ()
    tokens: tuple[int, int] = (0, 0)  # of the request, of the answer


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Wire(Protocol):
    def takes(self, path: str) -> bool:
        """Whether a POST to this path is a request for a turn; the path has no query."""

    def read(self, path: str, body: Mapping[str, Any]) -> Asked: ...

    def write(self, path: str, body: Mapping[str, Any], said: Said) -> Answer:
        """The turn, as a stream where the request wants one."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an HTTP error."""


def as_events(values: Sequence[tuple[str, str]]) -> Answer:
    """Server-sent events: name (empty for none) and data of each."""
    lines = [f"event: {name}\n" * bool(name) + f"data: {data}\n\n" for name, data in values]
    return Answer("".join(lines).encode(), headers={"Content-Type": "text/event-stream"})
