"""What is searched, as sources of chunks; and the one question that a stage asks: which entries of
LEARNINGS.md belong to this text?
"""

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from kern import plain
from kern.frozen import frozen
from kern.memory import chunks, entries, search, vectors
from kern.memory.chunks import Chunk, Source
from kern.memory.entries import Kind
from kern.memory.index import Index, using
from kern.model import LEARNINGS

KINDS = tuple(str(kind) for kind in Kind)  # of entries


@frozen
class Relevance:
    """Of the entries of LEARNINGS.md to one text."""

    by_id: dict[str, float] = field(default_factory=dict)  # 0 to 1; 0 where it is not named
    least: float = 0.0  # what less says nothing
    remark: str = ""  # why the index on the disk was not used


def learnings(data: bytes) -> Source:
    """Each entry on its own, under its id."""

    def pieces() -> Iterator[Chunk]:
        for entry in entries.parse(plain.decode(data)):
            last = entry.line + entry.raw.count("\n")
            dated = f"{entry.date} - " if entry.date else ""
            searched = f"{entry.text}\n\n{entry.when}" if entry.when else entry.text
            whole = Chunk(
                *(LEARNINGS, str(entry.kind), dated + entry.title, searched, entry.line, last),
                entry.id,
            )
            # A heading alone says something too.
            yield from list(chunks.parts(whole)) or ([whole] if entry.title else [])

    return Source(LEARNINGS, data, pieces)


def file(path: str, data: bytes) -> Source:
    """A text file of the project."""
    return Source(path, data, lambda: chunks.document(path, "file", plain.decode(data)))


def relevance(folder: Path | None, data: bytes, query: str) -> Relevance:
    """How relevant each entry is to the query. `data`: LEARNINGS.md; `folder`: of the index, None
    where nothing may be written.
    """
    model = vectors.load()

    def asked(index: Index) -> dict[str, float]:
        index.refresh([learnings(data)], all_of_them=False)
        return search.relevance(index, query, model, KINDS)

    found, remark = using(folder, asked)
    return Relevance(found, search.least(model, query), remark)
