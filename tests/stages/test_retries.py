"""The tries after a first fault: as many as are due, longer waits, the last fault at the end."""

import pytest

from kern.errors import TransientFault
from kern.stages import retries


def test_after_the_first_fault_there_are_two_more_tries_and_the_last_fault_ends_them() -> None:
    waits: list[float] = []
    noted: list[tuple[str, int, float]] = []
    tries = 0

    def act() -> None:
        nonlocal tries
        tries += 1
        raise TransientFault(f"fault {tries + 1}")

    with pytest.raises(TransientFault, match="fault 3"):
        retries.after(
            TransientFault("fault 1"),
            act,
            waits.append,
            lambda fault, number, wait: noted.append((str(fault), number, wait)),
        )
    assert tries == 2
    assert [(said, number) for said, number, _ in noted] == [("fault 1", 1), ("fault 2", 2)]
    assert [wait for _, _, wait in noted] == waits
    assert 2 <= waits[0] <= 3 and 4 <= waits[1] <= 5


def test_what_works_the_second_time_is_not_tried_again() -> None:
    waits: list[float] = []
    first = TransientFault("once")
    assert retries.after(first, lambda: "done", waits.append, lambda *said: None) == "done"
    assert len(waits) == 1


def test_any_other_error_is_none_to_try_again_after() -> None:
    def act() -> None:
        raise ValueError("a bug")

    waits: list[float] = []
    with pytest.raises(ValueError, match="a bug"):
        retries.after(TransientFault("once"), act, waits.append, lambda *said: None)
    assert len(waits) == 1
