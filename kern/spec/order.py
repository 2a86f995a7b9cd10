"""Which task is next, what the others wait for, what needs a person, and where that leads nowhere.
Pure.

A task begins when the tasks are done that its `After` notes name, and those that the notes of the
tasks above it name. It is done with its last subtask.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from kern import plain
from kern.errors import UsageError
from kern.model import Key, Marker, Need
from kern.spec import notes
from kern.spec.parse import Diagnostic, Kind, Note, Spec, Task

OPEN_SUBTASKS = "has open subtasks"
UNKNOWN = "waits for a task that is not in SPEC.md"
_MOST_NAMED = 20  # tasks in a complaint
_LONGEST_NUMBER = 9  # digits; Python itself refuses to read thousands of them
_KEPT = r" \((?:[^()]*; )?kept: \S+\)$"  # the ref may be gone; `kern show` names it if it is there


def name(text: str) -> str:
    """What an `After:` note and a task are compared by."""
    return " ".join(text.split()).casefold()


# ---------------------------------------------------------------- which is next


def blockers(spec: Spec) -> Callable[[Task], str]:
    """Why a pending task is not ready, empty when it is; what waits is gathered once, if at all."""

    @cache
    def waits() -> dict[int, str]:
        return _waiting(spec)

    def blocker(task: Task) -> str:
        if blocked := task.of(Kind.BLOCKED):
            return f"blocked: {blocked[-1].text}"
        if why := notes.unanswered(task) or held(spec, task):
            return why
        return OPEN_SUBTASKS if task.open_subtasks else waits().get(task.line, "")

    return blocker


def held(spec: Spec, task: Task) -> str:
    """That a person holds it, or a task above it; empty where nobody does."""
    if noted := task.of(Kind.HELD):
        return f"held: {noted[-1].text}".rstrip(": ")
    for index in spec.above(task):
        if spec.tasks[index].of(Kind.HELD):
            return f"held with {index + 1} ({spec.tasks[index].text})"
    return ""


def _waiting(spec: Spec) -> dict[int, str]:
    """By its line what a task waits for: by its own `After` notes, or by those of a task above."""
    first = _first_open(spec)
    found: dict[int, str] = {}
    for task in spec.tasks:  # a parent stands before its subtasks
        unmet = (_unmet(spec, first, note.text) for note in _after(task))
        above = "" if task.parent is None else found.get(spec.tasks[task.parent].line, "")
        if why := next(filter(None, unmet), "") or above:
            found[task.line] = why
    return found


def _first_open(spec: Spec) -> dict[str, int]:
    """Of the tasks with a name the number of the first open one; 0 where all are done."""
    if not any(map(_after, spec.tasks)):
        return {}
    first = dict.fromkeys(spec.finished, 0)
    for number, task in enumerate(spec.tasks, 1):
        key = name(task.text)
        first[key] = first.get(key) or (0 if task.marker is Marker.DONE else number)
    return first


def _unmet(spec: Spec, first: dict[str, int], text: str) -> str:
    if (number := first.get(name(text))) is None:
        return f"{UNKNOWN}: {text}"
    there = spec.tasks[number - 1]
    also = ", which is held" if held(spec, there) else ""
    return f"waits for {number} ({there.text}){also}" if number else ""


def _after(task: Task) -> tuple[Note, ...]:
    return task.of(Kind.AFTER) if task.notes and matters(task) else ()


def matters(task: Task) -> bool:
    """Whether what stands under it still matters: a task ticked above open subtasks holds them."""
    return task.marker is not Marker.DONE or task.open_subtasks


def select(spec: Spec, passed_over: Collection[Key] = ()) -> Task | None:
    """The `[~]` task, else the ready one least often skipped, in file order.

    `passed_over` are those that this run skipped: they come last.
    """
    if spec.active:
        return spec.active[0]
    return foremost((task for _, task in ready(spec)), passed_over)


def foremost(tasks: Iterable[Task], passed_over: Collection[Key]) -> Task | None:
    return min(
        tasks, key=lambda task: (task.key in passed_over, len(task.of(Kind.SKIPPED))), default=None
    )


def ready(spec: Spec) -> Iterator[tuple[int, Task]]:
    """Those that wait for nothing, each with its index."""
    blocker = blockers(spec)
    for index, task in enumerate(spec.tasks):
        if task.marker is not Marker.PENDING or task.open_subtasks:
            continue
        if not ((task.notes or task.parent is not None) and blocker(task)):
            yield index, task


def named(wanted: str, tasks: Sequence[str], gone: Sequence[str] = ()) -> int:
    """The index, in `[*tasks, *gone]`, of the task that a person means: by its text, by its number
    as `kern status` shows it, or by a part of its text. `gone` have no number: the journal knows
    them, SPEC.md does not any more. The first of these ways that leads anywhere counts.
    """
    word, texts = name(wanted), [name(text) for text in (*tasks, *gone)]
    here, past = range(len(tasks)), range(len(tasks), len(texts))
    digits = wanted.isdecimal()
    number = int(wanted) if digits and len(wanted) <= _LONGEST_NUMBER else 0
    ways = (
        [index for index in here if texts[index] == word],
        [index for index in past if texts[index] == word],
        [number - 1] if number - 1 in here else [],
        [index for index in here if word and not digits and word in texts[index]],
        [index for index in past if word and not digits and word in texts[index]],
    )
    found = next(filter(None, ways), [])
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            f"no task is named by {plain.line(wanted, 160)!r}",
            hint="kern status shows the tasks and their numbers",
        )
    shown = [
        f"{index + 1 if index in here else '-':>4}  {plain.line([*tasks, *gone][index], 140)}"
        for index in found[:_MOST_NAMED]
    ]
    head = f"{len(found)} tasks are named by {plain.line(wanted, 160)!r}:"
    more = "" if found in ways[:2] else ", or by all of its text"
    raise UsageError("\n".join([head, *shown]), hint=f"name it by its number{more}")


# ---------------------------------------------------------------- what leads nowhere


def faults(spec: Spec) -> tuple[Diagnostic, ...]:
    """`After` notes that nothing can ever meet: each unknown name, and a circle."""
    found = [
        Diagnostic(note.line, f"After names no task in SPEC.md: {plain.line(note.text, 160)!r}")
        for note in _unknown(spec)
    ]
    return tuple(sorted([*found, *circle(spec)], key=lambda fault: fault.line))


def unknown(spec: Spec) -> tuple[str, ...]:
    """The names in `After` notes that no task has, each once."""
    return tuple(dict.fromkeys(name(note.text) for note in _unknown(spec)))


def _unknown(spec: Spec) -> list[Note]:
    first = _first_open(spec)
    return [note for task in spec.tasks for note in _after(task) if name(note.text) not in first]


def circle(spec: Spec) -> list[Diagnostic]:
    """Tasks that wait for each other, the first that are met, each with its line, from the first in
    the file. Linear.
    """
    try:
        TopologicalSorter(_steps(spec)).prepare()
    except CycleError as exc:
        steps = [step for step in reversed(exc.args[1]) if step < len(spec.tasks)]
    else:
        return []
    tasks = [*dict.fromkeys(step if step >= 0 else ~step for step in steps)]
    at = tasks.index(min(tasks))
    rows = [spec.tasks[index] for index in (*tasks[at:], *tasks[:at])]
    shown = [f"{plain.line(row.text, 60)} (line {row.line})" for row in rows[:_MOST_NAMED]]
    more = ["…"] if len(rows) > _MOST_NAMED else []
    way = " -> ".join([*shown, *more, plain.line(rows[0].text, 60)])
    nested = any(row.parent in tasks for row in rows)
    why = "; a task is done with its last subtask, which waits with its parent" if nested else ""
    return [Diagnostic(rows[0].line, f"waits for itself: {way}{why}")]


def _steps(spec: Spec) -> dict[int, list[int]]:
    """What each step waits for: `i` is the end of the task with that index, `~i` its beginning.
    Empty where no order is asked for. A name is a step of its own: many notes with the name of many
    tasks stay few lines.
    """
    after = [[name(note.text) for note in _after(task)] for task in spec.tasks]
    asked = dict.fromkeys(text for texts in after for text in texts)
    names = {text: number for number, text in enumerate(asked, len(spec.tasks))}
    steps: dict[int, list[int]] = {number: [] for number in names.values()}
    for index, task in enumerate(spec.tasks if names else ()):
        above = [] if task.parent is None else [~task.parent]
        steps[~index] = above + [names[text] for text in after[index]]
        if task.marker is not Marker.DONE:
            steps[index] = [~index]
            for whole in (task.parent, names.get(name(task.text))):
                if whole in steps:
                    steps[whole].append(index)
    return steps


# ---------------------------------------------------------------- what is left, and needs a person


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
    single = [task.marker for index, task in enumerate(spec.tasks) if index not in above]
    parents = [task.marker for index, task in enumerate(spec.tasks) if index in above]
    done, active, pending = map(single.count, (Marker.DONE, Marker.ACTIVE, Marker.PENDING))
    return Counts(done, active, pending, len(parents), parents.count(Marker.DONE))


def still(spec: Spec) -> int:
    """How many tasks are left to carry out; a parent with open subtasks is none."""
    return len(_left(spec))


def ahead(spec: Spec) -> int:
    """How many of them runs can take up: what is blocked, held or asks something waits."""
    return sum(
        not (task.of(Kind.BLOCKED) or notes.pending(task) or held(spec, task))
        for task in _left(spec)
    )


def _left(spec: Spec) -> list[Task]:
    return [t for t in spec.tasks if t.marker is not Marker.DONE and not t.open_subtasks]


def needs(spec: Spec) -> tuple[Need, ...]:
    """The tasks that a person can help on, each once, in file order."""
    return tuple(need for own, need in _needs(spec) if not own)


def holds(spec: Spec) -> tuple[Need, ...]:
    """The tasks that a person holds: a decision, so nothing is asked of anybody."""
    return tuple(need for own, need in _needs(spec) if own)


def _needs(spec: Spec) -> Iterator[tuple[bool, Need]]:
    blocker = blockers(spec)
    for index, task in enumerate(spec.tasks):
        if task.marker is not Marker.PENDING or not task.notes:
            continue
        why, do, own = blocker(task), freed(spec, index), False
        if blocked := task.of(Kind.BLOCKED):
            why = blocked[-1].text
        elif asked := notes.pending(task):
            why = f"asks: {notes.words(asked)}"
        elif task.of(Kind.HELD):
            why, own = why.partition(": ")[2], True
        elif why.startswith(UNKNOWN):
            do = f"kern show {index + 1}, correct its After note in SPEC.md"
        elif skipped := task.of(Kind.SKIPPED):
            why = f"skipped: {skipped[-1].text}"
            do = f"kern show {index + 1}, edit the task; left alone, it is tried again last"
        else:
            continue
        why = why if own else re.sub(_KEPT, "", why.rstrip())
        yield own, Need(index + 1, task.line, task.text, why, do)


def freed(spec: Spec, index: int) -> str:
    """What a person types where they alone keep it waiting, else nothing."""
    task, number = spec.tasks[index], index + 1
    if task.of(Kind.BLOCKED):
        return f"kern show {number}, kern edit, kern retry {number}"
    if notes.pending(task):
        return f'kern answer {number} "…"'
    chain = (index, *spec.above(task))
    return "kern edit takes its Held line out" * any(spec.tasks[at].of(Kind.HELD) for at in chain)


def can_begin(spec: Spec, words: str, in_progress: Key | None = None) -> Key:
    """The one task that a person wants carried out; `words` name it as everywhere. `in_progress`:
    what an earlier run left unfinished. Raises UsageError where a run could not take it next.
    """
    index = named(words, [one.text for one in spec.tasks])
    task, number = spec.tasks[index], index + 1
    if task.key == in_progress:
        return task.key
    why, hint, then = blockers(spec)(task), freed(spec, index), f", then: kern --task {number}"
    if task.marker is Marker.DONE:
        why, hint = "it is done", "[ ] in kern edit opens it again"
    elif in_progress is not None:
        why, hint = f"{plain.line(in_progress.text, 200)} is in progress and comes first", "kern 1"
    elif why == OPEN_SUBTASKS:
        why, then = "it is done with its last subtask", ""
        hint = f"its open subtasks: kern --task {spec.parts(index)[0] + 1}"
    elif why and not hint:
        hint = "kern status tells more"
    if why:
        raise UsageError(f"{plain.line(why)}: {spec.shown(index)}", hint=f"{hint}{then}")
    return task.key
