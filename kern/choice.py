"""Which task is next, and what the others wait for (R11). Pure."""

from collections.abc import Callable, Collection

from kern import edit
from kern.spec import Key, Kind, Marker, Spec, Task, parse

OPEN_SUBTASKS = "has open subtasks"


def name(text: str) -> str:
    """What an `After:` note and a task are compared by."""
    return " ".join(text.split()).casefold()


def blockers(spec: Spec) -> Callable[[Task], str]:
    """Why a pending task is not ready, empty when it is; the names are gathered once."""
    still_open: dict[str, bool] = {}
    for task in spec.tasks:
        key = name(task.text)
        still_open[key] = still_open.get(key, False) or task.marker is not Marker.DONE

    def blocker(task: Task) -> str:
        if blocked := task.of(Kind.BLOCKED):
            return f"blocked: {blocked[-1].text}"
        if task.open_subtasks:
            return OPEN_SUBTASKS
        for note in task.of(Kind.AFTER):
            there = still_open.get(name(note.text))
            if there is None:
                return f"waits for a task that is not in SPEC.md: {note.text}"
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


def following(text: str, key: Key, passed_over: Collection[Key]) -> Task | None:
    """The task that comes once this one of SPEC.md's is done."""
    parsed = parse(text)
    task = parsed.find(key)
    return select(parse(edit.tick(text, parsed, task)) if task else parsed, passed_over)
