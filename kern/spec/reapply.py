"""kern's own lines of SPEC.md once more, onto a text that something else may have written. Pure.

They are the marker and the notes of a task in progress, and every tick. All else that changed is
taken for a person's, and stays.
"""

from dataclasses import replace

from kern.model import Marker
from kern.spec import edit
from kern.spec.parse import Kind, Spec, Task, parse


def reapply(before: str, after: str) -> tuple[str, list[str]]:
    """The text, and what to say of it. Where kern's lines cannot be read there (a fence hides them)
    it is the text of before.
    """
    if before == after:
        return after, []
    old = parse(before)
    text, warnings = _markers(old, after)
    renamed = [task for task in parse(text).active if old.find(task.key) is None]
    for task in () if renamed else old.active:  # under other words it is a person's edit
        text, more = _whole(before, old, task, text)
        warnings += more
    now = parse(text)
    missing = {task.key for task in old.active} - {task.key for task in now.tasks}
    if (missing and not renamed) or (now.unclosed and not old.unclosed):
        return before, ["SPEC.md hid the tasks that are there: restored"]
    old_faults = {fault.message for fault in old.diagnostics}
    return text, warnings + [one.said for one in now.diagnostics if one.message not in old_faults]


def _markers(old: Spec, after: str) -> tuple[str, list[str]]:
    """A tick that was not there goes back, and so does what became of `[~]`."""
    tasks, wrong = parse(after).tasks, list[tuple[Task, Marker]]()
    marks = {task.key: task.marker for task in old.tasks}
    done = {task.text for task in old.tasks if task.marker is Marker.DONE}
    reworded = len(done - {task.text for task in tasks})  # a formatter's, say
    for task in tasks:
        marker = marks.get(task.key, Marker.DONE if task.text in done else Marker.PENDING)
        if task.marker is Marker.DONE and task.key not in marks and task.text not in done:
            reworded -= 1
            marker = Marker.DONE if reworded >= 0 else Marker.PENDING
        if task.marker is not marker and (task.marker is Marker.DONE or marker is Marker.ACTIVE):
            wrong.append((task, marker))
    return edit.mark_all(after, wrong), [
        f"marker [{task.marker}] that kern did not set, now [{marker}]: {task.text}"
        for task, marker in wrong
    ]


def _whole(before: str, old: Spec, task: Task, text: str) -> tuple[str, list[str]]:
    """With the task in progress and the notes that it had."""
    warnings: list[str] = []
    if parse(text).find(task.key) is None:
        text = _put_back(text, old, task, before.split("\n")[task.line - 1 : task.end])
        warnings.append(f"restored a task that vanished from SPEC.md: {task.text}")
    if (there := parse(text).find(task.key)) is None:
        return text, []
    # A research note that reads otherwise was edited.
    edited = Kind.RESEARCH if there.of(Kind.RESEARCH) else None
    rest = replace(task, notes=[note for note in task.notes if note.kind is not edited])
    fixed = edit.noted(text, there, before, rest)
    if fixed != text:
        warnings.append(f"restored notes that vanished from SPEC.md under: {task.text}")
    return fixed, warnings


def _put_back(text: str, old: Spec, task: Task, block: list[str]) -> str:
    """Below what it is a part of, else behind all."""
    now, whole = parse(text), None if task.parent is None else old.tasks[task.parent].key
    parent = next((at for at, one in enumerate(now.tasks) if one.key == whole), None)
    return edit.add_tasks(text, now, [line.removeprefix(task.margin) for line in block], parent)
