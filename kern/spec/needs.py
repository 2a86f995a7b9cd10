"""What needs a person, what is left, and how much: counted from SPEC.md in one place. Pure."""

import re
from typing import NamedTuple

from kern.model import Marker, Need
from kern.spec import dependencies, questions
from kern.spec.checklist import Kind, Spec, Task

_KEPT = r" \((?:[^()]*; )?kept: \S+\)$"  # the ref may be gone; `kern show` names it if it is there


class Counts(NamedTuple):
    """Of tasks that kern carries out. One with subtasks is a parent: kern ticks it with its last
    subtask.
    """

    done: int
    active: int
    pending: int
    parents: int
    parents_done: int


def counts(spec: Spec) -> Counts:
    above = {task.parent for task in spec.tasks}
    found = dict.fromkeys(Marker, 0)
    parents = [task.marker for index, task in enumerate(spec.tasks) if index in above]
    for index, task in enumerate(spec.tasks):
        found[task.marker] += index not in above
    done, active, pending = found[Marker.DONE], found[Marker.ACTIVE], found[Marker.PENDING]
    return Counts(done, active, pending, len(parents), parents.count(Marker.DONE))


def still(spec: Spec) -> int:
    """How many tasks are left to carry out; a parent with open subtasks is none."""
    return sum(task.marker is not Marker.DONE and not task.open_subtasks for task in spec.tasks)


def you(spec: Spec) -> tuple[Need, ...]:
    """The tasks that a person can help on, each once, in file order."""
    blocker = dependencies.blockers(spec)
    found = (
        _need(number, task, blocker(task))
        for number, task in enumerate(spec.tasks, 1)
        if task.notes and task.marker is Marker.PENDING
    )
    return tuple(need for need in found if need)


def held(spec: Spec) -> tuple[Need, ...]:
    """The tasks that a person holds: a decision, so nothing is asked of anybody."""
    blocker = dependencies.blockers(spec)
    rows = ((n, task) for n, task in enumerate(spec.tasks, 1) if task.notes and _is_held(task))
    return tuple(
        Need(n, task.line, task.text, blocker(task).partition(": ")[2], f"kern unhold {n}")
        for n, task in rows
        if task.marker is Marker.PENDING
    )


def _is_held(task: Task) -> bool:
    """And nothing else is to be decided before."""
    asks = task.of(Kind.BLOCKED) or questions.pending(task)
    return bool(task.of(Kind.HELD)) and not asks


def _need(number: int, task: Task, why: str) -> Need | None:
    show = f"kern show {number}"
    if blocked := task.of(Kind.BLOCKED):
        why, do = blocked[-1].text, f"{show}, edit the task, kern unblock {number}"
    elif asked := questions.pending(task):
        why, do = f"asks: {questions.words(asked)}", f'kern answer {number} "…"'
    elif _is_held(task):
        return None
    elif why.startswith(dependencies.UNKNOWN):
        do = f"{show}, correct its After note in SPEC.md"
    elif skipped := task.of(Kind.SKIPPED):
        why = f"skipped: {skipped[-1].text}"
        do = f"{show}, edit the task; left alone, it is tried again last"
    else:
        return None
    return Need(number, task.line, task.text, re.sub(_KEPT, "", why.rstrip()), do)
