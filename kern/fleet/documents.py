"""SPEC.md written anew with what a worker's kern wrote into its own: kern is its only writer, so
nothing of it is merged. Text in, text out. Pure.
"""

from kern.model import Key, Marker
from kern.spec import edit
from kern.spec.parse import Spec, Task, parse


def find(parsed: Spec, key: Key) -> Task | None:
    """The task; under a parent that was reworded meanwhile, where its text tells."""
    same = [task for task in parsed.tasks if task.text == key.text]
    return parsed.find(key) or (same[0] if len(same) == 1 else None)


def ticked(text: str, key: Key, theirs: str) -> str:
    """With the task done and its notes in the worker's SPEC.md. A parent of which it was the last
    open subtask is done with it, unless it has checks that the worker did not see.
    """
    task = find(parse(text), key)
    if task is None:
        return text
    text = edit.replayed(noted(text, key, theirs), theirs, task.key)
    parsed = parse(text)
    again = parsed.find(task.key)
    return edit.tick(text, parsed, again, proved=False) if again else text


def noted(text: str, key: Key, theirs: str) -> str:
    """With the notes that the worker's SPEC.md has under the task, each once."""
    task, other = find(parse(text), key), parse(theirs).find(key)
    return edit.noted(text, task, theirs, other) if task and other else text


def split(text: str, key: Key, theirs: str) -> str:
    """With these notes and the subtasks: of a task that is not done."""
    text, new = noted(text, key, theirs), parse(theirs)
    parsed, other = parse(text), new.find(key)
    task = find(parsed, key)
    if task is None or other is None:
        return text
    index = new.tasks.index(other)
    titles = [one.text for one in new.tasks if one.parent == index]
    return edit.add_subtasks(text, parsed, task, titles)


def committed(text: str) -> str:
    """As a commit holds it: which tasks are under way is nothing for history."""
    return edit.mark_all(text, [(task, Marker.PENDING) for task in parse(text).active])
