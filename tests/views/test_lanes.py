"""Many at once on a terminal."""

import pytest

from kern.fleet.lanes import Lane, Picture
from kern.model import Cost
from kern.views import lanes
from kern.views.progress import Seen

NOW = Picture(
    (
        Lane(1, "Write the parser", "stage 2/3 implement", 10.0),
        Lane(2),
        Lane(3, "b", "gates", 70.0),
    ),
    queue=("Write the lexer", "Document it"),
    tasks=9,
    done=3,
    cost=Cost(1.25),
    max_cost=5.0,
    tokens=12_345,
)


def test_a_line_for_each_worker_one_for_the_queue_one_for_the_run() -> None:
    shown = lanes.lines(NOW, Seen(100, 65.0, "09:30", keys=True), 75.0)
    assert list(shown[:4]) == [
        "1  stage 2/3 implement  1:05  Write the parser",
        "2  idle",
        "3  gates  0:05  b",
        "2 finished tasks to land: Write the lexer; Document it",
    ]
    assert shown[4] == "09:30 · 1:05 · $1.25 of $5.00 · 3 of 9 landed · 12k tokens"
    assert shown[5].startswith("p pause")
    landing = Picture(landing="Write the lexer", since=70.0, queue=("Write the lexer", "x"))
    assert lanes.lines(landing, Seen(100), 75.0)[0] == "landing  0:05  Write the lexer, then 1 more"


def test_what_keeps_finished_tasks_from_landing_is_said() -> None:
    lying = Picture(queue=("Write the lexer",), lying="you have uncommitted changes in a.py")
    said = "1 finished task to land: you have uncommitted changes in a.py: Write the lexer"
    assert lanes.lines(lying, Seen(100), 0.0)[0] == said


def test_a_cost_that_nobody_named_is_not_called_zero() -> None:
    unnamed = Picture(cost=Cost(0.0) + Cost.of([None]), max_cost=5.0)
    assert lanes.lines(unnamed, Seen(100), 0.0)[1] == "cost unknown · 0 of 0 landed"
    assert "$0.00 of $5.00" in lanes.lines(Picture(max_cost=5.0), Seen(100), 0.0)[1]


@pytest.mark.parametrize("width", [20, 40, 80, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    full = Picture(
        tuple(Lane(n, "A long task text " * 9, "stage 2/3 implement", 0.0) for n in range(1, 21)),
        ("Another text " * 20,),
        cost=Cost(1.0),
        held="stops after these stages",
    )
    shown = lanes.lines(full, Seen(width, 100.0, "10:00", keys=True), 3600.0)
    wide = [line for line in shown[:-1] if len(line) > max(width, 40)]
    assert wide == []
    assert "and 4 workers more at work" in shown


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"kind": "task", "did": "start", "task": "t"}, ["2  task: t"]),
        ({"kind": "stage", "did": "start", "task": "t", "stage": "research"}, []),
        (
            {"kind": "stage", "did": "end", "task": "t", "stage": "research", "seconds": 1.0},
            ["2  research took 1.0 s  (t)"],
        ),
        (
            {"kind": "work", "did": "done", "task": "t", "commit": "c" * 40},
            ["2  finished as ccccccc; it is done when that has landed  (t)"],
        ),
        ({"kind": "gate", "gate": "gate x", "red": False, "task": "t"}, []),
        ({"kind": "run", "did": "end"}, []),
        # The run says how it ends without a commit, and why a kern ended: once is enough.
        ({"kind": "work", "did": "skipped", "task": "t", "detail": "no luck", "commit": ""}, []),
        ({"kind": "stage", "did": "failed", "task": "t", "stage": "research"}, []),
        ({"kind": "question", "task": "t", "text": "which?"}, []),
        ({"kind": "limit", "task": "t", "text": "resets at noon"}, []),
    ],
)
def test_of_a_workers_records_only_what_tells_is_said(
    record: dict[str, object], said: list[str]
) -> None:
    assert lanes.told({"worker": 2, **record}) == said
