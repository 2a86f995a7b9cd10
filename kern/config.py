"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kern import models, plain, toml
from kern.model import HIDDEN, Aide, Role, Stage
from kern.models import Choice, Choices, Endpoint

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
_SCOPES = ("run", "task")
_MARGIN = 0.01  # US dollars: an agent is not started for less
_UNITS = {  # by the end of a field's name: for how little nothing is begun, and what is said then
    "": (_MARGIN, "budget is used up: ${:.2f} of ${:.2f}"),
    "_tokens": (1, "tokens are used up: {:,.0f} of {:,.0f}"),
}


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that must pass before the commit."""

    name: str  # empty: a task's own
    command: str  # for sh
    timeout: float = _GATE_S  # 0: none
    strict: bool = False  # blocks also where it was red before the task
    red: str = ""  # "known": red before any task, which stops no run
    room: bool = True  # in a tree that holds exactly what is to be committed, where there is one
    again: int | None = None  # how often it runs once more where it is red; None: as kern chooses
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


@dataclass(frozen=True, slots=True)
class Spent:
    run: float = 0  # US dollars as the agents count them, API-equivalent
    task: float = 0  # in all runs
    run_tokens: float = 0
    task_tokens: float = 0


@dataclass(frozen=True, slots=True)
class Budget(Spent):
    """What may be spent; 0: no bound."""

    stage_tokens: float = 0  # in one process of an agent

    def reached(self, spent: Spent) -> str:
        """Which bound is reached, in words; empty while none is."""
        for unit, (least, form) in _UNITS.items():
            for what, most, used in self._bounds(spent, unit):
                if most - used < least:
                    return f"the {what}'s {form.format(used, most)}"
        return ""

    def left(self, spent: Spent, unit: str = "") -> float:
        """For the next stage; 0: no bound."""
        rests = [most - used for _, most, used in self._bounds(spent, unit)]
        rests += [self.stage_tokens] if unit and self.stage_tokens else []
        return round(max(min(rests), _MARGIN), 4) if rests else 0

    def _bounds(self, spent: Spent, unit: str) -> list[tuple[str, float, float]]:
        """Of the run and of the task: what may be spent, and what is."""
        rows = [(one, getattr(self, one + unit), getattr(spent, one + unit)) for one in _SCOPES]
        return [row for row in rows if row[1]]


@dataclass(frozen=True, slots=True)
class Worktree:
    """What each of several tasks at once needs, where no sandbox shows it your ignored files."""

    copy: tuple[str, ...] = ()  # paths of the person's tree
    setup: str = ""  # for sh, once

    @property
    def asks(self) -> tuple[str, ...]:
        """What it would start, a line each."""
        return (f"worktree setup: {self.setup}",) if self.setup else ()


@dataclass(frozen=True, slots=True)
class Settings:
    gates: tuple[Gate, ...] = ()
    models: Choices = field(default_factory=dict)
    agents: tuple[str, ...] = ()  # the first runs, the others stand in for it
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # argv of agents, by name
    endpoint: Endpoint | None = None  # of the `http` agent
    asks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the person's sandbox
    max_wait: float = 6 * 3600  # seconds, for a usage limit's reset
    keep: tuple[str, ...] = ()  # paths that are the tests', beside those of checks/measures.toml
    strict_tests: bool = False  # what is green only with its own changes of the tests has failed
    budget: Budget = field(default_factory=Budget)
    worktree: Worktree = field(default_factory=Worktree)
    notify: str = ""  # for sh; the person's to say
    hidden: Gate | None = None  # the person's, of which no agent learns more than its end
    allow_red: bool = False  # of the command line
    picked: Choices = field(default_factory=dict)  # of the command line: before all others

    def total(self, role: Role) -> float:
        """The time-out of an agent's process as a whole, seconds; 0: none."""
        own = self.models.get(role, Choice()).timeout
        return TOTAL[role] if own is None else own

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


_SINGLE = {
    "agents": models.AGENTS,
    "max_wait": toml.seconds,
    "keep": toml.texts("paths"),
    "strict_tests": toml.flag,
}
_GATE = toml.command(
    timeout=toml.seconds,
    strict=toml.flag,
    room=toml.flag,
    again=toml.one_of([0, 1]),
    red=toml.one_of(["known"], 'red = "known"'),
)
_USD = toml.value(
    "US dollars; 0 for no bound",
    toml.is_amount,
    "task = 20; tokens are bounded below [max_tokens]: task = 5_000_000",
)
_TOKENS = toml.value("a number of tokens; 0 for no bound", toml.is_amount, "5_000_000")
# Within the working tree: what lies elsewhere is none of a worktree's.
_PATH = r"(?!(?:.*/)?(?:\.|\.\.|\.git)(?:/|$))[^/\0]+(?:/[^/\0]+)*/?"
_PATHS = toml.texts("paths within the repository", _PATH, 'copy = [".env", "conf/local.yml"]')
_SHAPE = {
    **_SINGLE,
    "gates": {"*": _GATE},
    "stages": models.BY_ROLE,
    "max_cost": dict.fromkeys(_SCOPES, _USD),
    "max_tokens": dict.fromkeys((*_SCOPES, "stage"), _TOKENS),
    "worktree": {"copy": _PATHS, "setup": toml.text},
    "commands": models.COMMANDS,
    "sandbox": dict.fromkeys(OPENS, toml.texts("texts")),
    "agent": {"http": models.endpoint},
}


# `agent = "http"` above the tables, which TOML takes for the whole of [agent.http] below.
_AGENT = re.compile(rb"\A((?:(?!\s*\[).*\n)*?)agent[ \t]*=[ \t]*((['\"])[^'\"\n]*\3)")


def parse(data: bytes | str) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    settings = toml.read(_AGENT.sub(rb"\1agents = [\2]", data, 1), FILE, _SHAPE)
    http, gates = settings.get("agent", {}).get("http"), settings.get("gates", {})
    tokens = {f"{what}_tokens": most for what, most in settings.get("max_tokens", {}).items()}
    return Settings(
        gates=tuple(Gate(name, row.pop("run"), **row) for name, row in gates.items()),
        models={role: Choice(**row) for role, row in settings.get("stages", {}).items()},
        budget=Budget(**settings.get("max_cost", {}), **tokens),
        commands=settings.get("commands", {}),
        asks=settings.get("sandbox", {}),
        endpoint=http and replace(http, theirs=True),
        worktree=Worktree(**settings.get("worktree", {})),
        **{key: settings[key] for key in _SINGLE if key in settings},
    )
