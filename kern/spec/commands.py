"""What a person does to the tasks by a command: each verb is one edit and what is said of it. Pure.

A task is named by its number, its text or a part of it (`order.named`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from kern import plain
from kern.errors import UsageError
from kern.model import Marker
from kern.spec import edit, imports, notes, order
from kern.spec.parse import Kind, Spec, Task, is_experiment, parse


class Edited(NamedTuple):
    text: str
    said: str


_COUNTED = (Kind.ATTEMPT, Kind.SKIPPED, Kind.BLOCKED)


class New(NamedTuple):
    """A task to be added: what it says, comes after and must pass."""

    title: str
    after: Sequence[str] = ()
    gates: Sequence[str] = ()
    judges: Sequence[str] = ()


def add(text: str, spec: Spec, new: New) -> Edited:
    """Below the tasks that are there."""
    title = imports.as_title(new.title)
    for index, task in enumerate(spec.tasks):
        if task.parent is None and order.name(task.text) == order.name(title):
            raise UsageError(
                f"there already: {spec.shown(index)}",
                hint="kern edit takes it up again, or adds words to it",
            )
    lines = [
        *(f"> **{Kind.AFTER}:** {_named(spec, one)[1].text}" for one in new.after),
        *(f"> **{Kind.GATE}:** {_gate(one)}" for one in new.gates),
        *(f"> **{Kind.JUDGE}:** {_judge(one)}" for one in new.judges),
    ]
    text = edit.add_tasks(text, spec, [f"- [ ] {title}", *(f"  {line}" for line in lines)])
    return Edited(text, f"added {parse(text).shown(len(spec.tasks))}")


def reopened(text: str, spec: Spec, task: Task) -> str:
    text = edit.reopen(text, spec, task)
    anew = task.marker is Marker.DONE and is_experiment(task.text)
    return edit.without(text, task.of(Kind.ATTEMPT)) if anew else text


def retry(text: str, spec: Spec, words: str) -> Edited:
    """What came of it so far counts no more: with its attempts used up it would be skipped or
    blocked again at once. Their work stays in its refs.
    """
    index, task = _named(spec, words)
    _refuse(spec, index)
    if not (counted := task.of(*_COUNTED)):
        return Edited(text, f"no attempt counts: {spec.shown(index)}")
    waits = f'; first: kern answer {index + 1} "…"' if notes.pending(task) else ""
    message = f"to be tried afresh; saved work stays in refs/kern/attempts: {spec.shown(index)}"
    return Edited(edit.without(text, counted), message + waits)


# ---------------------------------------------------------------- which task, and may it be


def _named(spec: Spec, words: str) -> tuple[int, Task]:
    index = order.named(words, [task.text for task in spec.tasks])
    return index, spec.tasks[index]


def _refuse(spec: Spec, index: int) -> None:
    """What is done or in progress."""
    task, number, title = spec.tasks[index], index + 1, spec.shown(index)
    if task.marker is Marker.ACTIVE:
        raise UsageError(
            f"kern has it in progress: {title}",
            hint="kern goes on with it; or kern stop, then kern edit: [ ] gives it back",
        )
    if task.marker is Marker.DONE:
        raise UsageError(
            f"it is done: {title}",
            hint=f"kern undo {number} takes its commit back and opens it; kern edit opens it alone",
        )


# ---------------------------------------------------------------- its checks


def _gate(command: str) -> str:
    """As it is read back as it was given."""
    bare = command.strip()
    if not bare.strip("` ") or "\n" in bare or plain.UNSAFE.search(bare):
        hint = "join commands with &&, or put them into a script"
        raise UsageError(f"a gate is one line: {plain.line(command, 160)!r}", hint=hint)
    if bare.startswith("`"):
        return f"`` {bare} ``"
    return bare if "`" in bare else f"`{bare}`"


def _judge(text: str) -> str:
    flat = plain.line(text, len(text))
    if not flat.strip("` "):
        raise UsageError("the judge is asked nothing", hint='--judge "every error says what to do"')
    return flat
