"""SPEC.md written anew with what a worker's kern wrote into its own: kern is its
only writer, so nothing of it is merged. Text in, text out. Pure.
"""

from dataclasses import replace

from kern.model import Key, Marker
from kern.spec import edit
from kern.spec.parse import Spec, Task, parse


def found(parsed: Spec, key: Key) -> Task | None:
    """The task; under a parent that was reworded meanwhile, where its text tells."""
    same = [task for task in parsed.tasks if task.text == key.text]
    return parsed.find(key) or (same[0] if len(same) == 1 else None)


def ticked(text: str, key: Key, came: str) -> str:
    """With the task done and what `came`, the worker's SPEC.md, notes under it. A parent of which
    it was the last open subtask is done with it, unless it has checks that the worker did not see.
    """
    task = found(parse(text), key)
    if task is None:
        return text
    text = edit.replayed(noted(text, key, came), came, task.key)
    parsed = parse(text)
    again = parsed.find(task.key)
    return edit.tick(text, parsed, again, proved=False) if again else text


def noted(text: str, key: Key, came: str) -> str:
    """With what `came` notes under the task, each once."""
    task, theirs = found(parse(text), key), parse(came).find(key)
    if task is None or theirs is None:
        return text
    return edit.noted(text, task, came, theirs)


def committed(text: str) -> str:
    """As a commit holds it: which tasks are under way is nothing for history."""
    return edit.mark_all(text, [(task, Marker.PENDING) for task in parse(text).active])


# ---------------------------------------------------------------- of a task that does not land


def carried(text: str, key: Key, before: str, after: str) -> str:
    """`text` with what the worker's kern changed under the task from `before` to `after`, its
    marker apart. Where a person has edited there meanwhile, or an earlier run handed the task out
    and `before` is not known, what stands there stays and what is new is added.
    """
    now, old, new = parse(text), parse(before), parse(after)
    mine, was, theirs = now.find(key), old.find(key), new.find(key)
    if mine is None or theirs is None:
        return text
    if was and _block(text, mine) == _block(before, was):
        lines = text.split("\n")
        came = _block(after, theirs)
        came[0] = lines[mine.line - 1]  # the task's own line, with its marker
        lines[mine.line - 1 : mine.block_end] = came
        return "\n".join(lines)
    fresh = _quotes(after, theirs)
    known = {*(_quotes(before, was) if was else ()), *_quotes(text, mine)}
    text = edit.annotate(text, mine, [line for line in fresh if line not in known])
    now = parse(text)
    again = now.find(key)
    assert again is not None
    return edit.add_subtasks(text, now, again, _subtasks(new, theirs))


def _block(text: str, task: Task) -> list[str]:
    """Its lines, subtasks included; the first without its marker, which is not carried."""
    lines = text.split("\n")[task.line - 1 : task.block_end]
    lines[0] = edit.mark("\n".join(lines[:1]), replace(task, line=1), Marker.PENDING)
    return lines


def _quotes(text: str, task: Task) -> list[str]:
    """The lines of its notes, from the left."""
    lines = text.split("\n")
    found = [line for note in task.notes for line in lines[note.line - 1 : note.end]]
    return [line.strip() for line in found]


def _subtasks(spec: Spec, task: Task) -> list[str]:
    at = spec.tasks.index(task)
    return [one.text for one in spec.tasks if one.parent == at]
