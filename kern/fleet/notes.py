"""What a worker's kern wrote under its task, brought into the SPEC.md that a person may have edited
meanwhile. Pure.
"""

from kern.model import Key, Marker
from kern.spec import edit
from kern.spec.checklist import Spec, Task, parse


def carried(text: str, key: Key, before: str, after: str) -> str:
    """`text` with what the worker's kern changed under the task from `before` to `after`, its
    marker apart. Where a person has edited there meanwhile, theirs stays and what is new is added.
    """
    now, old, new = parse(text), parse(before), parse(after)
    mine, was, theirs = now.find(key), old.find(key), new.find(key)
    if mine is None or was is None or theirs is None:
        return text
    if _block(text, mine) == _block(before, was):
        lines = text.split("\n")
        came = _block(after, theirs)
        came[0] = lines[mine.line - 1]  # the task's own line, with its marker
        lines[mine.line - 1 : mine.block_end] = came
        return "\n".join(lines)
    fresh = _quotes(after, theirs)
    known = {*_quotes(before, was), *_quotes(text, mine)}
    text = edit.annotate(text, mine, [line for line in fresh if line not in known])
    now = parse(text)
    again = now.find(key)
    assert again is not None
    return edit.add_subtasks(text, now, again, _subtasks(new, theirs))


def _block(text: str, task: Task) -> list[str]:
    """Its lines, subtasks included; the first without its marker, which is not carried."""
    lines = text.split("\n")[task.line - 1 : task.block_end]
    lines[0] = edit.mark("\n".join(lines[:1]), task._replace(line=1), Marker.PENDING)
    return lines


def _quotes(text: str, task: Task) -> list[str]:
    """The lines of its notes, from the left."""
    lines = text.split("\n")
    found = [line for note in task.notes for line in lines[note.line - 1 : note.end]]
    return [line.strip() for line in found]


def _subtasks(spec: Spec, task: Task) -> list[str]:
    at = spec.tasks.index(task)
    return [one.text for one in spec.tasks if one.parent == at]
