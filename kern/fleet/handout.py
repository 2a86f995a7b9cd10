"""What begins next, and what keeps anything from beginning. The next task: in the order of SPEC.md,
what was skipped last, the subtasks of one task after one another, and of equals first what touches
other files than the work under way. What holds for all workers together: the budget, a usage
limit's reset, what a person asks for. Pure.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from kern.config import Budget, Spent
from kern.frozen import frozen
from kern.model import Key, Marker
from kern.spec import order
from kern.spec.parse import Kind, Spec, Task

_FILES = re.compile(r"^\s*>?\s*-?\s*Files:(.*)$", re.M)
_PATH = re.compile(r"[\w.+@%~/-]+")


@frozen
class Choice:
    task: Task
    number: int  # as `kern status` shows it
    shared: tuple[str, ...] = ()  # files that work under way touches as well


def choose(
    spec: Spec,
    busy: Mapping[Key, Collection[str]],
    passed_over: Collection[Key] = (),
    wanted: Key | None = None,
) -> Choice | None:
    """None where nothing is ready. `busy`: the tasks that are under way or wait to land, each with
    the files that it touches as far as they are known; `wanted`: no other task.
    """
    touched = {path for paths in busy.values() for path in paths}
    best: tuple[tuple[bool, int, bool], Choice] | None = None
    for index, task in _ready(spec, busy):
        if wanted is not None and task.key != wanted:
            continue
        shared = tuple(sorted(files(task) & touched))
        skips = len(task.of(Kind.SKIPPED)) if task.notes else 0
        rank = (task.key in passed_over, skips, bool(shared))
        if best is None or rank < best[0]:
            best = rank, Choice(task, index + 1, shared)
    return best[1] if best else None


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
        yield index, task


def _top(spec: Spec, index: int) -> int:
    """The outermost task above, by index."""
    while (above := spec.tasks[index].parent) is not None:
        index = above
    return index


def files(task: Task) -> set[str]:
    """What research found that the task touches."""
    found = {
        word
        for note in task.of(Kind.RESEARCH)
        for line in _FILES.findall(note.text)
        for word in _PATH.findall(re.sub(r":[\d,\s-]+", " ", line))
    }
    return {word for word in found if "/" in word or "." in word.strip(".")}


# ---------------------------------------------------------------- what holds for all


class Hold(StrEnum):
    """Why nothing new begins."""

    NO = ""
    LIMIT = "usage limit"
    STOP = "stops after these stages"
    BUDGET = "the budget is used up"


@frozen
class Limit:
    """A usage limit that a worker has met: no other is given a task until it is over."""

    until: float = 0.0  # epoch seconds

    def later(self, until: float) -> "Limit":
        return Limit(max(until, self.until))


def hold(
    limit: Limit, budget: Budget, spent: Spent, clock: float, *, asked: bool
) -> tuple[Hold, str]:
    """And, for the budget, which bound was reached. What ends the run counts first. `clock` in
    epoch seconds.
    """
    if asked:
        return Hold.STOP, ""
    if why := budget.reached(spent):
        return Hold.BUDGET, why
    if clock < limit.until:
        return Hold.LIMIT, ""
    return Hold.NO, ""
