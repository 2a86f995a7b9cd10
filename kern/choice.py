"""Which task is next, and what the others wait for (R11). Pure."""

from collections.abc import Collection

from kern.spec import Key, Kind, Marker, Spec, Task

OPEN_SUBTASKS = "has open subtasks"


def name(text: str) -> str:
    """What an `After:` note and a task are compared by."""
    return " ".join(text.split()).casefold()


def blocker(spec: Spec, task: Task) -> str:
    """Why a pending task is not ready; empty when it is."""
    if blocked := task.of(Kind.BLOCKED):
        return f"blocked: {blocked[-1].text}"
    if task.open_subtasks:
        return OPEN_SUBTASKS
    for note in task.of(Kind.AFTER):
        wanted = name(note.text)
        named = [other for other in spec.tasks if name(other.text) == wanted]
        if not named:
            return f"waits for a task that is not in SPEC.md: {note.text}"
        if any(other.marker is not Marker.DONE for other in named):
            return f"waits for: {note.text}"
    return ""


def select(spec: Spec, passed_over: Collection[Key] = ()) -> Task | None:
    """The `[~]` task, else the ready one least often skipped, in file order (R11).

    `passed_over` are those that this run skipped: they come last (R23).
    """
    if spec.active:
        return spec.active[0]
    done = {name(task.text) for task in spec.tasks if task.marker is Marker.DONE}
    undone = {name(task.text) for task in spec.tasks if task.marker is not Marker.DONE}
    best: tuple[tuple[bool, int], Task] | None = None
    for task in spec.tasks:
        if task.marker is not Marker.PENDING or task.open_subtasks:
            continue
        if task.notes and not _ready(task, done, undone):
            continue
        rank = (task.key in passed_over, len(task.of(Kind.SKIPPED)) if task.notes else 0)
        if best is None or rank < best[0]:
            best = (rank, task)
    return best[1] if best else None


def _ready(task: Task, done: Collection[str], undone: Collection[str]) -> bool:
    if task.of(Kind.BLOCKED):
        return False
    wanted = [name(note.text) for note in task.of(Kind.AFTER)]
    return all(text in done and text not in undone for text in wanted)
