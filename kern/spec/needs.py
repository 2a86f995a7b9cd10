"""What needs a person, and what they type then; what is left, and how much. Pure."""

import re
from typing import NamedTuple

from kern import plain
from kern.errors import UsageError
from kern.model import Key, Marker, Need
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
        why, do = blocked[-1].text, _unblock(number)
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


# ---------------------------------------------------------------- the one that is wanted


def can_begin(spec: Spec, words: str, in_progress: Key | None = None) -> Key:
    """The one task that a person wants carried out; `words` name it as everywhere. `in_progress`:
    what an earlier run left unfinished. Raises UsageError where a run could not take it next.
    """
    index = dependencies.named(words, [one.text for one in spec.tasks])
    task = spec.tasks[index]
    if task.key == in_progress:
        return task.key
    then = f"then: kern --task {index + 1}"
    if in_progress is not None and task.marker is not Marker.DONE:
        other = spec.find(in_progress)
        at = 1 + spec.tasks.index(other) if other else 0
        back = f", or kern reopen {at} gives it back; {then}" if at else ""
        raise UsageError(
            f"another task is in progress: {plain.line(in_progress.text, 200)}",
            hint=f"kern 1 goes on with that one{back}",
        )
    why, hint = _obstacle(spec, index, then)
    if why:
        raise UsageError(f"{why}: {spec.shown(index)}", hint=hint)
    return task.key


def _obstacle(spec: Spec, index: int, then: str) -> tuple[str, str]:
    """Why the task cannot begin, and what to type; empty where it can."""
    task, number = spec.tasks[index], index + 1
    if task.marker is Marker.DONE:
        return "it is done", f"kern reopen {number}, {then}"
    if why := dependencies.held(spec, task):
        return plain.line(why), f"{_unhold(spec, index)}, {then}"
    if parts := spec.open_parts(index):
        hint = f"its open subtasks are {', '.join(parts)}; say: kern --task {parts[0]}"
        return "it is done with its last subtask", hint
    if task.of(Kind.BLOCKED):
        return "it needs you first", f"{_unblock(number)}, {then}"
    if questions.pending(task):
        return "it waits for your answer", f'kern answer {number} "…", {then}'
    why = plain.line(dependencies.blockers(spec)(task))
    first = dependencies.first_before(spec, index) if why else None
    if first is None:
        return why, "kern status tells more"
    hint = f"kern --task {first + 1}, {then}"
    if dependencies.held(spec, spec.tasks[first]):
        hint = f"{_unhold(spec, first)}, then: {hint}"
    return why, hint


def _unhold(spec: Spec, index: int) -> str:
    """The command that ends the hold of it, or of what it belongs to."""
    chain = (index, *spec.above(spec.tasks[index]))
    return f"kern unhold {1 + next(at for at in chain if spec.tasks[at].of(Kind.HELD))}"


def _unblock(number: int) -> str:
    return f"kern show {number}, edit the task, kern unblock {number}"
