"""Records in the run's own words, whatever stands in them."""

import random
from typing import Any

import pytest

from kern.journal import sentences

TASK = {"kind": "task", "task": "t"}


def test_no_value_of_a_record_stops_it() -> None:
    rng = random.Random(0)
    kinds = ("run", "task", "stage", "retry", "attempt", "gate", "question", "limit", "commit")
    odd: tuple[Any, ...] = (None, -3, True, [], {"a": [1]}, "\x1b[2J", "start", "end")
    names = "did stage red reason ref wait open exit resumed flaky gate proved detail"
    for _ in range(3000):
        record = {name: rng.choice(odd) for name in names.split()}
        kind = rng.choice((*kinds, "plan", "request", "learning", "error", "\x1b["))
        lines = sentences.format_record({**record, "kind": kind})
        assert lines and not any("\x1b" in line or "\n" in line for line in lines)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"kind": "recall", "stage": "research", "told": {}}, "research is told: nothing"),
        ({"kind": "commit", "commit": "c" * 40}, "  git show ccccccc"),  # of an old journal
        ({"kind": "novel", "text": "something"}, "something"),
    ],
)
def test_a_record_reads_as_a_sentence(record: dict[str, Any], sentence: str) -> None:
    assert sentences.format_record(record) == [sentence]
