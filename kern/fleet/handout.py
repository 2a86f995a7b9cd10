"""What begins next, and what keeps anything from beginning. The next task: in the order of SPEC.md,
what was skipped last, the subtasks of one task after one another. What holds for all workers
together: the budget, a usage limit's reset, what a person asks for. Pure.
"""

from collections.abc import Collection
from enum import StrEnum

from kern.config import Budget, Spent
from kern.model import Key
from kern.spec import order
from kern.spec.parse import Spec, Task


def choose(
    spec: Spec,
    busy: Collection[Key],
    passed_over: Collection[Key] = (),
    wanted: Key | None = None,
) -> tuple[int, Task] | None:
    """The task with its number, as `kern status` shows it; None where nothing is ready. `busy`: the
    tasks that are under way or wait to land; `wanted`: no other task.
    """
    taken = {_top(spec, index) for index, task in enumerate(spec.tasks) if task.key in busy}
    free = (one for index, one in order.ready(spec) if _top(spec, index) not in taken)
    task = order.foremost((one for one in free if wanted in (None, one.key)), passed_over)
    return (spec.tasks.index(task) + 1, task) if task else None


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
