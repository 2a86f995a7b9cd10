"""What begins next, and what keeps anything from beginning. The next task: in the order of SPEC.md,
what was skipped last, the subtasks of one task after one another. What holds for all workers
together: the budget, a usage limit's reset, what a person asks for. Pure.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum

from kern.config import Budget, Spent
from kern.model import Key, Marker
from kern.spec import order
from kern.spec.parse import Kind, Spec, Task


def choose(
    spec: Spec,
    busy: Collection[Key],
    passed_over: Collection[Key] = (),
    wanted: Key | None = None,
) -> tuple[int, Task] | None:
    """The task with its number, as `kern status` shows it; None where nothing is ready. `busy`: the
    tasks that are under way or wait to land; `wanted`: no other task.
    """
    ready = [one for one in _ready(spec, busy) if wanted in (None, one[1].key)]

    def rank(one: tuple[int, Task]) -> tuple[bool, int]:
        return one[1].key in passed_over, len(one[1].of(Kind.SKIPPED))

    return min(ready, key=rank, default=None)


def _ready(spec: Spec, busy: Collection[Key]) -> Iterable[tuple[int, Task]]:
    blocker = order.blockers(spec)
    taken = {_top(spec, index) for index, task in enumerate(spec.tasks) if task.key in busy}
    for index, task in enumerate(spec.tasks):
        if task.marker is not Marker.PENDING or task.open_subtasks:
            continue
        if _top(spec, index) in taken:
            continue
        if (task.notes or task.parent is not None) and blocker(task):
            continue
        yield index + 1, task


def _top(spec: Spec, index: int) -> int:
    """The outermost task above, by index."""
    while (above := spec.tasks[index].parent) is not None:
        index = above
    return index


# ---------------------------------------------------------------- what holds for all


class Hold(StrEnum):
    """Why nothing new begins."""

    NO = ""
    LIMIT = "usage limit"
    STOP = "stops after these stages"
    BUDGET = "the budget is used up"


def hold(
    limit: float, budget: Budget, spent: Spent, clock: float, *, asked: bool
) -> tuple[Hold, str]:
    """And, for the budget, which bound was reached. What ends the run counts first. `limit`: when
    that of a worker ends; like `clock` in epoch seconds.
    """
    if asked:
        return Hold.STOP, ""
    if why := budget.reached(spent):
        return Hold.BUDGET, why
    if clock < limit:
        return Hold.LIMIT, ""
    return Hold.NO, ""
