"""~/.config/kern/config.toml as data: what a person decides for all of their repositories, and no
repository for them.
"""

from dataclasses import field
from enum import StrEnum
from typing import TypeVar

from kern import config, endpoint, toml
from kern.config import Holding
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.frozen import frozen

FILE = "~/.config/kern/config.toml"
_Choice = TypeVar("_Choice", bound=StrEnum)


class Mode(StrEnum):
    """What holds an agent and a project's commands."""

    AUTO = "auto"  # the best that works here
    BWRAP = "bwrap"
    OWN = "claude"  # the agent's, which has one; the project's commands by what the system has
    DOCKER = "docker"
    OFF = "off"


class Trust(StrEnum):
    """When the question is asked again."""

    ONCE = "once"
    CONTENT = "content"  # whenever something new would be started


@frozen
class Person:
    mode: Mode = Mode.AUTO
    image: str = ""  # of docker
    trust: Trust = Trust.ONCE
    holding: Holding = field(default_factory=Holding)
    endpoint: Endpoint | None = None  # of the `http` agent, where a repository names none


def parse(data: bytes | str, origin: str = FILE) -> Person:
    """`sandbox` is a mode, or a table with one. Raises UsageError."""
    given = toml.loaded(data, origin)
    toml.known(given, ("sandbox", "trust", "agent"), origin)
    agent = given.get("agent", {})
    if not isinstance(agent, dict) or agent.keys() - {"http"}:
        raise UsageError(f"{origin}: agent knows the table http alone", hint=f"edit {origin}")
    table = given.get("sandbox", {})
    table = {"mode": table} if isinstance(table, str) else table
    if not isinstance(table, dict):
        raise toml.wrong(origin, "sandbox", '"auto", or a table')
    image = table.get("image", "")
    if not isinstance(image, str):
        raise toml.wrong(origin, "sandbox.image", "a name")
    rest = {key: value for key, value in table.items() if key not in ("mode", "image")}
    return Person(
        mode(table.get("mode", "auto"), f"{origin}: sandbox.mode"),
        image,
        _one_of(Trust, given.get("trust", "once"), f"{origin}: trust"),
        config.holding(rest, origin),
        endpoint.parse(agent.get("http"), origin, theirs=False),
    )


def mode(value: object, where: str) -> Mode:
    """Raises UsageError."""
    return _one_of(Mode, value, where)


def _one_of(kind: type[_Choice], value: object, where: str) -> _Choice:
    try:
        return kind(str(value))
    except ValueError:
        raise UsageError(
            f"{where} must be one of {', '.join(kind)}, not {str(value)[:40]!r}",
            hint="kern help safety",
        ) from None
