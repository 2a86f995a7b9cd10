"""A stage file, whoever wrote it."""

from typing import Any

import pytest

from kern.model import Stage
from kern.stages import record

NOTED = {"task": "t", "attempt": 2, **dict.fromkeys(("base", "start", "tree"), "0" * 40)}


@pytest.mark.parametrize(
    "more", [{"commit": {"sha": "1"}}, {"voted": []}, {"told": [1]}, {"attempt": "two"}]
)
def test_what_another_kern_noted_in_another_form_is_left_out(more: dict[str, Any]) -> None:
    found = record.parse(Stage.IMPLEMENT, {"result": "SUCCESS", "kern": {**NOTED, **more}})
    assert found is not None
    assert (found.task, found.commit, found.said) == ("t", "", "SUCCESS")


@pytest.mark.parametrize("more", [{"outcome": "GREAT"}, {"red": {"name": 1}}, {"tree": "HEAD"}])
def test_a_verdict_that_cannot_be_read_does_not_count(more: dict[str, Any]) -> None:
    assert record.parse(Stage.IMPLEMENT, {"kern": {**NOTED, **more}}) is None
