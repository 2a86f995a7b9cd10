"""A stage file: what the agent said, and under the key `kern` what kern noted of the stage."""

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from kern import plain
from kern.checks.result import Red
from kern.errors import KernError
from kern.frozen import frozen
from kern.git import staging
from kern.git.refs import StartRef
from kern.git.staging import Staged
from kern.memory.changes import Swap, Vote
from kern.model import Cause, Decision, Key, Saved, Stage
from kern.stages import answer
from kern.stages.answer import Answer, Code
from kern.system import workspace
from kern.system.workspace import Scope

_ID = re.compile(r"[0-9a-f]{40,64}")
_OF_A_VERDICT = ("outcome", "proof", "red", "cause")


@frozen
class Made:
    """The task's commit, noted before the branch moves to it, and what it does to LEARNINGS.md."""

    sha: str
    learned: str = ""
    votes: tuple[Vote, ...] = ()


@dataclass(frozen=True)
class StageRecord:
    """One stage file. What it lacks, or has in another form, is empty."""

    stage: Stage
    raw: Mapping[str, Any]  # all of it, so that what this kern does not know is kept
    key: Key
    attempt: int
    run: str
    time: str  # when the work on the task began
    base: str  # the commit that was HEAD
    start: str  # the snapshots before and after stage 2
    tree: str
    onto: str  # the commit that the verdict is bound to, where HEAD has moved on since
    index: Staged  # what stage 2 did to the index alone
    outcome: str
    red: Red | None
    cause: Cause  # what it failed over, where it did
    sent_back: int  # how often a red gate let stage 2 not end yet; -1: no gate was to
    proof: str
    fault: str
    fixed: int  # how often commit hooks changed the task's files, or the branch moved under them
    made: Made | None

    @property
    def bound_to(self) -> str:
        return self.onto if _ID.fullmatch(self.onto) else self.base

    @property
    def change(self) -> tuple[str, str]:
        """The snapshots before and after stage 2."""
        return self.start, self.tree

    @property
    def day(self) -> str:
        """A resume past midnight must not write another."""
        return self.time[:10]

    @property
    def written(self) -> str:
        return json.dumps(self.raw)

    @property
    def decision(self) -> Decision:
        """What kern found of stage 2."""
        word, _, why = self.outcome.partition(":")
        try:
            return Decision(Saved(word) if self.outcome else Saved.OPEN, why.removeprefix(" "))
        except ValueError:
            raise KernError(
                f"stage2.json holds an unknown outcome: {word}",
                hint='rm "$(kern path)/stage2.json", then run kern again',
            ) from None

    @property
    def told(self) -> dict[str, str]:
        """The entries of LEARNINGS.md that the stage was told: their marks by their ids."""
        told = self.raw["kern"].get("told")
        return {str(id): str(mark) for id, mark in told.items()} if isinstance(told, dict) else {}

    @property
    def swaps(self) -> tuple[Swap, ...] | None:
        """What its votes change in LEARNINGS.md, once that is settled."""
        found = self.raw["kern"].get("swaps")
        return None if found is None else _swaps(found)

    @cached_property
    def answer(self) -> Answer:
        return answer.parse(self.stage, self.said)

    @property
    def rejects(self) -> bool:
        """Whether stage 3 says that the change must not be committed."""
        return self.answer.code is Code.REJECT

    @cached_property
    def said(self) -> str:
        """`.result`, as it may go into notes."""
        text = self.raw.get("result")
        return plain.masked(text, plain.secrets(os.environ)) if isinstance(text, str) else ""

    def noting(self, **facts: object) -> "StageRecord":
        """The same with these values under `kern`; None takes one out."""
        kern = {**self.raw["kern"], **facts}
        kept = {name: value for name, value in kern.items() if value is not None}
        return parse(self.stage, {**self.raw, "kern": kept})

    def undecided(self, **facts: object) -> "StageRecord":
        """Without what a verdict says: gates and judges decide anew."""
        return self.noting(**dict.fromkeys(_OF_A_VERDICT), **facts)


