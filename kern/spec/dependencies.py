"""Which task is next, what the others wait for, and where that leads nowhere. Pure.

A task begins when the tasks are done that its `After` notes name, and those that the notes of the
tasks above it name. It is done with its last subtask.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter

from kern import plain
from kern.errors import UsageError
from kern.model import Key, Marker
from kern.spec import questions
from kern.spec.checklist import Diagnostic, Kind, Note, Spec, Task

OPEN_SUBTASKS = "has open subtasks"
UNKNOWN = "waits for a task that is not in SPEC.md"
_MOST_NAMED = 20  # tasks in a complaint
_LONGEST_NUMBER = 9  # digits; Python itself refuses to read thousands of them
_Steps = dict[int, list[int]]


def name(text: str) -> str:
    """What an `After:` note and a task are compared by."""
    return " ".join(text.split()).casefold()


# ---------------------------------------------------------------- which is next


def blockers(spec: Spec) -> Callable[[Task], str]:
    """Why a pending task is not ready, empty when it is; what waits is gathered once, if at all."""

    @cache
    def waits() -> dict[int, str]:
        return _reasons(spec)

    def blocker(task: Task) -> str:
        if blocked := task.of(Kind.BLOCKED):
            return f"blocked: {blocked[-1].text}"
        if asked := questions.blocker(task):
            return asked
        if why := held(spec, task):
            return why
        if task.open_subtasks:
            return OPEN_SUBTASKS
        return waits().get(task.line, "")

    return blocker


def held(spec: Spec, task: Task) -> str:
    """That a person holds it, or a task above it; empty where nobody does."""
    if task.notes and (noted := task.of(Kind.HELD)):
        return f"held: {noted[-1].text}".rstrip(": ")
    for index in spec.above(task):
        above = spec.tasks[index]
        if above.notes and above.of(Kind.HELD):
            return f"held with {index + 1} ({above.text})"
    return ""


def _reasons(spec: Spec) -> dict[int, str]:
    """By its line what a task waits for: by its own `After` notes, or by those of a task above."""
    late = waiting(spec)
    if not late:
        return {}
    first_open: dict[str, int] = {}
    for number, task in enumerate(spec.tasks, 1):
        key = name(task.text)
        first_open[key] = first_open.get(key) or (0 if task.marker is Marker.DONE else number)

    def unmet(text: str) -> str:
        key = name(text)
        number = first_open.get(key, 0 if key in spec.finished else None)
        if number is None:
            return f"{UNKNOWN}: {text}"
        if not number:
            return ""
        there = spec.tasks[number - 1]
        return f"waits for {number} ({there.text}){', which is held' if held(spec, there) else ''}"

    found: dict[int, str] = {}
    for task in (spec.tasks[index] for index in sorted(late)):
        why = next(filter(None, (unmet(note.text) for note in task.of(Kind.AFTER))), "")
        if not why and task.parent is not None:  # a parent stands before its subtasks
            why = found.get(spec.tasks[task.parent].line, "")
        found[task.line] = why or "waits for what comes before it"
    return found


def select(spec: Spec, passed_over: Collection[Key] = ()) -> Task | None:
    """The `[~]` task, else the ready one least often skipped, in file order.

    `passed_over` are those that this run skipped: they come last.
    """
    if spec.active:
        return spec.active[0]
    blocker = blockers(spec)
    best: tuple[tuple[bool, int], Task] | None = None
    for task in spec.tasks:
        if task.marker is not Marker.PENDING or task.open_subtasks:
            continue
        if (task.notes or task.parent is not None) and blocker(task):
            continue
        rank = (task.key in passed_over, len(task.of(Kind.SKIPPED)) if task.notes else 0)
        if best is None or rank < best[0]:
            best = (rank, task)
    return best[1] if best else None


def first_before(spec: Spec, index: int) -> int | None:
    """The first open task, by index, that this one, or one above it, names in an `After` note."""
    for at in (index, *spec.above(spec.tasks[index])):
        for note in spec.tasks[at].of(Kind.AFTER):
            for other, task in enumerate(spec.tasks):
                if task.marker is not Marker.DONE and name(task.text) == name(note.text):
                    return other
    return None


def ahead(spec: Spec) -> int:
    """How many tasks runs can take up: a parent is done with its subtasks; what is blocked, held or
    asks something waits.
    """
    return sum(
        task.marker is not Marker.DONE
        and not task.open_subtasks
        and not (task.notes and (task.of(Kind.BLOCKED) or questions.pending(task)))
        and not held(spec, task)
        for task in spec.tasks
    )


def named(wanted: str, tasks: Sequence[str], gone: Sequence[str] = ()) -> int:
    """The index, in `[*tasks, *gone]`, of the task that a person means: by its text, by its number
    as `kern status` shows it, or by a part of its text. `gone` have no number: the journal knows
    them, SPEC.md does not any more. The first of these ways that leads anywhere counts.
    """
    word, first = name(wanted), len(tasks)
    texts = [name(text) for text in (*tasks, *gone)]
    found = [index for index, text in enumerate(texts) if text == word]
    if len(found) > 1 and found[0] < first:
        found = [index for index in found if index < first]
    number = wanted.isdecimal() and len(wanted) <= _LONGEST_NUMBER and int(wanted)
    if not found and 1 <= number <= first:
        found = [number - 1]
    if not found and word and not wanted.isdecimal():
        found = [index for index, text in enumerate(texts[:first]) if word in text]
        found = found or [first + i for i, text in enumerate(texts[first:]) if word in text]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            f"no task is named by {plain.line(wanted, 160)!r}",
            hint="kern status shows the tasks and their numbers",
        )
    shown = [
        f"{index + 1 if index < first else '-':>4}  {plain.line([*tasks, *gone][index], 140)}"
        for index in found[:_MOST_NAMED]
    ]
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    raise UsageError(
        "\n".join([f"{len(found)} tasks are named by {plain.line(wanted, 160)!r}:", *shown, *more]),
        hint="name it by its number"
        + (", or by all of its text" if len({texts[index] for index in found}) > 1 else ""),
    )


# ---------------------------------------------------------------- what leads nowhere


def faults(spec: Spec) -> tuple[Diagnostic, ...]:
    """`After` notes that nothing can ever meet: each unknown name, and each circle that is met on
    the way from a task to what it waits for. Linear in the tasks and notes.
    """
    found = [
        Diagnostic(note.line, f"After names no task in SPEC.md: {plain.line(note.text, 160)!r}")
        for note in _unknown(spec)
    ]
    return tuple(sorted([*found, *circles(spec)], key=lambda fault: fault.line))


def circles(spec: Spec) -> tuple[Diagnostic, ...]:
    """The faults among them that no other task can mend: tasks that wait for each other."""
    return tuple(_circle(spec, circle) for circle in _circles(_left(_steps(spec))))


def unknown(spec: Spec) -> tuple[str, ...]:
    """The names in `After` notes that no task has, each once."""
    return tuple(dict.fromkeys(name(note.text) for note in _unknown(spec)))


def stuck(spec: Spec) -> frozenset[int]:
    """The open tasks, by index, that never begin or end: in a circle, or behind one."""
    return frozenset(_left(_steps(spec))) & frozenset(range(len(spec.tasks)))


def waiting(spec: Spec) -> frozenset[int]:
    """The tasks, by index, that may not begin yet. In a circle all of them wait."""
    steps = _steps(spec)
    if not steps:
        return frozenset()
    sorter = TopologicalSorter(steps)
    with contextlib.suppress(CycleError):
        sorter.prepare()
    names = _names(spec)
    lacking = {names[text] for text in unknown(spec)}
    passed: set[int] = set()
    while free := sorter.get_ready():  # of an open task the end is not passed
        now = [step for step in free if not 0 <= step < len(spec.tasks) and step not in lacking]
        passed.update(now)
        sorter.done(*now)
    return frozenset(index for index in range(len(spec.tasks)) if ~index not in passed)


def behind(spec: Spec, *indexes: int) -> list[int]:
    """The open tasks, by index, that cannot begin before all of these are done. Linear."""
    after: dict[int, list[int]] = {}
    for step, before in _steps(spec).items():
        for one in before:
            after.setdefault(one, []).append(step)
    reached, new = {*indexes}, [*indexes]
    while new:
        new = [step for one in new for step in after.get(one, ()) if step not in reached]
        reached.update(new)
    open_ones = (~step for step in reached if step < 0)
    return sorted(i for i in open_ones if spec.tasks[i].marker is not Marker.DONE)


def matters(task: Task) -> bool:
    """Whether what stands under it still matters: a task ticked above open subtasks holds them."""
    return task.marker is not Marker.DONE or task.open_subtasks


def _unknown(spec: Spec) -> list[Note]:
    after = [n for task in spec.tasks if task.notes and matters(task) for n in task.of(Kind.AFTER)]
    known = {name(task.text) for task in spec.tasks} | spec.finished if after else frozenset()
    return [note for note in after if name(note.text) not in known]


def _steps(spec: Spec) -> _Steps:
    """What each step waits for: `i` is the end of the task with that index, `~i` its beginning.
    Empty where no order is asked for: then nothing can go in a circle.
    """
    after = _after(spec)
    if not after:
        return {}
    names = _names(spec)
    steps: _Steps = {number: [] for number in names.values()}
    for index, task in enumerate(spec.tasks):
        above = [] if task.parent is None else [~task.parent]
        steps[~index] = above + [names[text] for text in after.get(index, ())]
        if task.marker is Marker.DONE:
            continue
        steps[index] = [~index]
        if task.parent in steps:
            steps[task.parent].append(index)
        if (number := names.get(name(task.text))) is not None:
            steps[number].append(index)
    return steps


def _after(spec: Spec) -> dict[int, list[str]]:
    """The names that each open task waits for."""
    return {
        index: [name(note.text) for note in notes]
        for index, task in enumerate(spec.tasks)
        if task.notes and matters(task) and (notes := task.of(Kind.AFTER))
    }


def _names(spec: Spec) -> dict[str, int]:
    """A name is a step of its own: many notes with the name of many tasks stay few lines."""
    asked = dict.fromkeys(text for texts in _after(spec).values() for text in texts)
    return {text: number for number, text in enumerate(asked, len(spec.tasks))}


def _left(steps: _Steps) -> Mapping[int, int]:
    """The steps that are never reached, each with one of them that it waits for."""
    sorter = TopologicalSorter(steps)
    try:
        sorter.prepare()
    except CycleError:
        reached: set[int] = set()
        while free := sorter.get_ready():
            reached.update(free)
            sorter.done(*free)
        left = steps.keys() - reached
        return {
            step: next(before for before in steps[step] if before in left)
            for step in steps
            if step in left
        }
    return {}


def _circles(left: Mapping[int, int]) -> Iterator[list[int]]:
    """Whoever follows what is never reached comes into a circle."""
    met: dict[int, int] = {}
    for start in left:
        way: list[int] = []
        step = start
        while step not in met:
            met[step] = start
            way.append(step)
            step = left[step]
        if met[step] == start:
            yield way[way.index(step) :]


def _circle(spec: Spec, steps: Sequence[int]) -> Diagnostic:
    """Each of its tasks with its line, from the first in the file."""
    count = len(spec.tasks)
    walked = [step if step >= 0 else ~step for step in steps if step < count]
    tasks = [index for at, index in enumerate(walked) if index != walked[at - 1]] or walked[:1]
    first = tasks.index(min(tasks))
    tasks = tasks[first:] + tasks[:first]
    shown = [
        f"{plain.line(spec.tasks[index].text, 60)} (line {spec.tasks[index].line})"
        for index in tasks[:_MOST_NAMED]
    ]
    if len(tasks) > _MOST_NAMED:
        shown.append(f"{len(tasks) - _MOST_NAMED} more")
    shown.append(plain.line(spec.tasks[tasks[0]].text, 60))
    links = list(zip(steps, [*steps[1:], steps[0]], strict=True))
    why = ""
    if any(0 <= step < count and 0 <= before < count for step, before in links):
        why = "; a task is done with its last subtask"
    if any(step < 0 and before < 0 for step, before in links):
        why += "; a subtask waits with its parent"
    said = f"waits for itself: {' -> '.join(shown)}{why}"
    return Diagnostic(spec.tasks[tasks[0]].line, said)
