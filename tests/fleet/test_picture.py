"""The records of many at once: what they look like, and what they add up to. Pure."""

from kern.fleet import lanes
from kern.fleet.lanes import GATES, LIMITED, Lane, Picture
from kern.journal import store, totals
from kern.journal.history import fold
from kern.model import Cost


def test_records_of_workers_become_lanes_and_one_sum() -> None:
    now = Picture((Lane(1, "one", "begins"), Lane(2, "two", "begins")))
    start = {"kind": "stage", "did": "start", "stage": "implement", "attempt": 2, "worker": 2}
    now = lanes.after(now, start, 7.0)
    assert now.lane(2) == Lane(2, "two", "stage 2/3 implement, attempt 2", 7.0)
    ended = {**start, "did": "end", "cost_usd": 0.5, "tokens": {"in": 3}}
    commits = lanes.after(now, {**ended, "stage": "commit"}, 9.0)
    assert (commits.lane(2), commits.cost) == (now.lane(2), Cost(0.5)), "the next one is at hand"
    now = lanes.after(now, ended, 9.0)
    assert now.lane(2).doing == GATES
    now = lanes.after(now, {**ended, "worker": 1, "cost_usd": None, "tokens": {"out": 4}}, 9.0)
    assert (now.cost, now.tokens) == (Cost(0.5, 1), 7)
    limit = {"kind": "limit", "worker": 1, "text": "x", "until": 99}
    assert lanes.after(now, limit, 9.0).lane(1).doing == LIMITED
    assert lanes.after(now, {"kind": "run", "did": "end", "worker": 1}, 9.0) == now
    assert [lane.worker for lane in now.having(Lane(3)).lanes] == [1, 2, 3]


def test_many_at_once_are_one_run_in_the_journal_and_its_sums() -> None:
    """Whatever the order of the lines: the workers' records stand between their run's, by the
    clock, and a task is done when its commit has landed.
    """
    head = {"v": 1, "branch": "main", "run": "p"}
    own = [
        {**head, "id": "1", "seq": 1, "time": "T1", "kind": "run", "did": "start", "payer": "you"},
        {**head, "id": "2", "seq": 2, "time": "T6", "kind": "task", "did": "done", "task": "t"},
        {**head, "id": "3", "seq": 3, "time": "T6", "kind": "commit", "commit": "c", "task": "t"},
        {**head, "id": "4", "seq": 4, "time": "T9", "kind": "run", "did": "end", "exit": 0},
    ]
    head = {"v": 1, "branch": "kern/work/t-1", "run": "w", "fleet": "p", "worker": 1}
    theirs = [
        {**head, "id": "5", "seq": 1, "time": "T2", "kind": "run", "did": "start", "payer": "x"},
        {**head, "id": "6", "seq": 2, "time": "T3", "kind": "task", "did": "start", "task": "t"},
        {**head, "id": "7", "seq": 3, "time": "T4", "kind": "stage", "did": "end", "task": "t"},
        {**head, "id": "8", "seq": 4, "time": "T5", "kind": "work", "did": "done", "task": "t"},
        {**head, "id": "9", "seq": 5, "time": "T5", "kind": "run", "did": "end", "exit": 7},
    ]
    theirs[2] |= {"stage": "implement", "cost_usd": 0.25}
    found = store.ordered([*theirs, *own])
    assert [one["id"] for one in found] == ["1", "5", "6", "7", "8", "9", "2", "3", "4"]
    summed = totals.summary(fold(found))
    assert [(run["run"], run["payer"], run["exit"]) for run in summed["runs"]] == [("p", "you", 0)]
    (task,) = summed["tasks"]
    assert (task["outcome"], task["commit"], task["cost_usd"]) == ("done", "c", 0.25)
    assert (summed["done"], summed["cost_usd"]) == (1, 0.25)
    assert totals.summary(fold(found[:5]))["tasks"][0]["outcome"] == "open"
