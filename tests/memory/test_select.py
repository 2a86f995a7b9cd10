"""What is told of the learnings: what fits, what is relevant, and in which order."""

import random
from dataclasses import replace

import pytest

from kern.memory.entries import Entry, parse
from kern.memory.select import cost, paths, select, shown


def entry(number: int, *, words: int = 20, helpful: int = 0, harmful: int = 0) -> Entry:
    text = f"fact {number} " + "word " * words
    (made,) = parse(f"## 2026-01-{number:02} - Topic\n\n{text}")
    return replace(made, id=f"L{number}", helpful=helpful, harmful=harmful)


TEN = [entry(number) for number in range(1, 11)]


def test_what_fits_is_told_whole_in_the_order_of_the_file_and_nobody_searched() -> None:
    found = select(TEN, None, 2000)
    assert [told.entry for told in found.chosen] == TEN
    assert found.texts[0] == f"## L1 - 2026-01-01 - Topic\n{TEN[0].text}"
    assert found.left_out == ()
    assert found.tokens == sum(map(cost, TEN)) < 2000


def test_a_retired_a_harmful_and_a_lost_one_are_never_told() -> None:
    some = [replace(TEN[0], retired="old"), replace(TEN[1], harmful=2), TEN[2], TEN[3]]
    for budget in (2000, 60):
        found = select(some, {"L1": 1, "L2": 1, "L3": 1, "L4": 0.9}, budget, gone={"L3": "a/b.py"})
        assert [told.entry.id for told in found.chosen] == ["L4"]
        assert [why for _, why in found.left_out] == [
            "retired: old",
            "harmful: 0 helpful, 2 harmful",
            "names a/b.py, which is gone",
        ]


def test_score_times_relevance_decides_and_what_is_left_out_says_why() -> None:
    proven = replace(TEN[4], helpful=16)
    some = [*TEN[:4], proven, *TEN[5:]]
    relevance = {"L2": 1.0, "L5": 0.6, "L7": 0.5, "L9": 0.29}
    found = select(some, relevance, 2 * cost(proven), least=0.3)
    assert [told.entry.id for told in found.chosen] == ["L5", "L2"]
    assert found.chosen[0].why == "score 0.94, relevance 0.60"
    why = {one.id: reason for one, reason in found.left_out}
    assert (why["L7"], why["L9"], why["L1"]) == ("no room", "not relevant enough", "not relevant")
    assert select(some, {}, 100).chosen == ()


def test_a_small_one_fills_what_a_large_one_leaves() -> None:
    large = entry(1, words=300)
    found = select([large, TEN[1]], {"L1": 1.0, "L2": 0.5}, cost(TEN[1]) + 1)
    assert [told.entry.id for told in found.chosen] == ["L2"]
    assert found.left_out == ((large, "no room"),)


def test_whatever_is_given_the_budget_holds_and_the_order_of_equals_is_fixed() -> None:
    dice = random.Random(3)
    for _ in range(300):
        some = [
            entry(number, words=dice.randrange(60), helpful=dice.randrange(4))
            for number in range(1, dice.randrange(2, 20))
        ]
        relevance = {one.id: dice.choice([0.0, 0.2, 0.5, 0.5, 1.0]) for one in some}
        budget = dice.randrange(400)
        found = select(some, relevance, budget, least=0.3)
        assert found.tokens <= budget
        assert -(-len("\n".join(found.texts)) // 4) <= budget
        assert len(found.chosen) + len(found.left_out) == len(some)
        again = select(some, dict(reversed(relevance.items())), budget, least=0.3)
        assert again == found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("`tests/conftest.py` unsets HOME", ["tests/conftest.py"]),
        ("see ./src/a.ts:40-66, and docs/x.md.", ["src/a.ts", "docs/x.md"]),
        ("https://example.org/a/b.html or ~/.config/x.toml, /etc/hosts.conf", []),
        ("and/or, CI/CD, 1/2.5, *.py, src/*.py, src/<name>.py, ../up/a.py", []),
        ("@scope/pkg/index.js, $HOME/x/y.sh", []),
    ],
)
def test_the_files_that_a_text_names(text: str, named: list[str]) -> None:
    assert paths(text) == named


def test_an_entry_without_a_heading_has_no_number_to_name() -> None:
    (first,) = parse("Use tabs.\n")
    assert shown(first) == "Use tabs."
