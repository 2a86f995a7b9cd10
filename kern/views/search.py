"""`kern search`: what the learnings and the tasks of a project say about a question."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.memory.entries import parse as parse_learnings
from kern.memory.search import ranked
from kern.model import LEARNINGS, SPEC, Stage
from kern.spec.file import Documents
from kern.spec.parse import Kind, parse
from kern.stages import record
from kern.system import workspace

_MOST = 10  # results
_SHOWN = 240  # characters of a result
_LONGEST = 4000  # of one that is searched


class Passage(NamedTuple):
    """Keys are stable: they are what `--json` prints."""

    place: str  # LEARNINGS.md:7
    kind: str  # learning, task, research, attempt
    about: str  # the number of a learning, the task
    text: str


def shown(folder: Path, query: str, *, as_json: bool) -> str:
    """What `kern search` prints, the best first."""
    if not query.strip():
        raise UsageError("nothing to search for", hint='kern search "retry of uploads"')
    repo = repository.open_at(folder, reading=True)
    every = [*_documents(Documents(repo.root)), *_history(repo)]
    near = ranked([f"{one.about}\n{one.text}" for one in every], query)
    hits = [every[at] for at in near[:_MOST]]
    if as_json:
        return plain.data([hit._asdict() for hit in hits])
    if not hits:
        return f"nothing found in {plain.count(len(every), 'passage')}"
    return "\n".join(
        f"{plain.line(hit.place)}  {hit.kind} {plain.line(hit.about, 100)}\n"
        f"    {plain.line(hit.text, _SHOWN)}"
        for hit in hits
    )


def _documents(documents: Documents) -> Iterator[Passage]:
    for entry in parse_learnings(documents.read(LEARNINGS) or "").entries:
        more = f" | when: {entry.when}" if entry.when else ""
        place = f"{LEARNINGS}:{entry.at + 1}" if entry.at >= 0 else LEARNINGS
        yield Passage(place, "learning", entry.id, entry.text + more)
    names = {Kind.RESEARCH: "research", Kind.ATTEMPT: "attempt"}
    for task in parse(documents.read(SPEC) or "").tasks:
        body = plain.line("\n".join((task.text, *task.body)), _LONGEST)
        yield Passage(f"{SPEC}:{task.line}", "task", "", body)
        for note in task.notes:
            if kind := names.get(note.kind):
                text = plain.line(note.text, _LONGEST)
                yield Passage(f"{SPEC}:{note.line}", kind, task.text, text)


def _history(repo: Repo) -> Iterator[Passage]:
    """What the agents of finished tasks found and tried."""
    try:
        scope = workspace.scope(repo.root, repo.head().name, create=False)
    except KernError:  # before the first commit nothing was tried
        return
    for file in sorted((scope.folder / "history").glob("*/*.json")):
        walk = replace(scope, branch=f"{scope.branch}/history/{file.parent.name}")
        number = file.stem.removeprefix("attempt")
        if file.name == "stage1.json":
            attempt, kind = record.read(walk, Stage.RESEARCH), "research"
        elif number.isdigit():
            attempt, kind = record.read(walk, Stage.IMPLEMENT, int(number)), "attempt"
        else:
            continue
        if attempt:
            text = plain.line(" ".join((attempt.outcome, attempt.said)), _LONGEST)
            yield Passage(os.fspath(file), kind, attempt.key.text, text)
