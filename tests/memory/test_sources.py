"""What a stage asks: how relevant is each entry of LEARNINGS.md to its task."""

from pathlib import Path

from kern.memory import sources
from kern.memory.index import FILE

LEARNED = """# Learnings

## 2026-11-01 - Uploads

Retry an upload three times.

<!-- kern: id=L7 kind=sign helpful=2 harmful=0 -->

## Clocks

All times are UTC.

## Only a heading
"""


def test_an_entry_is_a_chunk_under_its_id_without_its_comment() -> None:
    found = list(sources.learnings(LEARNED.encode()).pieces())
    assert [(one.key, one.kind, one.heading, one.first, one.last) for one in found] == [
        ("L7", "sign", "2026-11-01 - Uploads", 3, 7),
        ("L1", "insight", "Clocks", 9, 11),
        ("L2", "insight", "Only a heading", 13, 13),
    ]
    assert [one.text for one in found] == ["Retry an upload three times.", "All times are UTC.", ""]


def test_entries_have_their_relevance_by_id(tmp_path: Path) -> None:
    told = sources.relevance(tmp_path, LEARNED.encode(), "retry the uploads")
    assert max(told.by_id, key=lambda name: told.by_id[name]) == "L7"
    assert told.by_id["L7"] > told.least > 0 and not told.remark
    assert (tmp_path / FILE).exists()
    assert sources.relevance(None, LEARNED.encode(), "retry the uploads") == told
    assert sources.relevance(None, b"", "retry the uploads").by_id == {}


def test_an_entry_is_found_by_the_work_that_needs_it(tmp_path: Path) -> None:
    query = "prices for other time zones"
    bare = sources.relevance(None, LEARNED.encode(), query)
    assert bare.by_id.get("L7", 0.0) < bare.least
    needed = LEARNED.replace("harmful=0", 'harmful=0 when="currencies and prices; zones"').encode()
    told = sources.relevance(tmp_path, needed, query)
    assert told.by_id["L7"] >= told.least


def test_votes_alone_change_nothing_that_is_found(tmp_path: Path) -> None:
    told = sources.relevance(tmp_path, LEARNED.encode(), "retry the uploads")
    voted = LEARNED.replace("helpful=2", "helpful=3").encode()
    assert sources.relevance(tmp_path, voted, "retry the uploads") == told


def test_an_index_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    told = sources.relevance(tmp_path, LEARNED.encode(), "retry the uploads")
    assert told.by_id["L7"] > told.least
    assert "cannot be used" in told.remark
