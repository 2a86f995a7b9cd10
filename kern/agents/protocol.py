"""What kern asks of an agent CLI: `start` says what to run, `read` what came of it."""

import importlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from kern.agents import transcript
from kern.agents.places import Place
from kern.agents.transcript import Object
from kern.errors import UsageError
from kern.model import Act, Aide, Role
from kern.models import Endpoint

# ---------------------------------------------------------------- one process


class Call(NamedTuple):
    """One process of an agent, as kern wants it. The prompt goes to its stdin."""

    program: str
    role: Role
    model: str
    effort: str = ""  # empty: what the agent takes by itself
    contract: str = ""  # a file for the system prompt, for an agent that takes one
    folder: str = ""  # where the files of `Start` lie
    budget: float = 0  # US dollars, 0 for none
    patience: float = 0  # seconds that a command of its shell may take, 0 for its own choice
    given: Mapping[str, str] = {}  # the environment that kern has
    root: str = ""  # the top level, where it is started
    obeyed: Sequence[str] = ()  # what is there of the project's files that it obeys
    nests: bool = True  # a sandbox that it makes can be: not within every one of kern's
    # Label, command, seconds (0: as long as it takes), and how often it runs once more (None: as a
    # gate does) of those that send it back where it would end and they are red.
    gates: Sequence[tuple[str, str, float, int | None]] = ()


class Start(NamedTuple):
    argv: list[str]
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}  # below `Call.folder`, by name


class Ended(NamedTuple):
    """How the agent's process came to its end."""

    code: int  # negative: the signal that ended it
    stderr: str = ""  # the end of it
    overflow: int = 0  # bytes of output at which kern ended it
    timed_out: str = ""  # what of its time was over when kern ended it


class Answer(NamedTuple):
    """`cost_usd`, `turns`: where the CLI tells them."""

    text: str = ""
    cost_usd: float | None = None
    turns: int | None = None
    tokens: Mapping[str, int] = {}  # by kind
    denied: tuple[str, ...] = ()  # calls that were refused
    sent_back: int = 0  # how often a red gate let it not end yet

    @property
    def result(self) -> dict[str, Any]:
        """For the stage file: `jq .result` and `jq .total_cost_usd` read it whoever answered."""
        found = {"type": "result", "result": self.text, "total_cost_usd": self.cost_usd}
        used = {f"{kind}_tokens": count for kind, count in self.tokens.items()}
        return {**found, "num_turns": self.turns, "usage": used}


@dataclass(eq=False)
class AgentError(Exception):
    """What went wrong, in the agent's words."""

    message: str
    hint: str = ""
    answer: Answer | None = None  # what it cost nevertheless
    away: bool = False  # it is the API, or the network; what passes may take hours
    resets_at: int | None = None  # epoch seconds, where it tells
    after: float = 0  # the same, in seconds from now


class TryAgain(AgentError):
    """It passes."""


class Unusable(AgentError):
    """A person must settle it: the run stops."""


class Failed(AgentError):
    """The stage ran to a bad end: that counts as its answer."""


class OverBudget(AgentError):
    """It used up what it may cost."""


class AtLimit(AgentError):
    """Of its account, until it is reset."""


# ---------------------------------------------------------------- an agent


@dataclass(slots=True, kw_only=True)
class Agent:
    """One agent CLI. All that its functions decide, they decide on values."""

    name: str
    start: Callable[[Call], Start]
    # Of the transcript's objects, one by one. Raises AgentError.
    read: Callable[[Iterable[Object], Ended], Answer]
    # What an object of the live output shows it doing. Raises AgentError where that says that it
    # would go on without end.
    watch: Callable[[Object], Act | None] = lambda value: None
    objects: Callable[[BinaryIO], Iterable[Object]] = transcript.objects

    install: str  # what a person types
    login: str  # what a person does who is not logged in
    program: str = ""  # what is started: a name on PATH, or a path; empty: its name
    variable: str = ""  # of the environment: names the program to start in its place
    oldest: list[int] = field(default_factory=list)  # version that works; empty where it has none
    status: Sequence[str] = ()  # its arguments that print whether it is logged in
    logged_out: str = ""  # a pattern of what these print where it is not
    as_root: str = ""  # a variable without which it will not work unattended as root
    keys: Sequence[str] = ()  # variables that hold a key, so that it needs no login

    tools: Mapping[str, Sequence[str]]  # by role, as a person reads them; the judge's for others
    env: Mapping[str, str] = field(default_factory=dict)  # that its `start` sets for every role
    unheld: str = ""  # why it cannot be held to reading
    places: Sequence[Place] = ()  # what it has of a person's
    obeys: Sequence[str] = ()  # files of a project, and folders with a slash
    asks: Sequence[str] = ()  # what else a repository makes it do, a line each

    contract: bool = False  # takes a file for the system prompt; else it begins the prompt
    gates: bool = False  # runs those of a `Call`
    guidance: bool = False  # in implement it reads CLAUDE.md by itself; AGENTS.md never
    joined: bool = False  # what it complains of is part of the transcript

    def __post_init__(self) -> None:
        self.program = self.program or self.name
        self.variable = self.variable or f"KERN_{self.name.upper()}"

    def offers(self, role: Role) -> Sequence[str]:
        return self.tools.get(role, self.tools[Aide.JUDGE])


class Program(NamedTuple):
    """An agent as a run starts it."""

    agent: Agent
    command: str  # its program, with its whole path once that is known


DEFAULT = "claude"
ENDPOINT = "http"  # by an endpoint of the settings
AGENTS = (DEFAULT, "codex", "gemini", ENDPOINT, "opencode", "pi")  # modules, loaded when used
_MODELS = {DEFAULT: "opus|sonnet|haiku|claude", "codex": r"gpt|o\d|codex", "gemini": "gemini"}
OWN: dict[str, Agent] = {}  # those that the settings of this run name


def facts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("facts.toml").read_text("utf-8"))


def brought(name: str, start: Any, read: Any, watch: Any, **own: Any) -> Agent:
    """An agent that kern brings: its functions, and what `facts.toml` says of it."""
    table = facts()
    row = table[name]
    places = [*row.pop("places", ()), *([table["vendors"]] if row.pop("vendors", False) else ())]
    facets = {"places": [Place(**place) for place in places]} | row | own
    return Agent(name=name, start=start, read=read, watch=watch, **facets)


def foreign(model: str, agent: str) -> bool:
    """Whether it is the name of one vendor's model, and the agent is another one's."""
    whose = [name for name, names in _MODELS.items() if re.match(rf"({names})\b", model)]
    return bool(whose) and agent not in whose


def know(commands: Mapping[str, Agent], endpoint: Endpoint | None) -> None:
    """From now on `find` knows these, before those that kern brings, and no others than these."""
    OWN.clear()
    OWN.update(commands)
    if endpoint:
        OWN.setdefault(ENDPOINT, importlib.import_module("kern.agents.http").agent(endpoint))


def find(name: str) -> Agent:
    """Raises UsageError for one that kern does not know."""
    if name in OWN:
        return OWN[name]
    if name not in AGENTS:
        names = ", ".join(dict.fromkeys((*AGENTS, *OWN)))
        raise UsageError(f"kern knows no agent {name!r}", hint=f"one of {names}")
    agent: Agent = importlib.import_module(f"kern.agents.{name}").AGENT
    return agent


def version(text: str) -> list[int]:
    """The first version number in a text, as three numbers; empty where there is none."""
    match = re.search(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text)
    return [*map(int, match.groups())] if match else []
