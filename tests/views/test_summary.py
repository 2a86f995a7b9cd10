"""The summary of a run, in the order in which it is read, of the whole night."""

from dataclasses import replace

from kern.events import RunEnded
from kern.model import Cost, Need
from kern.views import summary

BLOCKED = Need(6, 9, "publish", "no key", "kern show 6, edit the task, kern unblock 6")
ASKS = Need(2, 3, "store", "asks: which?", 'kern answer 2 "…"')
ENDED = RunEnded(
    done=(),
    needs_help=(),
    stuck=(),
    open_tasks=5,
    seconds=3720,
    cost=Cost(1.5),
    interrupted="",
    exit_code=1,
    tokens=82_000,
    needs=(ASKS, BLOCKED),
)


def test_the_last_line_is_what_to_type_next() -> None:
    alone = replace(ENDED, open_tasks=1, needs=(BLOCKED,))
    assert summary.following(alone) == f"next: {BLOCKED.do}, then: kern"
    both = replace(ENDED, open_tasks=2)
    assert summary.following(both) == 'next: kern answer 2 "…", then: kern'
    stopped = replace(ENDED, stopped="the next task")
    assert summary.following(stopped).startswith("stopped, as asked; the next kern goes on with")
    late = replace(stopped, until=True)
    assert summary.following(late).startswith("the time of --until has come; the next kern")
    assert summary.following(replace(ENDED, interrupted="no disk")) == ""
    ready = replace(ENDED, open_tasks=0, needs=())
    assert summary.following(ready) == "all tasks are done: git log shows them"
