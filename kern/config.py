"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kern import endpoint, many, models, plain, toml
from kern.endpoint import Endpoint
from kern.model import HIDDEN, Aide, Role, Stage
from kern.models import Choices
from kern.toml import Wrong

FILE = "kern.toml"
PERSON = "~/.config/kern/config.toml"
ROUNDS = 5  # reviews in one run with --until-done
LARGE = 50 << 20  # bytes; an untracked file that is larger is not stored
TOTAL: Mapping[Role, float] = {  # seconds
    Stage.RESEARCH: 900,
    Stage.IMPLEMENT: 3600,
    Stage.COMMIT: 600,
    Aide.JUDGE: 600,
    Aide.PLANNER: 1800,
}
OPENS = ("read", "write", "env", "devices", "network")  # what [sandbox] may name
_GATE_S = 600.0
_MARGIN = 0.01  # US dollars: an agent is not started for less


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that must pass before the commit."""

    name: str  # empty: a task's own
    command: str  # for sh
    timeout: float = _GATE_S  # 0: none
    strict: bool = False  # blocks also where it was red before the task
    known_red: bool = False  # red before any task, which stops no run
    room: bool = True  # in a tree that holds exactly what is to be committed, where there is one
    again: int | None = None  # how often it runs once more where it is red; None: as kern chooses
    hidden: str | None = None  # of a hidden one: the folder that is laid over the tree

    @property
    def shown(self) -> str:
        suffix = " (known to be red)" if self.known_red else ""
        return f"{self.name or 'of the task'}: {self.command}{suffix}"

    @property
    def label(self) -> str:
        if self.hidden is not None:
            return HIDDEN
        return f"gate {self.name}" if self.name else f"gate `{plain.line(self.command, 40)}`"


@dataclass(frozen=True, slots=True)
class Spent:
    run: float = 0
    task: float = 0  # in all runs
    run_tokens: int = 0
    task_tokens: int = 0


def _left(bounds: Iterable[tuple[float, float]], least: float) -> float:
    """For the next stage, of what may be used and what is; 0: no bound."""
    rests = [most - used for most, used in bounds if most]
    return max(min(rests), least) if rests else 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """As many as may be used; 0: no bound."""

    run: float = 0
    task: float = 0
    stage: float = 0

    def left(self, spent: Spent) -> float:
        used = (self.run, spent.run_tokens), (self.task, spent.task_tokens), (self.stage, 0)
        return _left(used, 1)


@dataclass(frozen=True, slots=True)
class Budget:
    """US dollars as the agent counts them, API-equivalent; 0: no bound."""

    run: float = 0
    task: float = 0
    stage: float = 0
    tokens: Tokens = field(default_factory=Tokens)

    def within(self, run: float) -> "Budget":
        """With what the command line says of a run, where it says something."""
        return replace(self, run=run or self.run)

    def reached(self, spent: Spent) -> str:
        """Which bound is reached, in words; empty while none is."""
        tokens = self.tokens
        for what, most, used in (("run", self.run, spent.run), ("task", self.task, spent.task)):
            if most and used > most - _MARGIN:
                return f"the {what}'s budget is used up: ${used:.2f} of ${most:.2f}"
        counts = ("run", tokens.run, spent.run_tokens), ("task", tokens.task, spent.task_tokens)
        for what, most, used in counts:
            if most and used >= most:
                return f"the {what}'s tokens are used up: {used:,} of {most:,.0f}"
        return ""

    def left(self, spent: Spent) -> float:
        used = (self.run, spent.run), (self.task, spent.task), (self.stage, 0)
        return round(_left(used, _MARGIN), 4)


@dataclass(frozen=True, slots=True)
class Settings:
    gates: tuple[Gate, ...] = ()
    timeouts: Mapping[Role, float] = field(default_factory=dict)  # of agents; see `total`
    models: Choices = field(default_factory=dict)
    agents: tuple[str, ...] = ()  # the first runs, the others stand in for it
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # argv of agents, by name
    endpoint: Endpoint | None = None  # of the `http` agent
    asks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the person's sandbox
    max_wait: float = 6 * 3600  # seconds, for a usage limit's reset
    keep: tuple[str, ...] = ()  # paths that are the tests', beside those of checks/measures.toml
    strict_tests: bool = False  # what is green only with its own changes of the tests has failed
    budget: Budget = field(default_factory=Budget)
    fleet: many.Many = field(default_factory=many.Many)
    notify: str = ""  # for sh; the person's to say
    hidden: Gate | None = None  # the person's, of which no agent learns more than its end
    allow_red: bool = False  # of the command line
    picked: Choices = field(default_factory=dict)  # of the command line: before all others

    def total(self, role: Role) -> float:
        """The time-out of an agent's process as a whole, seconds; 0: none."""
        return self.timeouts.get(role, TOTAL[role])

    @property
    def patience(self) -> float:
        """What a command without a setting may take: as the longest gate; 0: no bound."""
        times = [_GATE_S, *(gate.timeout for gate in self.gates)]
        return max(times) if all(times) else 0.0

    @property
    def idle(self) -> float:
        """The time without a sign of life after which an agent is ended; 0: none."""
        return self.patience + 60 if self.patience else 0.0


