"""Queries: words and meaning, fused by rank, with a relevance from 0 to 1."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kern.memory import chunks, search, vectors
from kern.memory.chunks import Chunk, Source
from kern.memory.index import FILE, Index, using
from kern.memory.search import Mode, fused, ranked, words
from kern.memory.vectors import Model

TEXTS = {
    "L1": "Retry an upload three times; the server drops connections",
    "L2": "Times are kept in UTC and shown in the reader's zone",
    "L3": "The cache is emptied when the configuration changes",
    "L4": "An invoice is never altered once it was sent",
}


def learned(**texts: str) -> Source:
    def pieces() -> Iterator[Chunk]:
        for line, (key, text) in enumerate(texts.items(), 1):
            yield Chunk("LEARNINGS.md", "sign", key, text, line, line, key)

    return Source("LEARNINGS.md", repr(texts).encode(), pieces)


def found(
    query: str, model: Model | None = None, mode: Mode = Mode.HYBRID, **more: str
) -> list[str]:
    def look(base: Index) -> list[str]:
        base.refresh([learned(**TEXTS, **more)], all_of_them=True)
        hits = search.search(base, query, model, mode=mode, limit=3)
        assert all(0 <= hit.relevance <= 1 for hit in hits)
        return [hit.chunk.key for hit in hits]

    return using(None, look)[0]


def test_who_is_well_placed_in_both_lists_comes_first() -> None:
    assert fused([[1, 2, 3], [3, 2, 4]]) == [3, 2, 1, 4]
    assert fused([[1], []]) == [1]
    assert fused([]) == []
    assert ranked({3: 1.0, 2: 1.0, 1: 0.5}) == [2, 3, 1]


def test_the_words_of_a_query_are_those_that_say_something() -> None:
    assert words('The cache_key of "Foo"-bar AND NEAR(x, 2)*') == (
        ["cache", "key", "foo", "bar", "near", "x", "2"]
    )
    assert words("to be or not to be") == ["to", "be", "or", "not"]
    assert words("?! \0") == []
    assert len(words(" ".join(f"w{n}" for n in range(1000)))) == 128


def test_words_find_what_has_them_and_without_a_model_nothing_else() -> None:
    for mode in (Mode.FTS, Mode.HYBRID):
        assert found("uploads that were retried", mode=mode) == ["L1"]
        assert found("invoices", mode=mode) == ["L4"]
        assert found("", mode=mode) == found("%&/(", mode=mode) == []
    assert found("invoice", mode=Mode.SEMANTIC) == []


def test_meaning_finds_more_and_both_agree_on_the_best() -> None:
    model = vectors.load()
    if model is None:
        pytest.skip("needs kern[semantic]")
    assert found("bill for a customer", model) == found("bill for a customer", model, Mode.SEMANTIC)
    assert found("bill for a customer", model)[0] == "L4"
    assert found("bill for a customer", model, Mode.FTS) == []
    assert found("invalidate the cache", model)[0] == "L3"


def relevance(query: str, model: Model | None) -> dict[str, float]:
    def look(base: Index) -> dict[str, float]:
        long = "\n\n".join(f"Paragraph {n}. " + "filler words stand here " * 40 for n in range(5))
        base.refresh([learned(**TEXTS, L5=long + "\n\nzebra")], all_of_them=True)
        return search.relevance(base, query, model, ("sign",))

    return using(None, look)[0]


def test_an_entry_that_has_every_word_is_more_relevant_than_one_that_has_some() -> None:
    told = relevance("upload retry server", None)
    assert told.keys() == {"L1"} and 0.3 < told["L1"] <= 1
    assert relevance("upload zebra giraffe", None)["L1"] < told["L1"]
    assert relevance("retry the upload of the invoice", None).keys() == {"L1", "L4"}


def test_an_entry_in_several_chunks_is_as_relevant_as_its_best() -> None:
    assert relevance("zebra", None)["L5"] > 0.15


def test_with_a_model_far_entries_have_little() -> None:
    model = vectors.load()
    if model is None:
        pytest.skip("needs kern[semantic]")
    told = relevance("bill for a customer", model)
    assert max(told, key=lambda name: told[name]) == "L4"
    assert told["L4"] > 1.5 * told.get("L3", 0.0)


def test_what_research_found_counts_by_its_words_and_its_meaning() -> None:
    model = vectors.load()
    if model is None:
        pytest.skip("needs kern[semantic]")
    findings = "\n\n- Files: src/main.py\n- Pattern: settings of the cache are read, then checked"
    alone, more = (relevance(f"bill for a customer{rest}", model) for rest in ("", findings))
    assert max(alone, key=lambda name: alone[name]) == "L4"
    assert max(more, key=lambda name: more[name]) == "L3", "that the task is about the cache"


# ---------------------------------------------------------------- what a stage asks

LEARNED = """# Learnings

## 2026-11-01 - Uploads

Retry an upload three times.

<!-- kern: id=L7 kind=sign helpful=2 harmful=0 -->

## Clocks

All times are UTC.

## Only a heading
"""


def test_an_entry_is_a_chunk_under_its_id_without_its_comment() -> None:
    found = list(chunks.learnings(LEARNED.encode()).pieces())
    assert [(one.key, one.kind, one.heading, one.first, one.last) for one in found] == [
        ("L7", "sign", "2026-11-01 - Uploads", 3, 7),
        ("L1", "insight", "Clocks", 9, 11),
        ("L2", "insight", "Only a heading", 13, 13),
    ]
    assert [one.text for one in found] == ["Retry an upload three times.", "All times are UTC.", ""]


def test_entries_have_their_relevance_by_id(tmp_path: Path) -> None:
    told = search.of_learnings(tmp_path, LEARNED.encode(), "retry the uploads")
    assert max(told.by_id, key=lambda name: told.by_id[name]) == "L7"
    assert told.by_id["L7"] > told.least > 0 and not told.remark
    assert (tmp_path / FILE).exists()
    assert search.of_learnings(None, LEARNED.encode(), "retry the uploads") == told
    assert search.of_learnings(None, b"", "retry the uploads").by_id == {}


def test_an_entry_is_found_by_the_work_that_needs_it(tmp_path: Path) -> None:
    query = "prices for other time zones"
    bare = search.of_learnings(None, LEARNED.encode(), query)
    assert bare.by_id.get("L7", 0.0) < bare.least
    needed = LEARNED.replace("harmful=0", 'harmful=0 when="currencies and prices; zones"').encode()
    told = search.of_learnings(tmp_path, needed, query)
    assert told.by_id["L7"] >= told.least


def test_votes_alone_change_nothing_that_is_found(tmp_path: Path) -> None:
    told = search.of_learnings(tmp_path, LEARNED.encode(), "retry the uploads")
    voted = LEARNED.replace("helpful=2", "helpful=3").encode()
    assert search.of_learnings(tmp_path, voted, "retry the uploads") == told


def test_an_index_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    told = search.of_learnings(tmp_path, LEARNED.encode(), "retry the uploads")
    assert told.by_id["L7"] > told.least
    assert "cannot be used" in told.remark
