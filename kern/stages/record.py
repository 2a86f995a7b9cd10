"""A stage file: what the agent said, and under the key `kern` what kern noted of the stage."""

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from kern import plain
from kern.checks.result import Red
from kern.git.refs import StartRef
from kern.memory.changes import Vote
from kern.model import Cause, Decision, Key, Saved, Stage
from kern.stages import answer
from kern.stages.answer import Answer, Code
from kern.system import workspace
from kern.system.workspace import Scope

T = TypeVar("T")
_ID = re.compile(r"[0-9a-f]{40,64}")
_OF_A_VERDICT = ("outcome", "proof", "red", "cause")


@dataclass(frozen=True, slots=True)
class Made:
    """The task's commit, noted before the branch moves to it, and what it does to LEARNINGS.md."""

    sha: str
    learned: str = ""
    votes: tuple[Vote, ...] = ()


class _Fact(Generic[T]):
    """What stands under `kern` by that name; what it lacks, or has in another form, is empty."""

    def __init__(self, empty: T) -> None:
        self.empty = empty

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.lstrip("_")

    def __get__(self, record: "StageRecord", owner: type) -> T:
        value = record.raw["kern"].get(self.name)
        return value if isinstance(value, type(self.empty)) else self.empty


@dataclass(frozen=True)
class StageRecord:
    """One stage file. Anybody can write it: `read` passes over one of another form."""

    stage: Stage
    raw: Mapping[str, Any]  # all of it, so that what this kern does not know is kept

    parent, task, nth = _Fact(""), _Fact(""), _Fact(1)
    attempt = _Fact(0)
    run = _Fact("")
    time = _Fact("")  # when the work on the task began
    base = _Fact("")  # the commit that was HEAD
    start, tree = _Fact(""), _Fact("")  # the snapshots before and after stage 2
    onto = _Fact("")  # the commit that the verdict is bound to, where HEAD has moved on since
    outcome = _Fact("")
    sent_back = _Fact(-1)  # how often a red gate let stage 2 not end yet; -1: no gate was to
    proof = _Fact("")
    fault = _Fact("")
    fixed = _Fact(0)  # how often hooks changed the task's files, or the branch moved under them
    told = _Fact(dict[str, str]())  # of LEARNINGS.md: the texts of the entries by their ids
    voted = _Fact(dict[str, list[int]]())  # what its votes make of the counts, by the ids
    _red, _commit = _Fact(dict[str, Any]()), _Fact(dict[str, Any]())

    @property
    def key(self) -> Key:
        return Key(self.parent, self.task, self.nth)

    @property
    def red(self) -> Red | None:
        found = self._red
        return Red(str(found["name"]), found.get("code"), str(found["output"])) if found else None

    @property
    def cause(self) -> Cause:
        """What it failed over, where it did."""
        return next((one for one in Cause if one == self.raw["kern"].get("cause")), Cause.OTHER)

    @property
    def made(self) -> Made | None:
        found = self._commit
        votes = tuple(Vote(*row) for row in found.get("votes", ()))
        return Made(str(found["sha"]), str(found.get("learned")), votes) if found else None

    @property
    def bound_to(self) -> str:
        return self.onto if _ID.fullmatch(self.onto) else self.base

    @property
    def change(self) -> tuple[str, str]:
        """The snapshots before and after stage 2."""
        return self.start, self.tree

    @property
    def written(self) -> str:
        return json.dumps(self.raw)

    @property
    def decision(self) -> Decision:
        """What kern found of stage 2."""
        word, _, why = self.outcome.partition(":")
        return Decision(Saved(word) if word else Saved.OPEN, why.removeprefix(" "))

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
        return StageRecord(self.stage, {**self.raw, "kern": kept})

    def undecided(self, **facts: object) -> "StageRecord":
        """Without what a verdict says: gates and judges decide anew."""
        return self.noting(**dict.fromkeys(_OF_A_VERDICT), **facts)


# ---------------------------------------------------------------- on the disk


def read(scope: Scope, stage: Stage, attempt: int = 0) -> StageRecord | None:
    """The stage file, or that of an earlier attempt, if it is there and whole."""
    raw = workspace.load(scope, stage, attempt)
    found = StageRecord(stage, raw) if raw is not None else None
    try:
        _ = found and (
            found.decision,
            found.red,
            found.made,
            {n: (int(h), int(m)) for n, (h, m) in found.voted.items()},
            {*found.told.values()},
        )
    except (KeyError, TypeError, ValueError):
        return None
    return found


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
    kern = {**named, "stage": str(stage), "attempt": attempt, **facts}
    return StageRecord(stage, {**result, "kern": kern})


def counts(second: StageRecord, start: StartRef | None, attempt: int) -> bool:
    """Anyone can write the file, and which gates count is read from its start: that must be the
    start ref's. Where none stands, only what leads to no commit is believed; while that says that
    stage 2 has not ended, nothing.
    """
    if start and start.open:
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
