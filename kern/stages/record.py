"""A stage file: what the agent said, and under the key `kern` what kern noted of the stage."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from kern import plain
from kern.checks.result import Red
from kern.git.refs import StartRef
from kern.model import Cause, Decision, Key, Saved, Stage
from kern.stages import answer
from kern.stages.answer import Answer
from kern.system import workspace
from kern.system.workspace import Scope

_ID = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True)
class StageRecord:
    stage: Stage
    result: Mapping[str, Any]  # what the agent's CLI printed
    task: str = ""
    parent: str = ""
    nth: int = 1
    attempt: int = 0
    run: str = ""
    time: str = ""  # when the work on the task began
    base: str = ""  # the commit that was HEAD
    start: str = ""  # the snapshots before and after stage 2
    tree: str = ""
    onto: str = ""  # the commit that the verdict is bound to, where HEAD has moved on since
    outcome: str = ""
    proof: str = ""
    red: Red | None = None
    cause: str = Cause.OTHER.value  # what it failed over, where it did
    fault: str = ""
    acted: bool = True  # stage 2 can have changed a file, as far as is known
    fixed: int = 0  # how often hooks changed the task's files, or the branch moved under them
    told: Mapping[str, str] = field(default_factory=dict)  # of LEARNINGS.md: texts by their ids
    commit: str = ""  # the task's, noted before the branch moves to it

    @property
    def key(self) -> Key:
        return Key(self.parent, self.task, self.nth)

    @property
    def bound_to(self) -> str:
        return self.onto if _ID.fullmatch(self.onto) else self.base

    @property
    def change(self) -> tuple[str, str]:
        """The snapshots before and after stage 2."""
        return self.start, self.tree

    @property
    def value(self) -> dict[str, Any]:
        """As the file holds it."""
        noted = {name: value for name, value in asdict(self).items() if value is not None}
        return {**noted.pop("result"), "kern": noted}

    @property
    def written(self) -> str:
        return json.dumps(self.value)

    @property
    def decision(self) -> Decision:
        """What kern found of stage 2."""
        word, _, why = self.outcome.partition(":")
        return Decision(Saved(word) if word else Saved.OPEN, why.removeprefix(" "))

    @cached_property
    def answer(self) -> Answer:
        return answer.parse(self.stage, self.said)

    @property
    def said(self) -> str:
        text = self.result.get("result")
        return text if isinstance(text, str) else ""

    def noting(self, **facts: Any) -> "StageRecord":
        return replace(self, **facts)

    def undecided(self, **facts: Any) -> "StageRecord":
        """Without what a verdict says: gates and judges decide anew."""
        verdict = {"outcome": "", "proof": "", "red": None, "cause": Cause.OTHER.value}
        return self.noting(**verdict, **facts)


_FACTS = {one.name for one in fields(StageRecord)[2:]} - {"red"}


def parse(stage: Stage, raw: Mapping[str, Any]) -> StageRecord | None:
    """Anybody can write the file: what has another form than a fact has is not read, and a file
    whose verdict cannot be read, or that names none of git's objects, does not count.
    """
    empty = StageRecord(stage, {})
    try:
        result = dict(raw)
        noted = result.pop("kern")
        there = ((name, noted[name]) for name in _FACTS & noted.keys())
        facts = {name: fact for name, fact in there if isinstance(fact, type(getattr(empty, name)))}
        if red := noted.get("red"):
            facts["red"] = Red(str(red["name"]), red.get("code"), str(red["output"]))
        record = StageRecord(stage, result, **facts)
        _ = record.decision, {*record.told.values()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    ids = (record.base, *(record.change if stage is Stage.IMPLEMENT else ()))
    return record if all(map(_ID.fullmatch, ids)) else None


# ---------------------------------------------------------------- on the disk


def read(scope: Scope, stage: Stage, attempt: int = 0) -> StageRecord | None:
    """The stage file, or that of an earlier attempt, if it is there and whole."""
    try:
        return parse(stage, json.loads(workspace.read(scope.stage_file(stage, attempt)) or b""))
    except (ValueError, RecursionError):
        return None


def save(scope: Scope, record: StageRecord) -> None:
    workspace.save(scope, record.stage, record.value)


def counts(second: StageRecord, start: StartRef | None, attempt: int) -> bool:
    """Anyone can write the file, and which gates count is read from its start: that must be the
    start ref's. Where none stands, only what leads to no commit is believed.
    """
    if start is None or start.attempt != attempt:
        return second.decision.saved not in (Saved.OPEN, Saved.PROVED)
    return (second.start, second.base) == (start.tree, start.base)


def note_commit(scope: Scope, key: Key, commit: str) -> None:
    """In the task's stage2.json, where there is one."""
    second = read(scope, Stage.IMPLEMENT)
    if second and second.key == key:
        save(scope, second.noting(commit=commit))


def sweep(scope: Scope) -> None:
    """Stage files to history; their time and task name the folder: a killed sweep goes on."""
    latest = next(filter(None, (read(scope, stage) for stage in Stage)), None)
    when, task = (latest.time, latest.task) if latest else ("", "")
    workspace.sweep(scope, history_name(when or now(), task or "leftover"))


def history_name(when: str, task: str) -> str:
    return f"{re.sub('[^0-9TZ]', '', when)[:16]}-{plain.slug(task)}"


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
