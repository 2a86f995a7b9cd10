"""What judges say, one by one and together."""

import pytest

from kern.model import Result
from kern.stages import verdict


@pytest.mark.parametrize(
    ("answer", "green", "said"),
    [
        ("PASS: it is", True, "it is"),
        ("**PASS**", True, ""),
        ("`PASS` - fine", True, "fine"),
        ("\n\nPASS: after blank lines", True, "after blank lines"),
        ("FAIL: a.py:3 is vague", False, "a.py:3 is vague"),
        ("FAIL", False, ""),
        ("PASSED: nearly", False, "neither PASS nor FAIL"),
        ("pass: lower case", False, "neither PASS nor FAIL"),
        ("I think it is a PASS", False, "neither PASS nor FAIL"),
        ("", False, "neither PASS nor FAIL: nothing"),
        ("I read a.py.\n\n**Verdict:** PASS - it is", True, "it is I read a.py."),
        ("FAIL\na.py:3 is vague\n\nAnd b.py.", False, "a.py:3 is vague And b.py."),
        ("- PASS: a\n- FAIL: b is vague", False, "b is vague"),
    ],
)
def test_the_code_word_of_a_judge_decides(answer: str, green: bool, said: str) -> None:
    result = verdict.judged("it is clear", answer)
    assert result.red is not green
    assert result.blocks is not green
    assert said in result.output


YES, NO, WHAT = (
    verdict.judged("it is clear", said) for said in ("PASS: it is", "FAIL: vague", "?")
)


@pytest.mark.parametrize(
    ("judges", "green"),
    [
        ([], None),
        ([YES], True),
        ([NO], None),
        ([WHAT], None),
        ([NO, YES], True),
        ([NO, NO], False),
        ([NO, WHAT], None),
        ([WHAT, YES], True),
        ([WHAT, NO], None),
        ([WHAT, WHAT], False),
        ([NO, WHAT, YES], True),
        ([NO, WHAT, NO], False),
        ([NO, WHAT, WHAT], False),
        ([WHAT, NO, YES], True),
        ([WHAT, NO, NO], False),
        ([WHAT, NO, WHAT], False),
    ],
)
def test_a_change_is_refused_by_two_judges_that_say_the_same_and_by_no_fewer(
    judges: list[Result], green: bool | None
) -> None:
    found = verdict.agreed(judges)
    assert (found is None) is (green is None)
    if found:
        assert found.red is not green
        assert found.blocks is not green
    overruled = NO in judges and green is True
    assert ("one said FAIL: vague; another said PASS: it is" in verdict.disagreement(judges)) is (
        overruled
    )
    assert bool(verdict.disagreement(judges)) is overruled


def test_two_judges_that_refuse_a_change_are_both_quoted() -> None:
    other = verdict.judged("it is clear", "FAIL: b.py is vague")
    found = verdict.agreed([NO, other])
    assert found
    assert found.output == "vague\nb.py is vague"
    twice = verdict.agreed([NO, NO])
    assert twice
    assert twice.output == "vague"