def parse(stage: Stage, raw: Mapping[str, Any]) -> StageRecord:
    """Never raises: anybody can write the file."""
    kern = raw["kern"]

    def text(name: str) -> str:
        value = kern.get(name)
        return value if isinstance(value, str) else ""

    def number(name: str, otherwise: int) -> int:
        value = kern.get(name)
        return value if isinstance(value, int) else otherwise

    words = ("run", "time", "base", "start", "tree", "onto", "outcome", "proof", "fault")
    return StageRecord(
        stage,
        raw,
        Key(text("parent"), text("task"), number("nth", 1)),
        attempt=number("attempt", 0),
        index=staging.read(kern),
        red=_red(kern.get("red")),
        cause=Cause(text("cause")) if text("cause") in [*Cause] else Cause.OTHER,
        sent_back=number("sent_back", -1),
        fixed=number("fixed", 0),
        made=_made(kern.get("commit")),
        **{name: text(name) for name in words},
    )


def _red(value: object) -> Red | None:
    if not isinstance(value, dict):
        return None
    return Red(str(value.get("name")), value.get("code"), str(value.get("output")))


def _made(value: object) -> Made | None:
    if not isinstance(value, dict):
        return None
    return Made(str(value.get("sha")), str(value.get("learned")), _votes(value.get("votes")))


def _swaps(value: object) -> tuple[Swap, ...]:
    rows = value if isinstance(value, list) else []
    return tuple((str(row[0]), str(row[1])) for row in rows if _many(row, 2))


def _votes(value: object) -> tuple[Vote, ...]:
    rows = value if isinstance(value, list) else []
    return tuple(Vote(str(row[0]), row[1] is True, str(row[2])) for row in rows if _many(row, 3))


def _many(row: object, count: int) -> bool:
    return isinstance(row, list) and len(row) == count


# ---------------------------------------------------------------- on the disk


def read(scope: Scope, stage: Stage, attempt: int = 0) -> StageRecord | None:
    """The stage file, or that of an earlier attempt, if it is there and whole."""
    raw = workspace.load(scope, stage, attempt)
    return parse(stage, raw) if raw is not None else None


def load(scope: Scope, stage: Stage) -> StageRecord | None:
    """The stage file, where it names git's objects as kern does."""
    found = read(scope, stage)
    if found is None:
        return None
    ids = (found.base, *(found.change if stage is Stage.IMPLEMENT else ()))
    return found if all(map(_ID.fullmatch, ids)) else None


def save(scope: Scope, record: StageRecord) -> None:
    workspace.save(scope, record.stage, dict(record.raw))


def new(
    stage: Stage, result: Mapping[str, object], key: Key, attempt: int, **facts: object
) -> StageRecord:
    """The agent's result object plus the one key `kern`."""
    named = {"task": key.text, "parent": key.parent, "nth": key.nth}
    return parse(
        stage,
        {**result, "kern": {**named, "stage": str(stage), "attempt": attempt, **facts}},
    )


def counts(second: StageRecord, start: StartRef | None, attempt: int) -> bool:
    """Anyone can write the file, and which gates count is read from its start: that must be the
    start ref's. Where none stands, only what leads to no commit is believed; while that says that
    stage 2 has not ended, nothing.
    """
    if start and start.spec:
        return False
    if start is None or start.attempt != attempt:
        return second.decision.saved not in (Saved.OPEN, Saved.PROVED)
    return (second.start, second.base) == (start.tree, start.base)


def note_commit(scope: Scope, key: Key, made: Made) -> None:
    """In the task's stage2.json, where there is one."""
    second = read(scope, Stage.IMPLEMENT)
    if second and second.key == key:
        save(scope, second.noting(commit=asdict(made)))


def sweep(scope: Scope) -> None:
    """Stage files to history; their time and task name the folder: a killed sweep goes on."""
    found = next(filter(None, (read(scope, stage) for stage in Stage)), None)
    when, task = (found.time, found.key.text) if found else ("", "")
    workspace.sweep(scope, history_name(when or now(), task or "leftover"))


def history_name(when: str, task: str) -> str:
    return f"{re.sub('[^0-9TZ]', '', when)[:16]}-{plain.slug(task)}"


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
