"""What kern asks of an agent CLI, and what each module in this room turns its answers into."""

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import urlsplit

from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.model import SUBSCRIPTION as SUBSCRIPTION
from kern.model import Act, Needs, Output, Role


@dataclass(frozen=True, slots=True)
class Ended:
    """How the agent's process came to its end."""

    code: int  # negative: the signal that ended it
    stderr: str = ""  # the end of it
    overflow: int = 0  # bytes of output at which kern ended it
    timed_out: str = ""  # what of its time was over when kern ended it


@dataclass(frozen=True, slots=True)
class Reply:
    result: dict[str, Any]  # the result object as it came, for the stage file
    text: str = ""
    cost_usd: float | None = None
    turns: int | None = None
    session: str = ""
    tokens: Mapping[str, int] = field(default_factory=dict)  # by kind
    version: str = ""
    denied: tuple[str, ...] = ()  # tools that were refused
    complaint: str = ""  # what the last tool call that failed said, the end of it
    sent_back: int = 0  # how often a red gate let it not end yet
    wrote: tuple[str, ...] = ()  # tools that ran although the stage does not offer them
    errors: tuple[str, ...] = ()  # typed words of the dialect
    resets_at: int | None = None  # epoch seconds, of a usage limit
    broke: bool = False  # it used up its budget


class Grade(StrEnum):
    TRANSIENT = "transient"  # the same call again may succeed: a retry
    PERMANENT = "permanent"  # a person must settle it: the run stops
    LIMIT = "usage limit"
    FAILED = "failed"  # the stage ran to a bad end: its result counts as an answer


@dataclass(frozen=True, slots=True)
class Fault:
    grade: Grade
    message: str
    hint: str = ""
    resets_at: int | None = None
    away: bool = False  # the API, or the network: what passes may take hours


@dataclass(frozen=True, slots=True)
class Payer:
    who: str  # empty where that cannot be known
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """One process of an agent, as kern wants it."""

    role: Role
    model: str
    effort: str = ""  # empty: what the agent takes by itself
    output: Output = Output.STREAM
    contract: str = ""  # a file for the system prompt, for an agent that takes one
    folder: str = ""  # where its `files` lie
    budget: float = 0  # US dollars, 0 for none
    patience: float = 0  # seconds that a command of its shell may take, 0 for its own choice
    mark: str = ""  # random, another for each process
    given: Mapping[str, str] = field(default_factory=dict)  # the environment that kern has
    root: str = ""  # the top level, where it is started
    nests: bool = True  # a sandbox that it makes can be: not within every one of kern's
    # Label, command, seconds (0: as long as it takes), and how often it runs once more (None: as a
    # gate does) of those that send it back where it would end and they are red.
    gates: Sequence[tuple[str, str, float, int | None]] = ()


