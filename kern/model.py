"""The words that many rooms speak."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Self

from kern import plain


class Stage(StrEnum):
    RESEARCH = "research"
    IMPLEMENT = "implement"
    COMMIT = "commit"

    @property
    def number(self) -> int:
        return list(Stage).index(self) + 1


class Aide(StrEnum):
    """An agent process beside the stages; it writes nothing."""

    JUDGE = "judge"
    PLANNER = "planner"


Role = Stage | Aide


class Tier(StrEnum):
    """What follows failed attempts."""

    IMPLEMENT = "implement"
    DECOMPOSE = "decompose"
    SKIP = "skip"
    CONCLUDE = "conclude"  # an experiment that did not work is a result


class Saved(StrEnum):
    """stage2.json of this attempt."""

    NONE = "none"
    OPEN = "without outcome"
    PROVED = "proved"
    FAILED = "failed"
    DECOMPOSED = "decomposed"
    SKIPPED = "skipped"
    ASKED = "asked"


class Cause(StrEnum):
    """What an attempt failed over."""

    FORM = "form"  # of its answer
    GATE = "gate"
    JUDGE = "judge"
    HOOK = "hook"  # of git's commit
    COMMIT = "commit"  # that stage rejected the change
    TIME = "time"
    COLLISION = "collision"  # it was finished, and what it changed was changed meanwhile
    LIMIT = "limit"  # it did what its stage must not do
    OWN = "own word"  # the agent says that it failed
    OTHER = "other"


class Decision(NamedTuple):
    """What kern found of stage 2, as its stage file holds it."""

    saved: Saved
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.saved}: {self.reason}" if self.reason else str(self.saved)


class Outcome(StrEnum):
    """How an iteration ends for its task."""

    DONE = "done"
    DECOMPOSED = "decomposed"
    SKIPPED = "skipped"
    BLOCKED = "blocked"
    CONCLUDED = "concluded"  # an experiment that did not work: [x], and its lesson is kept
    ASKED = "asked"  # waits for a person's answer


# Where a person would say it otherwise.
SAID: Mapping[str, str] = {Outcome.DECOMPOSED: "split", Outcome.CONCLUDED: "did not work"}


class Act(NamedTuple):
    """What an agent at work was seen to do: a message of its live output, or a part of one."""

    message: str  # its id: the parts of one message bear the same, and the same tokens
    calls: tuple[str, ...]  # of tools, with what they were given
    tokens: Mapping[str, int]  # by kind


@dataclass(frozen=True, slots=True)
class Cost:
    """What stages cost, as far as their answers tell."""

    usd: float = 0.0  # as the agents count them, API-equivalent
    unpriced: int = 0  # stages whose answer named no cost

    @classmethod
    def of(cls, price: float | None) -> Self:
        """Of one stage, by what its answer named."""
        return cls(price or 0.0, int(price is None))

    @property
    def known(self) -> float | None:
        """The dollars; never 0 where that may be wrong."""
        return None if self.unpriced and not self.usd else self.usd

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(round(self.usd + other.usd, 6), self.unpriced + other.unpriced)

    def __str__(self) -> str:
        if self.known is None:
            return "cost unknown"
        more = f" and {plain.count(self.unpriced, 'stage')} of unknown cost"
        return f"${self.known:.2f}{more if self.unpriced else ''}"


UNVERIFIED = "unverified"
HIDDEN = "a hidden gate"  # all that is said of it
_CODES = {126: "cannot be executed", 127: "command not found"}


@dataclass(frozen=True, slots=True)
class Result:
    """One gate's end. `red_before`: how it was before the task, where that is known."""

    name: str  # as a note says it: `gate check`
    code: int | None  # None: it was ended, for what `output` says
    output: str  # the end of it
    seconds: float = 0.0
    red_before: bool | None = None
    strict: bool = False
    known_red: bool = False  # kern.toml says that it is red before any task
    log: str = ""  # where all of the output is
    closed: tuple[str, ...] = ()  # what the sandbox closed, which ends the output too
    flaky: str = ""  # it is green, and was red on the same files just before: how

    @property
    def red(self) -> bool:
        return self.code != 0

    @property
    def cannot_run(self) -> bool:
        return self.code in _CODES

    @property
    def blocks(self) -> bool:
        """A gate that was red before says nothing about the task, unless it is strict. One that
        cannot run says nothing at all.
        """
        return self.red and (self.strict or self.cannot_run or self.red_before is not True)

    def stops(self, allow_red: bool, *, first: bool) -> bool:
        """Whether no task may begin on a tree on which it ended like this; `first`: of the run,
        `allow_red`: as the person lets it.
        """
        excused = self.name == HIDDEN or (not self.strict and (allow_red or self.known_red))
        return self.cannot_run or (self.red and first and not excused)

    @property
    def how(self) -> str:
        if self.name.startswith("judge"):
            return "FAIL"
        if self.code is None:
            return "ended"
        if self.code < 0:
            return f"ended by signal {-self.code}"
        return f"exit {self.code}" + (f", {_CODES[self.code]}" if self.code in _CODES else "")

    def against(self, red_before: bool | None) -> "Result":
        """The same, beside what it was on the tree before the task; where this run did not see
        that, kern.toml's word counts.
        """
        red = self.known_red or None
        return replace(self, red_before=red if red_before is None else red_before)


def unverified(proved: str) -> bool:
    """Whether no gate and no judge passed, by what `proved` said."""
    return not proved or proved.startswith(UNVERIFIED)


class Need(NamedTuple):
    """A task that kern alone does not bring to an end."""

    number: int  # as `kern status` shows it; 0: not in SPEC.md any more
    line: int
    task: str
    why: str
    do: str  # what a person types


class Marker(StrEnum):
    PENDING = " "
    ACTIVE = "~"
    DONE = "x"


class Key(NamedTuple):
    """Identifies a task across edits: its parent's text, its own, which of the equal ones."""

    parent: str
    text: str
    nth: int = 1


SPEC = "SPEC.md"
LEARNINGS = "LEARNINGS.md"


@dataclass(frozen=True, slots=True)
class Needs:
    """What an agent's own program needs of the machine to work; paths are absolute."""

    login: tuple[str, ...] = ()  # files and folders that it renews
    settings: tuple[str, ...] = ()  # files and folders that it, and the next session, obeys
    # JSON files of which it needs these keys of the top level alone: see `login.lay`.
    excerpts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variables: tuple[str, ...] = ()  # names, or where they end in `_` beginnings of names
    commands: tuple[str, ...] = ()  # of the person's settings, for a shell: they print a key
    hosts: tuple[str, ...] = ()  # of the person's own machine with the port: `127.0.0.1:4141`
