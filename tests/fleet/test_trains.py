"""Trains, walked: every set of culprits among up to eight tasks."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import log2

import pytest

from kern.fleet.trains import Blame, Check, Land, sift


def driven(
    train: Sequence[int], green: Callable[[frozenset[int]], bool]
) -> tuple[list[int], list[int], int]:
    """What landed, who was blamed, and how many checks that took."""
    landed, blamed, checks = list[int](), list[int](), 0
    steps, told = sift(train), False
    checked: frozenset[int] = frozenset()
    try:
        step = next(steps)
        while True:
            match step:
                case Check(part):
                    checks += 1
                    checked = frozenset(landed) | {*part}
                    told = green(checked)
                case Land(part):
                    assert frozenset(landed) | {*part} == checked, "nothing lands unchecked"
                    landed += part
                case Blame(one):
                    assert not green(frozenset(landed) | {one}), "it is red without the others"
                    blamed.append(one)
            step = steps.send(told)
    except StopIteration as end:
        assert end.value is (not blamed)
    return landed, blamed, checks


@pytest.mark.parametrize("count", range(9))
def test_all_land_but_the_culprits_in_order_and_none_is_forgotten(count: int) -> None:
    train = range(count)
    for size in range(count + 1):
        for culprits in combinations(train, size):
            bad = {*culprits}
            landed, blamed, checks = driven(train, lambda part, bad=bad: not part & bad)  # type: ignore[misc]
            assert landed == [one for one in train if one not in bad]
            assert blamed == sorted(bad)
            if size < 2 and count:
                assert checks <= 1 + size * (2 * log2(count) + 1)
            assert checks <= 2 * count


def test_two_that_are_red_together_alone_land_but_for_the_later() -> None:
    for pair in combinations(range(6), 2):
        landed, blamed, _ = driven(range(6), lambda part, pair=pair: not {*pair} <= part)  # type: ignore[misc]
        assert blamed == [pair[1]] and len(landed) == 5


def test_a_green_train_takes_one_check_however_long() -> None:
    assert driven(range(64), lambda part: True)[2] == 1
