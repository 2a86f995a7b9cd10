"""Which task is next, what the others wait for (R11), and which one a person means. Pure."""

from collections.abc import Callable, Collection, Sequence
from functools import cache

from kern import plain, questions
from kern.errors import UsageError
from kern.spec import Key, Kind, Marker, Spec, Task

OPEN_SUBTASKS = "has open subtasks"
UNKNOWN = "waits for a task that is not in SPEC.md"


def name(text: str) -> str:
    """What an `After:` note and a task are compared by."""
    return " ".join(text.split()).casefold()


def blockers(spec: Spec) -> Callable[[Task], str]:
    """Why a pending task is not ready, empty when it is; the names are gathered once, if at all."""

    @cache
    def still_open() -> dict[str, bool]:
        known: dict[str, bool] = {}
        for task in spec.tasks:
            key = name(task.text)
            known[key] = known.get(key, False) or task.marker is not Marker.DONE
        return known

    def blocker(task: Task) -> str:
        if blocked := task.of(Kind.BLOCKED):
            return f"blocked: {blocked[-1].text}"
        if asked := questions.blocker(task):
            return asked
        if task.open_subtasks:
            return OPEN_SUBTASKS
        for note in task.of(Kind.AFTER):
            there = still_open().get(name(note.text))
            if there is None:
                return f"{UNKNOWN}: {note.text}"
            if there:
                return f"waits for: {note.text}"
        return ""

    return blocker


def select(spec: Spec, passed_over: Collection[Key] = ()) -> Task | None:
    """The `[~]` task, else the ready one least often skipped, in file order (R11).

    `passed_over` are those that this run skipped: they come last (R23).
    """
    if spec.active:
        return spec.active[0]
    blocker = blockers(spec)
    best: tuple[tuple[bool, int], Task] | None = None
    for task in spec.tasks:
        if task.marker is not Marker.PENDING or task.open_subtasks:
            continue
        if task.notes and blocker(task):
            continue
        rank = (task.key in passed_over, len(task.of(Kind.SKIPPED)) if task.notes else 0)
        if best is None or rank < best[0]:
            best = (rank, task)
    return best[1] if best else None


def ahead(spec: Spec) -> int:
    """How many tasks runs can take up: a parent is done with its subtasks, a blocked one and one
    with an open question wait.
    """
    return sum(
        task.marker is not Marker.DONE
        and not task.open_subtasks
        and not (task.notes and (task.of(Kind.BLOCKED) or questions.pending(task)))
        for task in spec.tasks
    )


_MOST_NAMED = 20  # in a complaint


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
    if not found and wanted.isdecimal() and 1 <= int(wanted) <= first:
        found = [int(wanted) - 1]
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
        hint="name it by its number, or by all of its text",
    )
