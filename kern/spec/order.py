"""Which task is next, what the others wait for, what needs a person, and where that leads nowhere.
Pure.

A task begins when the tasks are done that its `After` notes name, and those that the notes of the
tasks above it name. It is done with its last subtask.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
_LONGEST_WAY = 1000  # characters


def name(text: str) -> str:
    """What an `After:` note and a task are compared by."""
    return " ".join(text.split()).casefold()


# ---------------------------------------------------------------- which is next


class Wait(NamedTuple):
    """What keeps a task from its turn."""

    number: int
    task: Task
    why: str = ""  # empty: nothing does
    do: str = ""  # what a person types, where it is theirs
    need: str = ""  # what is asked of them, if anything is


def waits(spec: Spec) -> list[Wait]:
    """Of each task, by index."""
    first, holds, lates, result = _first_open(spec), list[str](), list[str](), list[Wait]()
    for number, task in enumerate(spec.tasks, 1):  # a parent stands before its subtasks
        hold, late = ("", "") if task.parent is None else (holds[task.parent], lates[task.parent])
        unmet = (_unmet(spec, first, note.text) for note in _after(task))
        lates.append(next(filter(None, unmet), late))
        holds.append(f"held with {number} ({task.text})" if task.of(Kind.HELD) else hold)
        result.append(Wait(number, task, *_reason(task, number, hold, lates[-1])))
    return result


def _reason(task: Task, number: int, above: str, late: str) -> tuple[str, str, str]:
    """The first that counts. `above`: that a person holds what it is a part of."""
    if blocked := task.of(Kind.BLOCKED):
        do = f"kern show {number}, kern edit, kern retry {number}"
        return f"blocked: {blocked[-1].text}", do, blocked[-1].text
    if question := notes.pending(task):
        words = notes.without_ref(question.text)
        return f"waits for your answer: {words}", f'kern answer {number} "…"', f"asks: {words}"
    if held := task.of(Kind.HELD):
        above = f"held: {held[-1].text}".rstrip(": ")
    if above:
        return above, "kern edit takes its Held line out", ""
    why = OPEN_SUBTASKS if task.open_subtasks else late
    if why.startswith(UNKNOWN):
        return why, f"kern show {number}, correct its After note in SPEC.md", why
    if skipped := task.of(Kind.SKIPPED):
        do = f"kern show {number}, edit the task; left alone, it is tried again last"
        return why, do, f"skipped: {skipped[-1].text}"
    return why, "", ""


def blockers(spec: Spec) -> Callable[[Task], str]:
    """Why a pending task is not ready, empty when it is."""
    reasons = {wait.task.line: wait.why for wait in waits(spec)}
    return lambda task: reasons[task.line]


def _first_open(spec: Spec) -> dict[str, int]:
    """Of the tasks with a name the number of the first open one; 0 where all are done."""
    first = dict.fromkeys(spec.finished, 0)
    for number, task in enumerate(spec.tasks, 1):
        key = name(task.text)
        first[key] = first.get(key) or (0 if task.marker is Marker.DONE else number)
    return first


def _unmet(spec: Spec, first: dict[str, int], text: str) -> str:
    if (number := first.get(name(text))) is None:
        return f"{UNKNOWN}: {text}"
    return f"waits for {number} ({spec.tasks[number - 1].text})" if number else ""


def _after(task: Task) -> tuple[Note, ...]:
    return task.of(Kind.AFTER) if matters(task) else ()


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
    for number, task, why, *_ in waits(spec):
        if task.marker is Marker.PENDING and not (task.open_subtasks or why):
            yield number - 1, task


def named(words: str, tasks: Sequence[str], removed: Sequence[str] = ()) -> int:
    """The index, in `[*tasks, *removed]`, of the task that a person means: by its text, by its
    number as `kern status` shows it, or by a part of its text. `removed` have no number: the
    journal knows them, SPEC.md does not any more. The first of these ways that leads anywhere
    counts.
    """
    every, word, is_number = [*tasks, *removed], name(words), words.isdecimal()
    number = int(words) if is_number and len(words) < 10 else 0
    matches = [at for at, text in enumerate(every) if name(text) == word]
    if not matches and 0 < number <= len(tasks):
        return number - 1
    if word and not (matches or is_number):
        matches = [at for at, text in enumerate(every) if word in name(text)]
    matches = [at for at in matches if at < len(tasks)] or matches
    if len(matches) == 1:
        return matches[0]
    title = plain.line(words, 160)
    if not matches:
        hint = "kern status shows the tasks and their numbers"
        raise UsageError(f"no task is named by {title!r}", hint=hint)
    rows = [
        f"{at + 1 if at < len(tasks) else '-':>4}  {plain.line(every[at], 140)}"
        for at in matches[:_MOST_NAMED]
    ]
    what = "\n".join([f"{len(matches)} tasks are named by {title!r}:", *rows])
    raise UsageError(what, hint="name it by its number, or by all of its text")


# ---------------------------------------------------------------- what leads nowhere


def faults(spec: Spec) -> tuple[Diagnostic, ...]:
    """`After` notes that nothing can ever meet: each unknown name, and a circle."""
    diagnostics = [
        Diagnostic(note.line, f"After names no task in SPEC.md: {plain.line(note.text, 160)!r}")
        for note in unknown(spec)
    ]
    return tuple(sorted([*diagnostics, *_circle(spec)], key=lambda fault: fault.line))


def unknown(spec: Spec) -> list[Note]:
    """The `After` notes with a name that no task has."""
    first = _first_open(spec)
    return [note for task in spec.tasks for note in _after(task) if name(note.text) not in first]


def _circle(spec: Spec) -> list[Diagnostic]:
    """The tasks of the first circle that is met."""
    try:
        _steps(spec).prepare()
    except CycleError as exc:
        steps = {max(step, ~step) for step in exc.args[1] if isinstance(step, int)}
        rows = [spec.tasks[index] for index in sorted(steps)]
        names = ", ".join(f"{plain.line(row.text, 60)} (line {row.line})" for row in rows)
        message = plain.line(f"waits for itself, as part of a circle: {names}", _LONGEST_WAY)
        return [Diagnostic(rows[0].line, message)]
    return []


def _steps(spec: Spec) -> TopologicalSorter[int | str]:
    """What each step waits for: `i` is the end of the task with that index, `~i` its beginning, a
    name the end of all that bear it.
    """
    steps = TopologicalSorter[int | str]()
    for index, task in enumerate(spec.tasks):
        above = [] if task.parent is None else [task.parent]
        steps.add(~index, *(~one for one in above), *(name(note.text) for note in _after(task)))
        if task.marker is not Marker.DONE:
            steps.add(index, ~index)
            steps.add(name(task.text), index)
            for whole in above:
                steps.add(whole, index)
    return steps


# ---------------------------------------------------------------- what is left, and needs a person


def counts(spec: Spec) -> dict[str, int]:
    """Of tasks that kern carries out. One with subtasks is ticked with its last one."""
    single = [task.marker for task in spec.tasks if not task.whole]
    return {marker.name.lower(): single.count(marker) for marker in Marker}


def still(spec: Spec) -> int:
    """How many tasks are left to carry out; a parent with open subtasks is none."""
    return sum(map(_is_left, spec.tasks))


def ahead(spec: Spec, *, again: bool = True) -> int:
    """How many of them runs can take up: what is blocked, held or asks something waits. `again`:
    also what was skipped.
    """
    rows = (row for row in waits(spec) if _is_left(row.task))
    return sum(not (row.do and (row.why or not again)) for row in rows)


def _is_left(task: Task) -> bool:
    return task.marker is not Marker.DONE and not task.open_subtasks


def needs(spec: Spec) -> tuple[Need, ...]:
    """The tasks that a person can help on, each once, in file order."""
    return tuple(
        Need(number, task.line, task.text, notes.without_ref(need), do)
        for number, task, _, do, need in waits(spec)
        if need and task.notes and task.marker is Marker.PENDING
    )


def can_begin(spec: Spec, words: str, in_progress: Key | None = None) -> Key:
    """The one task that a person wants carried out; `words` name it as everywhere. `in_progress`:
    what an earlier run left unfinished. Raises UsageError where a run could not take it next.
    """
    index = named(words, [one.text for one in spec.tasks])
    task = spec.tasks[index]
    if task.key == in_progress:
        return task.key
    why, hint = waits(spec)[index][2:4]
    if task.marker is Marker.DONE:
        why, hint = "it is done", "[ ] in kern edit opens it again"
    elif in_progress is not None:
        why, hint = f"{plain.line(in_progress.text, 200)} is in progress and comes first", "kern 1"
    if why:
        hint = hint or "kern status tells more"
        raise UsageError(f"{plain.line(why)}: {spec.shown(index)}", hint=hint)
    return task.key
