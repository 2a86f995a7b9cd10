"""Who takes a stage over, and for how long the other one rests."""

from kern.errors import LimitReached, TransientFault
from kern.events import StoodIn
from kern.model import Stage
from kern.models import Choice
from kern.stages.ending import REST_S, Rota

A, B, C = (Choice("m", agent=name) for name in "abc")
ROLE = Stage.RESEARCH


def test_the_first_is_asked_first_and_each_knows_who_comes_next() -> None:
    assert list(Rota().order([A, B, C], 0)) == [(A, B), (B, C), (C, None)]
    assert list(Rota().order([A], 0)) == [(A, None)]


def test_one_at_its_limit_rests_until_its_reset_and_is_asked_first_again() -> None:
    rota = Rota()
    told = rota.rest(A, B, LimitReached("usage limit", resets_at=5000), ROLE, 1000)
    assert told == StoodIn(ROLE, "b", "a", 5000, "usage limit")
    assert list(rota.order([A, B], 4999)) == [(B, None)]
    assert list(rota.order([A, B], 5000)) == [(A, B), (B, None)]


def test_one_that_says_no_time_rests_for_a_while() -> None:
    rota = Rota()
    rota.rest(A, B, TransientFault("no answer"), ROLE, 1000)
    rota.rest(B, C, LimitReached("usage limit"), ROLE, 1000)
    assert list(rota.order([A, B, C], 1000 + REST_S - 1)) == [(C, None)]
    assert list(rota.order([A, B, C], 1000 + REST_S)) == [(A, B), (B, C), (C, None)]


def test_where_all_rest_the_one_that_wakes_first_is_asked() -> None:
    rota = Rota()
    rota.rest(A, B, LimitReached("usage limit", resets_at=9000), ROLE, 1000)
    rota.rest(B, A, LimitReached("usage limit", resets_at=8000), ROLE, 1000)
    assert list(rota.order([A, B], 1001)) == [(B, None)]


def test_the_soonest_reset_is_waited_for() -> None:
    rota = Rota()
    assert rota.wakes([A], None) is None
    assert rota.wakes([A], 7000) == 7000
    rota.rest(A, B, LimitReached("usage limit", resets_at=5000), ROLE, 1000)
    assert rota.wakes([A], 7000) == rota.wakes([A], None) == 5000
    assert rota.wakes([A], 4000) == 4000
