"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kern.errors import UsageError
from kern.pipeline import Role
from kern.spec import Kind, Task

FILE = "kern.toml"
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that must pass before the commit."""

    name: str
    command: str  # for sh
    timeout: float  # seconds; 0: none
    strict: bool = False  # blocks also where it was red before the task

    @property
    def shown(self) -> str:
        return f"{self.name}: {self.command}"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; 0: none."""

    idle: float = 600  # without a sign of life from the agent
    research: float = 900
    implement: float = 3600
    commit: float = 600
    judge: float = 600
    gate: float = 600


@dataclass(frozen=True, slots=True)
class Settings:
    gates: tuple[Gate, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_wait: float = 6 * 3600  # seconds, for a usage limit's reset
    max_failures: int = 3  # tasks in a row that came to nothing; 0: no bound

    def total(self, role: Role) -> float:
        """The time-out of an agent's process as a whole, seconds."""
        return float(getattr(self.timeouts, str(role)))


def parse(text: str, origin: str = FILE) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{origin} is not valid TOML: {exc}", hint=f"edit {origin}") from None
    _known(given, ("gates", "timeouts", "max_wait", "max_failures"), origin, "")
    times = _table(given.get("timeouts", {}), origin, "timeouts")
    _known(times, Timeouts.__slots__, origin, "timeouts.")
    timeouts = Timeouts(
        **{name: _seconds(value, origin, f"timeouts.{name}") for name, value in times.items()}
    )
    failures = given.get("max_failures", Settings().max_failures)
    if not isinstance(failures, int) or isinstance(failures, bool) or failures < 0:
        raise _wrong(origin, "max_failures", "a whole number, 0 for no bound")
    wait = given.get("max_wait")
    return Settings(
        tuple(
            _gate(name, value, timeouts.gate, origin)
            for name, value in _table(given.get("gates", {}), origin, "gates").items()
        ),
        timeouts,
        Settings().max_wait if wait is None else _seconds(wait, origin, "max_wait"),
        failures,
    )


def task_gates(task: Task, timeout: float) -> tuple[Gate, ...]:
    """A task's own gates, from its notes. They say what done means: red before is no excuse."""
    notes = task.of(Kind.GATE)
    commands = [note.text.strip().strip("`").strip() for note in notes]
    return tuple(
        Gate(f"gate {number}" if len(notes) > 1 else "gate", command, timeout, strict=True)
        for number, command in enumerate(commands, 1)
        if command
    )


def criteria(task: Task) -> tuple[str, ...]:
    """What a judge is asked about the task's change."""
    return tuple(note.text.strip() for note in task.of(Kind.JUDGE) if note.text.strip())


def _gate(name: str, value: object, timeout: float, origin: str) -> Gate:
    if isinstance(value, str):
        value = {"run": value}
    given = _table(value, origin, f"gates.{name}")
    _known(given, ("run", "timeout", "strict"), origin, f"gates.{name}.")
    command, strict = given.get("run"), given.get("strict", False)
    if not isinstance(command, str) or not command.strip():
        raise _wrong(origin, f"gates.{name}", 'a command, like "make check"')
    if not isinstance(strict, bool):
        raise _wrong(origin, f"gates.{name}.strict", "true or false")
    if "timeout" in given:
        timeout = _seconds(given["timeout"], origin, f"gates.{name}.timeout")
    return Gate(name, command.strip(), timeout, strict)


def _seconds(value: object, origin: str, key: str) -> float:
    """`90`, `"90s"`, `"10m"`, `"6h"`; 0 for none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,3})?)\s*([smh]?)\s*", str(value))
    if not isinstance(value, str) or match is None:
        raise _wrong(origin, key, 'seconds, or a text like "90s", "10m", "6h"; 0 for none')
    return float(match[1]) * _UNITS[match[2] or "s"]


def _table(value: object, origin: str, key: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(origin, key, "a table")
    return value


def _known(given: Mapping[str, Any], names: tuple[str, ...], origin: str, above: str) -> None:
    if strange := sorted(given.keys() - set(names)):
        raise UsageError(
            f"{origin}: unknown setting {above}{strange[0]}",
            hint=f"known there: {', '.join(names)}",
        )


def _wrong(origin: str, key: str, wanted: str) -> UsageError:
    return UsageError(f"{origin}: {key} must be {wanted}", hint=f"edit {origin}")
