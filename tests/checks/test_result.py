"""What a gate said, turned into words and decisions. Pure."""

from typing import Any

import pytest

from kern.checks import result
from kern.model import Result


@pytest.mark.parametrize(
    ("code", "how", "blocks"),
    [
        (0, {}, False),
        (1, {}, True),
        (1, {"red_before": False}, True),
        (1, {"red_before": True}, False),
        (None, {"red_before": True}, False),
        (1, {"red_before": True, "strict": True}, True),
        (126, {"red_before": True}, True),
        (127, {"red_before": True}, True),
    ],
)
def test_only_what_was_red_before_is_excused_and_not_where_it_is_strict_or_cannot_run(
    code: int | None, how: dict[str, Any], blocks: bool
) -> None:
    assert Result("check", code, "", **how).blocks is blocks


def test_what_this_run_saw_before_the_task_goes_before_what_kern_toml_says() -> None:
    for known, before, red in ((True, None, True), (False, None, None), (True, False, False)):
        assert Result("check", 1, "", known_red=known).against(before).red_before is red


@pytest.mark.parametrize(
    ("code", "how", "first", "later"),  # before the first task of a run, or a later one
    [
        (0, {"strict": True}, False, False),
        *((code, {"known_red": True}, True, True) for code in (126, 127)),
        *((code, {"strict": True}, True, False) for code in (1, None)),
        (1, {"known_red": True}, False, False),
        (1, {}, True, False),
    ],
)
def test_what_stops_a_run_before_a_task(
    code: int | None, how: dict[str, Any], first: bool, later: bool
) -> None:
    result = Result("check", code, "", **how)
    assert (result.stops(False, first=True), result.stops(False, first=False)) == (first, later)
    assert not how or result.stops(True, first=True) is first  # that lifts no more than the last


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("", ""),
        ("one\ntwo\n\n---\n", "one / two"),
        ("x" * 300 + "\nlast line\n", "last line"),
        ("y" * 300, "y" * 159 + "…"),
        ("\x1b[31mred\x1b[0m\r\n\x07done\r\n", "red / done"),
    ],
)
def test_the_end_that_says_something_is_told(output: str, told: str) -> None:
    assert result.telling(output, 160) == told


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("failed in 0.31 s at 0x7f00", "failed  in 12 s at 0xbeef\n", True),
        ("1 failed in 2 s", "1 failed in 31 s", True),
        ("1 failed", "3 failed", False),
        ("a failed", "b failed", False),
    ],
)
def test_failures_are_alike_whatever_their_numbers(one: str, other: str, same: bool) -> None:
    first = result.evidence(Result("check", 1, one))
    second = result.evidence(Result("check", 1, other))
    assert first.like(second) is same
    assert not first.like(result.evidence(Result("lint", 1, one)))
    assert not first.like(result.evidence(Result("check", 2, one)))
    assert not first.like(None)


def test_what_a_tasks_gate_says_before_it_is_bounded_and_harmless() -> None:
    long = result.state(Result("gate", 0, "a" * 5000 + "\x1b[31mred\x07\n\n"), "tail\nlog")
    head, _, body = long.partition("\n")
    assert head == "gate (`tail log`): exit 0:"
    assert body.startswith("…aaa") and body.endswith("aared") and len(body) == 1001
    ended = result.state(Result("gate", None, "begun\nnot done after 20 s"), "x")
    assert ended == "gate (`x`): failed, ended:\nbegun\nnot done after 20 s"
