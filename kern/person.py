"""~/.config/kern/config.toml as data: what a person decides for all of their repositories, and no
repository for them.
"""

from dataclasses import field
from enum import StrEnum
from typing import TypeVar

from kern import config, endpoint
from kern.config import Holding
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.frozen import frozen

FILE = "~/.config/kern/config.toml"
_KNOWN = ("sandbox", "trust", "agent")
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
    given = config.loaded(data, origin)
    if strange := sorted(given.keys() - {*_KNOWN}):
        raise UsageError(
            f"{origin}: unknown setting {strange[0]}", hint=f"known there: {', '.join(_KNOWN)}"
        )
    agent = given.get("agent", {})
    if not isinstance(agent, dict) or agent.keys() - {"http"}:
        raise UsageError(f"{origin}: agent knows the table http alone", hint=f"edit {origin}")
    table = given.get("sandbox", {})
    table = {"mode": table} if isinstance(table, str) else table
    if not isinstance(table, dict):
        raise UsageError(f'{origin}: sandbox must be "auto", or a table', hint=f"edit {origin}")
    image = table.get("image", "")
    if not isinstance(image, str):
        raise UsageError(f"{origin}: sandbox.image must be a name", hint=f"edit {origin}")
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
