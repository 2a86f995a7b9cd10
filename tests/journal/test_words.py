"""Records in the run's own words, whatever stands in them."""

import random
from typing import Any

import pytest

from kern.journal import words

TASK = {"kind": "task", "task": "t"}


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        ({**TASK, "did": "start", "resumed": "x"}, ["task: t (resumed: x)"]),
        ({**TASK, "did": "done", "detail": "1a Add", "proved": "gate"}, ["done: 1a Add"]),
        ({**TASK, "did": "done", "detail": "1a Add"}, ["done, UNVERIFIED: 1a Add"]),
        ({**TASK, "did": "decomposed", "detail": "2 subtasks"}, ["split: 2 subtasks"]),
        (
            {"kind": "stage", "did": "start", "stage": "implement", "model": "opus", "attempt": 2},
            ["stage 2/3 implement (opus, attempt 2)"],
        ),
        (
            {"kind": "stage", "did": "end", "stage": "commit", "seconds": 2, "cost_usd": 0.5}
            | {"tokens": {"input": 20_000}, "sent_back": 1, "denied": ["Bash rm"]},
            [
                "commit took 2.0 s, $0.5000, 20k tokens, sent back 1 time by red gates",
                "  refused: Bash rm",
            ],
        ),
        (
            {"kind": "stage", "did": "failed", "stage": "research", "seconds": 2, "reason": "x"},
            ["research failed after 2.0 s: x"],
        ),
        ({"kind": "retry", "reason": "overloaded", "wait": 4}, ["overloaded: again in 4 s"]),
        (
            {"kind": "attempt", "attempt": 1, "reason": "no", "ref": "kern/attempts/t/1"},
            ["attempt 1 failed: no", "  its work: git show kern/attempts/t/1"],
        ),
        (
            {"kind": "gate", "gate": "gate check", "code": 1, "red": True, "red_before": True},
            ["  gate check: red (exit 1), as it was before the task"],
        ),
        ({"kind": "gate", "gate": "gate check", "code": 0}, ["  gate check: green"]),
        ({"kind": "question", "text": "which?"}, ["asks: which?"]),
        ({"kind": "plan", "added": ["a", "b"], "done": ""}, ["new task: a", "new task: b"]),
        ({"kind": "plan", "added": [], "done": "all"}, ["nothing is missing: all"]),
        ({"kind": "request", "did": "paused"}, ["paused"]),  # of an older kern
        ({"kind": "error", "text": "no disk"}, ["ended early: no disk"]),
        (
            {"kind": "run", "did": "end", "done": 2, "open": 1, "seconds": 61, "exit": 1},
            ["run ends: 2 done, 1 open, 1 min 1 s, exit 1"],
        ),
        ({"kind": "newer", "v": 1, "what": "it is"}, ["newer: what it is"]),
    ],
)
def test_a_record_is_said_as_the_run_said_it(record: dict[str, Any], lines: list[str]) -> None:
    assert words.said(record) == lines


def test_no_value_of_a_record_stops_it() -> None:
    rng = random.Random(0)
    kinds = ("run", "task", "stage", "retry", "attempt", "gate", "question", "limit", "commit")
    odd: tuple[Any, ...] = (
        None,
        1e400,
        float("nan"),
        -3,
        True,
        [],
        [None],
        {},
        {"a": [1]},
        "\x1b[2J",
        "start",
        "end",
    )
    names = "did stage attempt seconds cost_usd tokens denied red code reason ref added wait open"
    for _ in range(3000):
        record = {name: rng.choice(odd) for name in names.split()}
        kind = rng.choice((*kinds, "plan", "request", "learning", "error", "\x1b["))
        lines = words.said({**record, "kind": kind})
        assert lines and not any("\x1b" in line or "\n" in line for line in lines)
