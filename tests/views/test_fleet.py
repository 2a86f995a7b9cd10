"""`kern fleet`: by the journal, while it runs, after a kill and at the end."""

from typing import Any

from kern.views import fleet
from tests.conftest import Kern


def told(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Records a second apart; those with a worker belong to the run `parent`."""
    found = []
    for at, row in enumerate(rows):
        time = f"2026-11-06T12:00:{at:02d}.000Z"
        own = {"run": f"child-{row['worker']}", "fleet": "parent"} if "worker" in row else {}
        found.append({"time": time, "run": "parent", "task": "", **own, **row})
    return found


STAGE = {"kind": "stage", "stage": "implement"}
UNDER_WAY = (
    {"kind": "run", "did": "start"},
    {"kind": "task", "did": "start", "worker": 1, "task": "one"},
    {"kind": "task", "did": "start", "worker": 2, "task": "two"},
    {**STAGE, "did": "start", "worker": 1, "task": "one"},
    {**STAGE, "did": "end", "worker": 1, "task": "one", "cost_usd": 0.5},
    {"kind": "work", "did": "done", "worker": 1, "task": "one", "commit": "abc"},
    {"kind": "run", "did": "end", "worker": 1},
    {**STAGE, "did": "start", "worker": 2, "task": "two"},
)
MOMENT = 1793966407.0  # of the last of these


def test_each_worker_is_a_line_and_what_waits_to_land_is_listed() -> None:
    now = fleet.of(told(*UNDER_WAY))
    assert now
    assert fleet.text(now, MOMENT + 60, 100, alive=True).splitlines() == [
        "run parent in progress · 2 workers · 0 landed · $0.50",
        "1  idle                       $0.50  1 finished",
        "2  stage 2/3 implement  1:00         0 finished  two",
        "1 finished task to land:",
        "  one",
    ]
    assert "interrupted: kern -j 2 resumes it" in fleet.text(now, MOMENT, 100, alive=False)


def test_where_columns_are_few_what_matters_least_goes_first() -> None:
    now = fleet.of(told(*UNDER_WAY))
    assert now
    now.workers[2].task = "A long text " * 20

    def row(width: int) -> str:
        lines = fleet.text(now, MOMENT + 60, width, alive=True).splitlines()
        assert max(map(len, lines)) <= width
        return lines[2]

    assert row(69).startswith("2  stage 2/3 implement  1:00         0 finished  A long")
    assert row(57).startswith("2  stage 2/3 implement  1:00         A long")
    assert row(50).startswith("2  stage 2/3 implement  1:00  A long")
    assert row(40).startswith("2  implement  1:00  A long text")
    assert row(34).startswith("2  implement  A long")


def test_a_cost_that_nobody_named_is_not_called_zero() -> None:
    unnamed = {**STAGE, "did": "end", "worker": 2, "task": "two"}
    now = fleet.of(told(*UNDER_WAY, unnamed))
    assert now and "2  gates  0:09  cost unknown  " in fleet.text(now, MOMENT + 10, 90, alive=True)
    assert "$0.50 and 1 stage of unknown cost" in fleet.text(now, MOMENT, 90, alive=True)
    priced = {**unnamed, "cost_usd": 1.0}
    now = fleet.of(told(*UNDER_WAY, unnamed, priced))
    assert now and "over $1.00" in fleet.text(now, MOMENT, 90, alive=True)


def test_two_tasks_of_one_text_are_two() -> None:
    """Subtasks of different parents, say: that one has finished or landed says nothing of the
    other.
    """
    twin = {**STAGE, "did": "start", "worker": 2, "task": "one"}
    now = fleet.of(told(*UNDER_WAY, twin))
    assert now and [one.number for one in now.busy] == [2]
    landed = {"kind": "task", "did": "done", "task": "one"}
    now = fleet.of(told(*UNDER_WAY, twin, landed))
    assert now and [one.number for one in now.busy] == [2] and not now.queue


def test_what_another_worker_goes_on_with_is_that_ones_alone() -> None:
    begun = {"kind": "task", "did": "start", "task": "three", "branch": "kern/work/three-1"}
    now = fleet.of(told(*UNDER_WAY, {**begun, "worker": 1}, {**begun, "worker": 3}))
    assert now and [one.number for one in now.busy] == [2, 3]


def test_what_landed_or_went_back_waits_no_more() -> None:
    landed = {"kind": "task", "did": "done", "task": "one"}
    back = {"kind": "attempt", "task": "one"}
    for end, count in ((landed, 1), (back, 0)):
        now = fleet.of(told(*UNDER_WAY, end, {"kind": "run", "did": "end"}))
        assert now and (now.queue, now.landed) == ([], count)
        shown = fleet.text(now, MOMENT, 90, alive=False)
        assert shown.startswith("run parent ended · 2 workers")


def test_a_worker_whose_stage_failed_is_not_at_its_gates() -> None:
    failed = {**STAGE, "did": "failed", "worker": 2, "task": "two"}
    now = fleet.of(told(*UNDER_WAY, failed))
    assert now and now.workers[2].doing == "stage failed"


def test_a_worker_whose_kern_told_no_end_is_idle_once_its_task_is_settled() -> None:
    settled = {"kind": "task", "did": "skipped", "task": "two"}
    now = fleet.of(told(*UNDER_WAY, settled))
    assert now and not now.busy


def test_a_limit_is_named_once_while_it_lasts() -> None:
    limit = {"kind": "limit", "text": "resets at noon", "until": MOMENT + 600}
    rows = told(*UNDER_WAY, {**limit, "worker": 2, "task": "two"}, limit)
    now = fleet.of(rows)
    assert now and now.workers[2].doing == "usage limit"
    assert " · usage limit until " in fleet.text(now, MOMENT, 90, alive=True)
    assert "until" not in fleet.text(now, MOMENT + 601, 90, alive=True)


def test_only_implement_has_gates_after_it() -> None:
    for stage, doing in (("research", "stage 1/3 research"), ("implement", "gates")):
        row = {"kind": "stage", "stage": stage, "worker": 2, "task": "two"}
        now = fleet.of(told(*UNDER_WAY, {**row, "did": "start"}, {**row, "did": "end"}))
        assert now and now.workers[2].doing == doing


def test_an_earlier_run_is_none_of_it() -> None:
    earlier = [{**one, "run": f"old-{one['run']}"} for one in told(*UNDER_WAY)]
    earlier = [{**one, "fleet": "old"} if "fleet" in one else one for one in earlier]
    now = fleet.of([*earlier, *told(*UNDER_WAY)])
    assert now and now.run == "parent" and now.workers[1].cost_usd == 0.5


def test_without_one_it_says_how_to_begin(repo: object, kern: Kern) -> None:
    ran = kern("fleet")
    assert ran.code == 2
    assert "no run here has had several workers" in ran.err
    assert "kern -j 4" in ran.err
