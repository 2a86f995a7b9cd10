"""The bundled learnings of seven made-up projects, and tasks with what belongs to each of them.

Who belongs to what was decided by reading alone, before anything ranked them: an entry belongs to a
task where a person who did the task without it would probably get something wrong. So tasks speak
as SPEC.md does, and seldom in the words of what they need.

The line `when` of an entry was written by somebody who saw no task, and the research of a task by
somebody who saw no entry: as an agent writes them, of work that nobody knows yet.

Whoever changes a ranking leaves these files alone; a mistake in them is corrected by its own
reading, never by what a ranking finds.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kern.memory import entries
from kern.memory.entries import Entry

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Task:
    """As it stands in SPEC.md; `belong`: the ids of its entries, empty where none belongs."""

    project: str
    text: str
    belong: frozenset[str]
    research: str = ""

    def researched(self) -> "Task":
        """What the implement stage asks for."""
        return replace(self, text=f"{self.text}\n\n{self.research}")


@dataclass(frozen=True, slots=True)
class Bundle:
    """One LEARNINGS.md, oldest entry first, and tasks that would be done beside it."""

    name: str
    learnings: str
    entries: tuple[Entry, ...]
    tasks: tuple[Task, ...]

    def researched(self) -> "Bundle":
        return replace(self, tasks=tuple(task.researched() for task in self.tasks))


def projects(*, bare: bool = False) -> list[Bundle]:
    """Each project with its own LEARNINGS.md. `bare`: its entries do not say which work needs
    them.
    """
    return [_bundle(read["project"], [read], bare) for read in _all()]


def combined(*, bare: bool = False) -> Bundle:
    """All of them as one repository, with one LEARNINGS.md: the hard case."""
    return _bundle("combined", _all(), bare)


def _all() -> list[dict[str, Any]]:
    return [tomllib.loads(path.read_text("utf-8")) for path in sorted(HERE.glob("*.toml"))]


def _bundle(name: str, read: Sequence[Mapping[str, Any]], bare: bool) -> Bundle:
    # sorted() keeps the order of the files within a day, as entries of one day have an order.
    learnings = sorted((one for part in read for one in part["learning"]), key=lambda e: e["date"])
    ids = {one["id"]: f"L{number}" for number, one in enumerate(learnings, 1)}
    own = [_entry(one, ids[one["id"]], bare) for one in learnings]
    text = entries.appended("# Learnings\n", own)
    tasks = (_task(part["project"], one, ids) for part in read for one in part["task"])
    return Bundle(name, text, entries.parse(text).entries, tuple(tasks))


def _task(project: str, one: Mapping[str, Any], ids: Mapping[str, str]) -> Task:
    """`also`: what belongs to it beyond its own project, where that is at hand."""
    beyond: Iterable[str] = (name for name in one.get("also", ()) if name in ids)
    belong = frozenset(ids[name] for name in (*one["belong"], *beyond))
    return Task(project, one["text"], belong, one["research"])


def _entry(one: Mapping[str, Any], name: str, bare: bool) -> Entry:
    up, down = one["votes"]
    return Entry(name, one["text"], up, down, when="" if bare else one["when"])
