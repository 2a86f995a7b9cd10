"""`kern search`: what the learnings and the tasks of a project say about a question."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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


def hits(folder: Path, query: str) -> list[dict[str, str]]:
    """The best first. Keys are stable: they are what `--json` prints."""
    if not query.strip():
        raise UsageError("nothing to look for", hint='kern search "retry of uploads"')
    every = [*_passages(Documents(repository.open_at(folder).root))]
    texts = [f"{one['about']}\n{one['text']}" for one in every]
    return [every[at] for at in ranked(texts, query)[:_MOST]]


def lines(hits: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for hit in hits:
        yield f"{plain.line(hit['place'])}  {hit['kind']} {plain.line(hit['about'], 100)}".rstrip()
        yield f"    {plain.line(hit['text'], _SHOWN)}"
    if not hits:
        yield "nothing found"


def _passages(documents: Documents) -> Iterator[dict[str, str]]:
    def passage(place: str, kind: str, about: str, text: str) -> dict[str, str]:
        return {"place": place, "kind": kind, "about": about, "text": plain.line(text, _LONGEST)}

    for entry in parse_learnings(documents.read(LEARNINGS) or "").entries:
        text = f"{entry.text} | when: {entry.when}" if entry.when else entry.text
        yield passage(f"{LEARNINGS}:{entry.at + 1}", "learning", entry.id, text)
    for task in parse(documents.read(SPEC) or "").tasks:
        yield passage(f"{SPEC}:{task.line}", "task", "", "\n".join((task.text, *task.body)))
        for note in task.notes:
            if note.kind in (Kind.RESEARCH, Kind.ATTEMPT):
                yield passage(f"{SPEC}:{note.line}", note.kind.lower(), task.text, note.text)