# ---------------------------------------------------------------- what a file may say


def _gate(value: Any) -> Any:
    row = _GATE(value)
    if known_red := row.pop("red", "") == "known":
        row["known_red"] = True
    if row.get("strict") and known_red:
        hint = "a strict gate must be green before the first task: take one of the two off"
        raise Wrong('{} is both strict and red = "known"', hint)
    return row


def _gates(value: Any) -> Any:
    names = dict.fromkeys(value if isinstance(value, dict) else (), _gate)
    return toml.table({**names, **_NO_GATES})(value)


_SINGLE: toml.Rows = {
    "agents": models.agents,
    "max_wait": toml.seconds,
    "keep": toml.texts("paths"),
    "strict_tests": toml.flag,
}
_NO_GATES: toml.Rows = {
    **dict.fromkeys(_SINGLE, f"move it above the first table of {FILE}"),
    "final": "write it below a last task in SPEC.md: > **Gate:** `make all`",
}
_GATE = toml.command(
    strict=toml.flag,
    room=toml.flag,
    again=toml.one_of([0, 1]),
    red=toml.one_of(["known"], 'red = "known"'),
    known_red='write red = "known"',
)
_BOUNDS = toml.table(dict.fromkeys(("run", "task", "stage"), toml.amount))
_AGENTS_LOOK = "take it out, and name the command in AGENTS.md: implement runs it itself"
_MINE = f"it is yours to say, for all repositories: put it into {PERSON}"
_ROWS: toml.Rows = {
    **_SINGLE,
    "gates": _gates,
    "stages": models.BY_ROLE,
    "max_cost": _BOUNDS,
    "max_tokens": _BOUNDS,
    "worktree": many.WORKTREE,
    "commands": models.COMMANDS,
    "sandbox": toml.table({**dict.fromkeys(OPENS, toml.texts("texts")), "mode": _MINE}),
    "agent": toml.table({"http": endpoint.read, "output": "take it out: kern chooses"}),
    # ------------------------------------------------------------ as earlier kerns had them
    "models": 'write [stages.ROLE], and below it: model = "NAME"',
    "timeouts": 'write [stages.ROLE], and below it: timeout = "60m"; a gate has its own: '
    'test = { run = "make test", timeout = "20m" }',
    **dict.fromkeys(("probes", "snapshot"), _AGENTS_LOOK),
    "max_failures": "take it out: three tasks in a row without a result end the run",
    "max_minutes": "kern --until 07:00 ends a run",
    "max_rounds": "take it out: --until-done reviews five times at most",
    "large_file": "take it out: more than 50 MiB belongs into Git LFS, or .gitignore",
    "search": "take it out: git grep finds what kern search does not read",
    "branch": "git switch -c NAME, then kern",
    "jobs": "kern -j 4",
    "scheduler": "kern --scheduler host:8786",
    **dict.fromkeys(("notify", "fleet", "awake", "remote", "hidden"), _MINE),
}


# `agent = "http"` above the tables, which TOML takes for the whole of [agent.http] below.
_AGENT = re.compile(rb"\A((?:(?!\s*\[).*\n)*?)agent[ \t]*=[ \t]*((['\"])[^'\"\n]*\3)")


def parse(data: bytes | str) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    settings = toml.read(_AGENT.sub(rb"\1agents = [\2]", data, 1), FILE, _ROWS)
    gates, http = settings.get("gates", {}), settings.get("agent", {}).get("http")
    return Settings(
        gates=tuple(Gate(name, **row) for name, row in gates.items()),
        timeouts=models.timeouts(settings),
        models=models.of_settings(settings),
        budget=Budget(
            **settings.get("max_cost", {}), tokens=Tokens(**settings.get("max_tokens", {}))
        ),
        commands=settings.get("commands", {}),
        asks=settings.get("sandbox", {}),
        endpoint=http and replace(http, theirs=True),
        fleet=many.of_settings(settings),
        **{key: settings[key] for key in _SINGLE if key in settings},
    )
