"""What a person does to the tasks by a command: each verb is one edit, and a line about it. Pure.

A task is named by its number, its text or a part of it (`order.named`).
"""

from collections.abc import Sequence
from itertools import takewhile

from kern import plain
from kern.errors import UsageError
from kern.model import Marker
from kern.spec import edit, imports, notes, order
from kern.spec.parse import Kind, Spec, Task, is_experiment, parse

Edited = tuple[str, str]  # the text, and what is said of it
_COUNTED = (Kind.ATTEMPT, Kind.SKIPPED, Kind.BLOCKED)


def add(
    text: str,
    spec: Spec,
    title: str,
    *,
    after: Sequence[str] = (),
    gates: Sequence[str] = (),
    judges: Sequence[str] = (),
) -> Edited:
    """Below the tasks that are there. `after`: what must come first; `gates` and `judges`: what it
    must pass.
    """
    title = imports.as_title(title)
    for index, task in enumerate(spec.tasks):
        if task.parent is None and order.name(task.text) == order.name(title):
            what = f"there already: {spec.shown(index)}"
            raise UsageError(what, hint="kern edit takes it up again, or adds words to it")
    texts = [task.text for task in spec.tasks]
    lines = [
        *(f"  > **{Kind.AFTER}:** {texts[order.named(one, texts)]}" for one in after),
        *(f"  > **{Kind.GATE}:** {_gate(one)}" for one in gates),
        *(f"  > **{Kind.JUDGE}:** {plain.line(one, len(one))}" for one in judges),
    ]
    text = edit.add_tasks(text, spec, [f"- [ ] {title}", *lines])
    new = parse(text)
    if fault := next(iter(new.diagnostics[len(spec.diagnostics) :]), None):
        raise UsageError(fault.message, hint='say what it is: --gate "make test", --judge "…"')
    return text, f"added {new.shown(len(texts))}"


def _gate(command: str) -> str:
    """As it is read back as it was given."""
    bare = command.strip()
    if not bare or bare[0] == "`" or "\n" in bare or plain.UNSAFE.search(bare):
        raise UsageError(
            f"a gate is one line, with no ` at its beginning: {plain.line(command, 160)!r}",
            hint="join commands with &&, or put them into a script",
        )
    return bare if "`" in bare else f"`{bare}`"


def reopened(text: str, spec: Spec, task: Task) -> str:
    """With the task pending, and every ancestor that was done with it."""
    above = takewhile(lambda at: spec.tasks[at].marker is Marker.DONE, spec.above(task))
    again = [task, *(spec.tasks[at] for at in above)]
    text = edit.mark_all(text, [(one, Marker.PENDING) for one in again])
    anew = task.marker is Marker.DONE and is_experiment(task.text)
    return edit.without(text, task.of(Kind.ATTEMPT)) if anew else text


def retry(text: str, spec: Spec, words: str) -> Edited:
    """What came of it so far counts no more: with its attempts used up it would be skipped or
    blocked again at once. Their work stays in its refs.
    """
    index = order.named(words, [task.text for task in spec.tasks])
    task, number, title = spec.tasks[index], index + 1, spec.shown(index)
    if task.marker is Marker.ACTIVE:
        hint = "kern goes on with it; or kern stop, then kern edit: [ ] gives it back"
        raise UsageError(f"kern has it in progress: {title}", hint=hint)
    if task.marker is Marker.DONE:
        hint = f"kern undo {number} takes its commit back and opens it; kern edit opens it alone"
        raise UsageError(f"it is done: {title}", hint=hint)
    if not (counted := task.of(*_COUNTED)):
        return text, f"no attempt counts: {title}"
    waits = f'; first: kern answer {number} "…"' if notes.pending(task) else ""
    message = f"to be tried afresh; saved work stays in refs/kern/attempts: {title}"
    return edit.without(text, counted), message + waits
