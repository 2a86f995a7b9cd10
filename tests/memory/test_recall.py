"""Which entries a stage is told: all where they fit, else the best until the room is full."""

import pytest

from kern.memory.entries import Entry
from kern.memory.recall import BUDGET, IRRELEVANT, cost, told

RETRY = Entry("L81", "Retry an upload with the same key: the bucket bills twice.")
PROXY = Entry("L82", "The proxy of the build machine has the only way out.", when="an upload")
DATES = Entry("L83", "Store each date in UTC.")
OTHERS = [Entry(f"L{n}", f"Piece {n} of lint{n} is cut by saw{n}.") for n in range(1, 80)]
MANY = [*OTHERS, RETRY, PROXY, DATES]


def test_where_all_fit_all_are_told_in_the_files_order() -> None:
    found = told([DATES, RETRY, Entry("L1", "x", retired="gone")], "anything", 400)
    assert found.chosen == ((DATES, "all fit"), (RETRY, "all fit"))
    assert [why for _, why in found.left_out] == ["retired: gone"]
    assert found.texts[0] == "- L83: Store each date in UTC."
    assert told([], "anything") == told([], "anything", 0) and not told([DATES], "x", 0).chosen


def test_where_they_do_not_the_best_are_told_until_the_room_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kern.memory.search.vectors", lambda: None)
    found = told(MANY, "make the upload retry when the bucket is slow", 400)
    assert [entry for entry, _ in found.chosen] == [RETRY, PROXY]
    assert found.chosen[0][1] == "comes 1. of 82" and found.tokens <= 400
    assert {why for _, why in found.left_out} == {IRRELEVANT}
    one = told(MANY, "make the upload retry", cost(RETRY))
    assert [entry for entry, _ in one.chosen] == [RETRY]
    assert (PROXY, "no room") in one.left_out
    assert told(MANY, "quantum gardening", 400).chosen == ()
    assert told([*MANY, *map(_long, range(90))], "lint long", 99_999).tokens <= BUDGET


def _long(number: int) -> Entry:
    return Entry(f"L{number + 100}", "long " * 100)
