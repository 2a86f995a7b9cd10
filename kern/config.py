"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from kern import models, plain, toml
from kern.model import HIDDEN, Aide, Role, Stage
from kern.models import Choice, Choices, Endpoint

FILE = "kern.toml"
ROUNDS = 5  # reviews in one run with --until-done
LARGE = 50 << 20  # bytes; an untracked file that is larger is not stored
TOTAL: Mapping[Role, float] = {  # seconds
    Stage.RESEARCH: 900,
    Stage.IMPLEMENT: 3600,
    Stage.COMMIT: 600,
    Aide.JUDGE: 600,
    Aide.PLANNER: 1800,
}
_GATE_S = 600.0
_MARGIN = 0.01  # US dollars: an agent is not started for less


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that must pass before the commit."""

    name: str = ""  # empty: a task's own
    command: str = ""  # for sh
    timeout: toml.Seconds = _GATE_S  # 0: none
    strict: toml.Flag = False  # blocks also where it was red before the task
    # "known": red before any task, which stops no run.
    red: Annotated[str, toml.one_of(["known"], 'red = "known"')] = ""
    room: toml.Flag = True  # in a tree that holds exactly what is to be committed, where there is
    # How often it runs once more where it is red; None: as kern chooses.
    again: Annotated[int | None, toml.one_of([0, 1])] = None
    hidden: str | None = None  # of a hidden one: the folder that is laid over the tree

    @property
    def shown(self) -> str:
        suffix = " (known to be red)" if self.red else ""
        return f"{self.name or 'of the task'}: {self.command}{suffix}"

    @property
    def label(self) -> str:
        if self.hidden is not None:
            return HIDDEN
        return f"gate {self.name}" if self.name else f"gate `{plain.line(self.command, 40)}`"


_COMMAND = toml.matching(r"[^\0]+", 'a command, like "make check", or { run = "a command", … }')


def gate(got: Any, where: str) -> Gate:
    """A command, alone or in a table with more."""
    row = {**got} if isinstance(got, dict) else {"run": got}
    command = _COMMAND(row.pop("run", None), where)
    options: Gate = toml.fitted(Gate, row, where)
    return replace(options, command=command)


def _gates(got: Any, where: str) -> tuple[Gate, ...]:
    rows = toml.fitted({"*": gate}, got, where)
    return tuple(replace(one, name=name) for name, one in rows.items())


_AMOUNT = toml.value("a number; 0 for no bound", toml.is_amount, "task = 20")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be spent, or is: US dollars, API-equivalent, or tokens; 0: no bound."""

    run: Annotated[float, _AMOUNT] = 0
    task: Annotated[float, _AMOUNT] = 0  # in all runs

    def beside(self, spent: "Bounds") -> Iterator[tuple[str, float, float]]:
        """Of each that is bounded what may be spent, and what is."""
        for name in (one.name for one in fields(self) if getattr(self, one.name)):
            yield name, getattr(self, name), getattr(spent, name, 0)

    def left(self, spent: "Bounds") -> float:
        """For the next stage; 0: no bound."""
        rests = [most - used for _, most, used in self.beside(spent)]
        return round(max(min(rests), _MARGIN), 4) if rests else 0


@dataclass(frozen=True, slots=True)
class Tokens(Bounds):
    stage: Annotated[float, _AMOUNT] = 0  # in one process of an agent


# Within the working tree: what lies elsewhere is none of a worktree's.
_PATH = r"(?!(?:.*/)?(?:\.|\.\.|\.git)(?:/|$))[^/\0]+(?:/[^/\0]+)*/?"
_PATHS = toml.texts("paths within the repository", _PATH, 'copy = [".env", "conf/local.yml"]')


@dataclass(frozen=True, slots=True)
class Worktree:
    """What each of several tasks at once needs, where no sandbox shows it your ignored files."""

    copy: Annotated[tuple[str, ...], _PATHS] = ()  # of the person's tree
    setup: toml.Text = ""  # for sh, once

    @property
    def asks(self) -> tuple[str, ...]:
        """What it would start, a line each."""
        return (f"worktree setup: {self.setup}",) if self.setup else ()


# What a repository may ask of the person's.
_ASKS = dict.fromkeys(("read", "write", "env", "devices", "network"), toml.texts("texts"))


def _endpoint(got: Any, where: str) -> Endpoint:
    return replace(models.endpoint(got, where), theirs=True)


@dataclass(frozen=True, slots=True)
class Settings:
    gates: Annotated[tuple[Gate, ...], _gates] = ()
    stages: Annotated[Choices, dict.fromkeys(models.ROLES, Choice)] = field(default_factory=dict)
    agents: models.Agents = ()  # the first runs, the others stand in for it
    commands: models.Commands = field(default_factory=dict)  # argv of agents, by name
    agent: Annotated[Mapping[str, Endpoint], {"http": _endpoint}] = field(default_factory=dict)
    max_wait: toml.Seconds = 6 * 3600  # for a usage limit's reset
    # Paths that are the tests', beside those of checks/measures.toml.
    keep: Annotated[tuple[str, ...], toml.texts("paths")] = ()
    strict_tests: toml.Flag = False  # what is green only with its own changes of them has failed
    max_cost: Annotated[Bounds, Bounds] = field(default_factory=Bounds)
    max_tokens: Annotated[Tokens, Tokens] = field(default_factory=Tokens)
    worktree: Annotated[Worktree, Worktree] = field(default_factory=Worktree)
    sandbox: Annotated[Mapping[str, tuple[str, ...]], _ASKS] = field(default_factory=dict)
    # No setting of kern.toml:
    notify: str = ""  # for sh; the person's to say
    hidden: Gate | None = None  # the person's, of which no agent learns more than its end
    allow_red: bool = False  # of the command line
    picked: Choices = field(default_factory=dict)  # of the command line: before all others

    @property
    def endpoint(self) -> Endpoint | None:
        """Of the `http` agent."""
        return self.agent.get("http")

    def reached(self, spent: Bounds, tokens: Bounds) -> str:
        """Which bound is reached, in words; empty while none is."""
        for bounds, taken, least, form in (
            (self.max_cost, spent, _MARGIN, "budget is used up: ${:.2f} of ${:.2f}"),
            (self.max_tokens, tokens, 1, "tokens are used up: {:,.0f} of {:,.0f}"),
        ):
            for name, most, used in bounds.beside(taken):
                if most - used < least:
                    return f"the {name}'s {form.format(used, most)}"
        return ""

    def total(self, role: Role) -> float:
        """The time-out of an agent's process as a whole, seconds; 0: none."""
        own = self.stages.get(role, Choice()).timeout
        return TOTAL[role] if own is None else own

    @property
    def patience(self) -> float:
        """What a command without a setting may take: as the longest gate; 0: no bound."""
        times = [_GATE_S, *(gate.timeout for gate in self.gates)]
        return max(times) if all(times) else 0.0


# `agent = "http"` above the tables, which TOML takes for the whole of [agent.http] below.
_AGENT = re.compile(rb"\A((?:(?!\s*\[).*\n)*?)agent[ \t]*=[ \t]*((['\"])[^'\"\n]*\3)")


def parse(data: bytes | str) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    return toml.read(_AGENT.sub(rb"\1agents = [\2]", data, 1), FILE, Settings)
