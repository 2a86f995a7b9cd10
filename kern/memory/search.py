"""What a query finds in the index, and how relevant it is: by words, by meaning, by both. And the
one question that a stage asks: which entries of LEARNINGS.md belong to this text?
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kern.memory import chunks, vectors
from kern.memory.chunks import Chunk
from kern.memory.index import Index, using
from kern.memory.vectors import Model

LIMIT = 10  # results, unless told
_K = 60  # of reciprocal rank fusion
_WIDER = 2  # times the limit: the candidates of each list
_MOST_WORDS = 128  # of a query, looked up
_RAREST = 40  # of them that chunks have, where a query is longer
_FULL = 8  # of them: a chunk that has so many is full of the query's words
_AMONG = 200  # chunks that words find, and that meaning finds, for a relevance
_WORD_SHARE = 1.0  # what words weigh beside meaning
_LONG = 24  # words of a query: a task with its research, of which any text has some
# Below these nothing is told, of a short query and of a long one: measured by
# `python -m tests.bench learnings`.
_LEAST_BY_BOTH = (0.25, 0.36)
_LEAST_BY_WORDS = (0.19, 0.30)
_SATURATED = 2.2  # times its weight: what bm25 gives a word at most (k1 = 1.2)
_WORD = re.compile(r"[^\W_]{1,64}")
_COMMON = frozenset(
    _WORD.findall(
        "a an and any are as at be been but by can could do does each for from had has have how i"
        " if in into is it its may must no not of on one only or our should so some than that the"
        " their them then there these they this to too was we were what when where which who will"
        " with without would you your"
    )
)


class Mode(StrEnum):
    """How is searched."""

    FTS = "fts"  # by words
    SEMANTIC = "semantic"  # by meaning
    HYBRID = "hybrid"  # by both


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk, and how relevant it is to the query: 0 to 1."""

    id: int
    chunk: Chunk
    relevance: float


@dataclass(frozen=True, slots=True)
class Relevance:
    """Of the entries of LEARNINGS.md to one text."""

    by_id: dict[str, float] = field(default_factory=dict)  # 0 to 1; 0 where it is not named
    least: float = 0.0  # what less says nothing
    remark: str = ""  # why the index on the disk was not used


def search(
    index: Index,
    query: str,
    model: Model | None,
    *,
    mode: Mode = Mode.HYBRID,
    kinds: Sequence[str] = (),
    limit: int = LIMIT,
) -> list[Found]:
    """The best first; the same for the same texts. Without a model words alone count."""
    wide = _WIDER * limit
    by_words = {} if mode is Mode.SEMANTIC else _by_words(index, query, kinds, wide)
    lists = [ranked(by_words)]
    worth = by_words
    if model and mode is not Mode.FTS:
        near = model.nearest(index, query, kinds, wide, by_words)
        lists.append(ranked(near)[:wide])
        worth = near if mode is Mode.SEMANTIC else _joined(by_words, near)
    return [Found(id, index.chunk(id), round(worth[id], 4)) for id in fused(lists)[:limit]]


def relevance(
    index: Index, query: str, model: Model | None, kinds: Sequence[str]
) -> dict[str, float]:
    """How relevant the entries of these kinds are, by their ids: 0 to 1. One that is not named is
    far from it.
    """
    worth = by_words = _by_words(index, query, kinds, _AMONG)
    if model:
        worth = _joined(by_words, model.nearest(index, query, kinds, _AMONG, by_words))
    found: dict[str, float] = {}
    for id, value in worth.items():
        entry = index.entry(id)
        found[entry] = max(found.get(entry, 0.0), value)
    return found


def of_learnings(folder: Path | None, data: bytes, query: str) -> Relevance:
    """How relevant each entry is to the query. `data`: LEARNINGS.md; `folder`: of the index, None
    where nothing may be written.
    """
    model = vectors.load()

    def asked(index: Index) -> dict[str, float]:
        index.refresh([chunks.learnings(data)], all_of_them=False)
        return relevance(index, query, model, chunks.KINDS)

    found, remark = using(folder, asked)
    return Relevance(found, least(model, query), remark)


def fused(lists: Iterable[Sequence[int]]) -> list[int]:
    """Reciprocal rank fusion: who stands high in one list, or well in both, comes first."""
    points: dict[int, float] = {}
    for one in lists:
        for rank, id in enumerate(one, 1):
            points[id] = points.get(id, 0.0) + 1 / (_K + rank)
    return ranked(points)


def ranked(points: Mapping[int, float]) -> list[int]:
    """The most points first; among equals the older."""
    return sorted(points, key=lambda id: (-points[id], id))


def _joined(by_words: Mapping[int, float], near: Mapping[int, float]) -> dict[int, float]:
    """What words and meaning say together. RRF tells who is before whom, not how relevant it is."""
    return {
        id: (value + _WORD_SHARE * by_words.get(id, 0.0)) / (1 + _WORD_SHARE)
        for id, value in near.items()
    }


def _by_words(index: Index, query: str, kinds: Sequence[str], limit: int) -> dict[int, float]:
    """bm25 as a part of what a chunk would get that is full of the query's words: 0 to 1. Words
    that most chunks have say nothing; of a long query the rarest count.
    """
    size, _ = index.extent()
    held = {word: index.holding(word) for word in words(query)}
    if len(held) > _RAREST:
        there = sorted((word for word in held if held[word]), key=lambda word: held[word])
        held = {word: held[word] for word in there[:_RAREST]}
    weights = {word: _weight(size, count) for word, count in held.items()}
    most = _SATURATED * sum(sorted(weights.values(), reverse=True)[:_FULL])
    found = index.matches([*weights], kinds, limit)
    return {id: min(fit / most, 1.0) for id, fit in found} if most else {}


def words(query: str) -> list[str]:
    """The words of a query, each once, without those that any text has."""
    every = list(dict.fromkeys(_WORD.findall(query.lower())))
    return ([word for word in every if word not in _COMMON] or every)[:_MOST_WORDS]


def _weight(size: int, holding: int) -> float:
    """As bm25 weighs a word that so many chunks have."""
    return max(math.log((size - holding + 0.5) / (holding + 0.5)), 1e-6)


def least(model: Model | None, query: str) -> float:
    """The relevance below which an entry says nothing about a task."""
    return (_LEAST_BY_BOTH if model else _LEAST_BY_WORDS)[len(words(query)) >= _LONG]
