"""Who is asked, where agents rest at their limit or without an answer."""

import pytest

from kern.models import Choice
from kern.stages.call import awake


@pytest.mark.parametrize(
    ("rest", "now", "asked"),
    [
        ({}, 0, "abc"),
        ({"a": 5000}, 4999, "bc"),
        ({"a": 5000}, 5000, "abc"),
        ({"a": 900, "b": 900}, 899, "c"),
        ({"a": 9000, "b": 8000, "c": 8500}, 1001, "b"),  # where all rest, who wakes first
    ],
)
def test_who_rests_is_passed_over(rest: dict[str, float], now: float, asked: str) -> None:
    choices = [Choice("m", agent=name) for name in "abc"]
    assert "".join(one.agent for one in awake(choices, rest, now)) == asked
