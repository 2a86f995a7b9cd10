"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kern import models, plain, toml
from kern.model import HIDDEN, Aide, Role, Stage
from kern.models import Choices, Endpoint

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
    red: str = ""  # "known": red before any task, which stops no run
    room: bool = True  # in a tree that holds exactly what is to be committed, where there is one
    again: int | None = None  # how often it runs once more where it is red; None: as kern chooses
    hidden: str | None = None  # of a hidden one: the folder that is laid over the tree

    @property
    def known_red(self) -> bool:
        return self.red == "known"

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
    run: float = 0  # US dollars as the agents count them, API-equivalent
    task: float = 0  # in all runs
    run_tokens: float = 0
    task_tokens: float = 0


@dataclass(frozen=True, slots=True)
class Budget(Spent):
    """What may be spent; 0: no bound."""

    def reached(self, spent: Spent) -> str:
        """Which bound is reached, in words; empty while none is."""
        for what, most, used in (("run", self.run, spent.run), ("task", self.task, spent.task)):
            if most and used > most - _MARGIN:
                return f"the {what}'s budget is used up: ${used:.2f} of ${most:.2f}"
        for what, most, used in (
            ("run", self.run_tokens, spent.run_tokens),
            ("task", self.task_tokens, spent.task_tokens),
        ):
            if most and used >= most:
                return f"the {what}'s tokens are used up: {used:,.0f} of {most:,.0f}"
        return ""

    def left(self, spent: Spent) -> float:
        """US dollars for the next stage; 0: no bound."""
        bounds = (self.run, spent.run), (self.task, spent.task)
        rests = [most - used for most, used in bounds if most]
        return round(max(min(rests), _MARGIN), 4) if rests else 0

    def left_tokens(self, spent: Spent) -> float:
        bounds = (self.run_tokens, spent.run_tokens), (self.task_tokens, spent.task_tokens)
        rests = [most - used for most, used in bounds if most]
        return max(min(rests), 1) if rests else 0


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
    worktree: Worktree = field(default_factory=Worktree)
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


_SINGLE: toml.Rows = {
    "agents": models.agents,
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
    known_red='write red = "known"',
)


class Tokens(float):
    """A bound of them, where others are US dollars."""


_COUNT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?([kM]?) tokens")
_BOUND = toml.value('US dollars, or a text like "50M tokens"; 0 for no bound', toml.is_amount)


def _bound(value: Any) -> float:
    count = _COUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    return (
        Tokens(float(count[1]) * {"k": 1e3, "M": 1e6}.get(count[2], 1)) if count else _BOUND(value)
    )


def _budget(value: Any) -> Budget:
    bounds = _BOUNDS(value).items()
    return Budget(**{f"{key}_tokens" if type(one) is Tokens else key: one for key, one in bounds})


_BOUNDS = toml.table({"run": _bound, "task": _bound, "stage": "take it out, or bound the task"})
# Within the working tree: what lies elsewhere is none of a worktree's.
_PATH = r"(?!(?:.*/)?(?:\.|\.\.|\.git)(?:/|$))[^/\0]+(?:/[^/\0]+)*/?"
_WORKTREE = toml.table(
    {
        "copy": toml.texts(
            "paths within the repository", _PATH, 'copy = [".env", "conf/local.yml"]'
        ),
        "setup": toml.value("a command", toml.is_text, 'setup = "uv sync --frozen"'),
        "link": "take it out: in a sandbox workers see what git ignores in your tree; without one "
        "setup makes it (kern help guide)",
    }
)
_MINE = f"it is yours to say, for all repositories: put it into {PERSON}"
ELSEWHERE: toml.Rows = {  # what neither file says any more
    "awake": "take it out: KERN_AWAKE=off in the environment says it",
    "remote": "git remote add kern URL, in the repository",
    "scheduler": "kern --scheduler host:8786",
    "fleet": "git remote add kern URL, and kern --scheduler host:8786",
}
_NOTHING = ("probes", "snapshot", "max_failures", "max_rounds", "large_file", "search")
_ROWS: toml.Rows = {
    **_SINGLE,
    "gates": toml.each(_GATE),
    "stages": models.BY_ROLE,
    "max_cost": _budget,
    "worktree": _WORKTREE,
    "commands": models.COMMANDS,
    "sandbox": toml.table({**dict.fromkeys(OPENS, toml.texts("texts")), "mode": _MINE}),
    "agent": toml.table({"http": models.endpoint, "output": "take it out: kern chooses"}),
    # ------------------------------------------------------------ as earlier kerns had them
    **ELSEWHERE,
    "models": 'write [stages.ROLE], and below it: model = "NAME"',
    "timeouts": 'write [stages.ROLE], and below it: timeout = "60m"; a gate has its own: '
    'test = { run = "make test", timeout = "20m" }',
    "max_tokens": 'write [max_cost], and below it: task = "5M tokens"',
    "max_minutes": "kern --until 07:00 ends a run",
    **dict.fromkeys(_NOTHING, "take it out: kern does without it"),
    "branch": "git switch -c NAME, then kern",
    "jobs": "kern -j 4",
    **dict.fromkeys(("notify", "hidden"), _MINE),
}


# `agent = "http"` above the tables, which TOML takes for the whole of [agent.http] below.
_AGENT = re.compile(rb"\A((?:(?!\s*\[).*\n)*?)agent[ \t]*=[ \t]*((['\"])[^'\"\n]*\3)")


def parse(data: bytes | str) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    settings = toml.read(_AGENT.sub(rb"\1agents = [\2]", data, 1), FILE, _ROWS)
    http, stages = settings.get("agent", {}).get("http"), settings.get("stages", {})
    return Settings(
        gates=tuple(Gate(name, **row) for name, row in settings.get("gates", {}).items()),
        timeouts={role: row["timeout"] for role, row in stages.items() if "timeout" in row},
        models=models.of_settings(stages),
        budget=settings.get("max_cost", Budget()),
        commands=settings.get("commands", {}),
        asks=settings.get("sandbox", {}),
        endpoint=http and replace(http, theirs=True),
        worktree=Worktree(**settings.get("worktree", {})),
        **{key: settings[key] for key in _SINGLE if key in settings},
    )