class Agent(Protocol):
    """One agent CLI. The prompt goes to its stdin; all it decides, it decides on values."""

    NAME: str
    PROGRAM: str  # what is started: a name on PATH, or a path; empty: the Python that runs kern
    VARIABLE: str  # of the environment: names the program to start in its place
    INSTALL: str  # what a person types
    LOGIN: str  # what a person does who is not logged in
    OLDEST: tuple[int, ...]  # version that works
    # Of a project: the files that make it start programs, and the folders of such, with a slash.
    FILES: tuple[str, ...]
    STATUS: tuple[str, ...]  # its arguments that print whether it is logged in; empty: none do
    TAKES_CONTRACT: bool  # a file for the system prompt; else the prompt begins with its text
    RUNS_GATES: bool  # those of a `Launch`
    READS_GUIDANCE: bool  # in implement: CLAUDE.md, without kern; what is only in AGENTS.md never

    def unheld(self, role: Role) -> str:
        """Why the agent cannot be held to what the role may do; empty where it can."""

    def files(self, launch: Launch) -> Mapping[str, str]:
        """What has to lie in `Launch.folder` before it starts, by name."""

    def argv(self, launch: Launch) -> list[str]: ...

    def environment(self, launch: Launch) -> dict[str, str]: ...

    def tools(self, role: Role) -> tuple[str, ...]:
        """As a person reads them."""

    def objects(self, file: BinaryIO) -> Iterable[Mapping[str, Any]]:
        """What it printed, one by one; see `transcript.objects`."""

    def read(self, seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
        """The transcript's objects as one value; None where there is no result among them."""

    def act(self, line: bytes) -> Act | None:
        """What a line of the live output shows it doing; None where it shows nothing."""

    def refused(self, line: bytes) -> Fault | None:
        """What a line of the live output says that waiting would not mend."""

    def fault(self, reply: Reply | None, ended: Ended) -> Fault | None:
        """What went wrong; None for a sound reply."""

    def unattended(self, env: Mapping[str, str], *, root: bool) -> Fault | None:
        """Why it would not work for this user without a person beside it."""

    def login(self, code: int, said: str) -> str | None:
        """How it is logged in, by what its `STATUS` printed: empty where it is not, None where it
        does not tell.
        """

    def payer(
        self, env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]
    ) -> Payer:
        """Who pays, as far as the environment and files tell. `text`: the beginning of a file,
        empty where there is none.
        """

    def needs(self, env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
        """`text`: as for `payer`."""

    def started(self, files: Mapping[str, bytes]) -> list[str]:
        """What those of its `FILES` that are there start, a line each."""


def anybody(env: Mapping[str, str], *, root: bool) -> Fault | None:
    """`Agent.unattended` of one that works for any user."""
    return None


def patient(line: bytes) -> Fault | None:
    """`Agent.refused` of one that gives up by itself, or whose lines tell nothing of it."""
    return None


@dataclass(frozen=True, slots=True)
class Program:
    """An agent as a run starts it."""

    agent: Agent
    command: str  # its program, with its whole path once that is known


# A command that does what kern does, and nobody else; a pattern of Python and JavaScript alike.
PUBLISHES = r"(^|[\s;&|({/])git(\s+-\S+(\s+[^-\s]\S*)?)*\s+(commit|push)\b"
_BASE_URL = re.compile(r'base_?url"?\s*[:=]\s*"(https?://[^"\s]+)"', re.I)
DEFAULT = "claude"
ENDPOINT = "http"  # by an endpoint of the settings
AGENTS = {  # modules, loaded when they are used
    DEFAULT: "kern.agents.claude",
    "codex": "kern.agents.codex",
    "gemini": "kern.agents.gemini",
    ENDPOINT: "kern.agents.http",
    "opencode": "kern.agents.opencode",
    "pi": "kern.agents.pi",
}

_MODELS = {
    DEFAULT: r"(opus|sonnet|haiku|claude)\b",
    "codex": r"(gpt|o\d|codex)\b",
    "gemini": r"gemini\b",
}


def foreign(model: str, agent: str) -> bool:
    """Whether it is the name of one vendor's model, and the agent is another one's."""
    whose = [name for name, names in _MODELS.items() if re.match(names, model)]
    return bool(whose) and agent not in whose


OWN: dict[str, Agent] = {}  # those that the settings of this run name


def know(commands: Mapping[str, Agent], endpoint: Endpoint | None) -> None:
    """From now on `find` knows these, too, and no others of a person's or project's own. Raises
    UsageError for a name that is taken.
    """
    if taken := sorted(commands.keys() & AGENTS.keys()):
        raise UsageError(
            f"commands.{taken[0]} has the name of an agent that kern brings",
            hint="give it another name, in [commands] of kern.toml",
        )
    OWN.clear()
    OWN.update(commands)
    if endpoint:
        OWN[ENDPOINT] = importlib.import_module(AGENTS[ENDPOINT]).Http(endpoint)


def find(name: str) -> Agent:
    """Raises UsageError for one that kern does not know."""
    if name in OWN:
        return OWN[name]
    if name not in AGENTS:
        known = ", ".join(dict.fromkeys((*AGENTS, *OWN)))
        raise UsageError(f"kern knows no agent {name!r}", hint=f"one of {known}")
    module = importlib.import_module(AGENTS[name])
    return cast(Agent, getattr(module, "AGENT", module))


def host(url: str) -> str:
    """Where a URL leads, as `Needs.hosts` has it; empty where it leads nowhere."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if not (name in ("localhost", "::1") or name.startswith("127.")):
        return name
    shown = f"[{name}]" if ":" in name else name
    return f"{shown}:{port or (443 if parts.scheme == 'https' else 80)}"


def endpoints(settings: str) -> list[str]:
    """Where the base URLs of a person's settings lead, in JSON or TOML; see `host`."""
    return [found for url in _BASE_URL.findall(settings) if (found := host(url))]


def paths(env: Mapping[str, str], *names: str) -> tuple[str, ...]:
    """The files and folders that variables of the environment name."""
    return tuple(env[name] for name in names if env.get(name, "").startswith("/"))


def version(text: str) -> tuple[int, ...]:
    """The first version number in a text, as three numbers; empty where there is none."""
    match = re.search(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text)
    return tuple(map(int, match.groups())) if match else ()
