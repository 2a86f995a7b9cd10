"""`kern search`: what the learnings and the tasks of a project say about a question."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.memory.entries import parse as parse_learnings
from kern.memory.search import ranked
from kern.model import LEARNINGS, SPEC
from kern.spec.file import Documents
from kern.spec.parse import Kind, parse

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
    every = [*_documents(Documents(repo.root))]
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
        yield Passage(f"{LEARNINGS}:{entry.at + 1}", "learning", entry.id, entry.text + more)
    names = {Kind.RESEARCH: "research", Kind.ATTEMPT: "attempt"}
    for task in parse(documents.read(SPEC) or "").tasks:
        body = plain.line("\n".join((task.text, *task.body)), _LONGEST)
        yield Passage(f"{SPEC}:{task.line}", "task", "", body)
        for note in task.notes:
            if kind := names.get(note.kind):
                text = plain.line(note.text, _LONGEST)
                yield Passage(f"{SPEC}:{note.line}", kind, task.text, text)
