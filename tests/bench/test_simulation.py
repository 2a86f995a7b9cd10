"""The simulated queue lands every task once, and its figures are those of arithmetic where that is
enough.
"""

from dataclasses import replace
from itertools import product

import pytest

from tests.bench.simulation import World, checks, run, saturates

QUIET = World(tasks=2000, collides=0.0, landing=0.0, start=0.0)


def test_halving_asks_once_where_all_is_green_and_finds_each_culprit() -> None:
    assert checks([]) == 0
    for size in range(1, 11):
        for red in product((False, True), repeat=size):
            count = checks(red)
            assert (count == 1) == (not any(red) or size == 1)
            assert count <= 2 * size - 1
    # All, the first half, its first quarter, the culprit's neighbour: it is the last one left.
    assert checks([False] * 7 + [True]) == 4


def test_nobody_waits_for_a_queue_that_is_fast() -> None:
    course = run(replace(QUIET, workers=10, gates=0.0))
    assert course.waited == 0
    assert course.redone == 0
    assert course.took == pytest.approx(2000 * 1200 / 10, rel=0.1)


def test_one_worker_needs_no_second_check() -> None:
    assert run(replace(QUIET, workers=1)).gates == 0


@pytest.mark.parametrize("train", [1, 8])
def test_a_saturated_queue_lands_a_train_for_each_run_of_the_gates(train: int) -> None:
    course = run(replace(QUIET, workers=500, train=train))
    assert course.took == pytest.approx(2000 / train * 60, rel=0.05)
    assert course.gates == pytest.approx(1 / train, rel=0.05)


@pytest.mark.slow
def test_one_worker_more_than_the_gates_take_is_one_too_many() -> None:
    many = replace(QUIET, tasks=10_000)
    alone = saturates(many)
    assert alone == pytest.approx(1200 / 60 / 0.9, abs=2)
    assert saturates(replace(many, train=4)) == pytest.approx(4 * alone, rel=0.1)


def test_what_collides_is_done_again() -> None:
    course = run(replace(QUIET, workers=50, collides=0.05))
    assert course.redone == pytest.approx(2000 * 0.05 / 0.95, rel=0.3)
