"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kern import edit, plain
from kern.budget import Budget
from kern.errors import UsageError
from kern.pipeline import Role
from kern.spec import Kind, Spec, Task

FILE = "kern.toml"
DESKTOP = "desktop"  # `notify` by what the desktop has
_SINGLE = ("max_wait", "max_failures", "max_minutes", "notify")
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that must pass before the commit."""

    name: str  # empty: a task's own
    command: str  # for sh
    timeout: float  # seconds; 0: none
    strict: bool = False  # blocks also where it was red before the task

    @property
    def shown(self) -> str:
        return f"{self.name}: {self.command}" if self.name else f"of the task: {self.command}"

    @property
    def label(self) -> str:
        return f"gate {self.name}" if self.name else f"gate `{plain.line(self.command, 40)}`"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; 0: none."""

    idle: float = 600  # without a sign of life from the agent
    research: float = 900
    implement: float = 3600
    commit: float = 600
    judge: float = 600
    planner: float = 1800
    gate: float = 600


@dataclass(frozen=True, slots=True)
class Settings:
    gates: tuple[Gate, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_wait: float = 6 * 3600  # seconds, for a usage limit's reset
    max_failures: int = 3  # tasks in a row that came to nothing; 0: no bound
    budget: Budget = field(default_factory=Budget)
    notify: str = ""  # for sh, or DESKTOP; empty: nobody is notified

    def total(self, role: Role) -> float:
        """The time-out of an agent's process as a whole, seconds."""
        return float(getattr(self.timeouts, str(role)))


def parse(data: bytes | str, origin: str = FILE) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        given = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise UsageError(f"{origin} is nested too deeply", hint=f"edit {origin}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise UsageError(f"{origin} is not valid TOML: {exc}", hint=f"edit {origin}") from None
    _known(given, ("gates", "timeouts", "max_cost", *_SINGLE), origin, "")
    costs = _table(given.get("max_cost", {}), origin, "max_cost")
    _known(costs, ("run", "task", "stage"), origin, "max_cost.")
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
        Budget(
            **{name: amount(value, origin, f"max_cost.{name}") for name, value in costs.items()},
            minutes=amount(given.get("max_minutes", 0), origin, "max_minutes"),
        ),
        _notify(given.get("notify", ""), origin),
    )


def amount(value: object, origin: str, key: str) -> float:
    """Dollars or minutes, 0 for no bound."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    raise _wrong(origin, key, "a number, 0 for no bound")


@dataclass(frozen=True, slots=True)
class Checks:
    """What must hold before a task's commit, in this order."""

    gates: tuple[Gate, ...] = ()
    criteria: tuple[str, ...] = ()  # for judges

    @property
    def shown(self) -> tuple[str, ...]:
        return (
            *(gate.shown for gate in self.gates),
            *(f"judge: {criterion}" for criterion in self.criteria),
        )


def checks(spec: Spec, task: Task, settings: Settings) -> Checks:
    """The task's own gates, those of the parents that are done with it, the project's; judges."""
    done = edit.ticked(spec, task)
    own = [gate for one in done for gate in task_gates(one, settings.timeouts.gate)]
    return Checks(
        (*own, *settings.gates), tuple(criterion for one in done for criterion in criteria(one))
    )


def task_gates(task: Task, timeout: float) -> tuple[Gate, ...]:
    """A task's own gates, from its notes. They say what done means: red before is no excuse."""
    commands = [_unquoted(note.text) for note in task.of(Kind.GATE)]
    return tuple(Gate("", command, timeout, strict=True) for command in commands if command)


def criteria(task: Task) -> tuple[str, ...]:
    """What a judge is asked about the task's change."""
    return tuple(note.text.strip() for note in task.of(Kind.JUDGE) if note.text.strip())


def _unquoted(text: str) -> str:
    """The command between backticks at the beginning, or all of it as it stands."""
    match = re.match(r"(`+)(.+?)\1(?!`)", text.strip())
    bare = (match[2] if match else text).replace("\0", "").strip()
    return bare if bare.strip("` ") else ""


def _gate(name: str, value: object, timeout: float, origin: str) -> Gate:
    if name in (*_SINGLE, "timeouts", "max_cost"):
        raise UsageError(
            f"{origin}: {name} stands below [gates]: it is no gate",
            hint=f"move it above [gates], the first table of {origin}",
        )
    if isinstance(value, str):
        value = {"run": value}
    if not isinstance(value, dict):
        raise _wrong(origin, f"gates.{name}", 'a command, or { run = "a command", … }')
    given = value
    _known(given, ("run", "timeout", "strict"), origin, f"gates.{name}.")
    command, strict = given.get("run"), given.get("strict", False)
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise _wrong(origin, f"gates.{name}", 'a command, like "make check"')
    if not isinstance(strict, bool):
        raise _wrong(origin, f"gates.{name}.strict", "true or false")
    if "timeout" in given:
        timeout = _seconds(given["timeout"], origin, f"gates.{name}.timeout")
    return Gate(name, command.strip(), timeout, strict)


def _notify(value: object, origin: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _wrong(origin, "notify", f'a command, or "{DESKTOP}"; "" for none')
    return value.strip()


def _seconds(value: object, origin: str, key: str) -> float:
    """`90`, `"90s"`, `"10m"`, `"6h"`; 0 for none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,3})?)\s*([smh]?)\s*", str(value))
    if not isinstance(value, str) or match is None:
        raise _wrong(origin, key, f'seconds, or "90s", "10m", "6h"; 0 for none; {value!r} is not')
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
