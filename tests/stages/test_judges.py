"""What judges say, one by one and together."""

import pytest

from kern.model import Result
from kern.stages import answer

YES, NO, WHAT = (answer.judged("it is clear", said) for said in ("PASS: it is", "FAIL: vague", "?"))


@pytest.mark.parametrize(
    ("judges", "green"),
    [
        ([YES], True),
        ([NO], None),
        ([WHAT], None),
        ([NO, YES], True),
        ([NO, NO], False),
        ([NO, WHAT], None),
        ([WHAT, YES], True),
        ([WHAT, WHAT], False),
        ([NO, WHAT, YES], True),
        ([NO, WHAT, NO], False),
        ([NO, WHAT, WHAT], False),
        ([WHAT, NO, WHAT], False),
    ],
)
def test_a_change_is_refused_by_two_judges_that_say_the_same_and_by_no_fewer(
    judges: list[Result], green: bool | None
) -> None:
    found = answer.agreed(judges)
    assert (found is None) is (green is None)
    if found:
        assert found.red is not green
        assert found.blocks is not green
    overruled = NO in judges and green is True
    assert ("one said FAIL: vague" in answer.disagreement(judges)) is (overruled)
    assert bool(answer.disagreement(judges)) is overruled
