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
    assert fleet.text(now, MOMENT + 60, alive=True).splitlines() == [
        "run parent, in progress: 2 workers, 0 landed, $0.50",
        "1  $0.50  1 task finished  idle",
        "2  $0.00  0 tasks finished  stage 2/3 implement, 1 min: two",
        "1 finished task to land:",
        "  one",
    ]
    assert "interrupted: kern -j resumes it" in fleet.text(now, MOMENT, alive=False)


def test_what_landed_or_went_back_waits_no_more() -> None:
    landed = {"kind": "task", "did": "done", "task": "one"}
    back = {"kind": "attempt", "task": "one"}
    for end, count in ((landed, 1), (back, 0)):
        now = fleet.of(told(*UNDER_WAY, end, {"kind": "run", "did": "end"}))
        assert now and (now.queue, now.landed) == ([], count)
        assert fleet.text(now, MOMENT, alive=False).startswith("run parent, ended: 2 workers")


def test_a_worker_whose_stage_failed_is_not_at_its_gates() -> None:
    failed = {**STAGE, "did": "failed", "worker": 2, "task": "two"}
    now = fleet.of(told(*UNDER_WAY, failed))
    assert now and now.workers[2].doing == "stage failed"


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
