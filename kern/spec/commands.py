"""What a person does to the tasks by a command: each verb is one edit and what is said of it. Pure.

A task is named by its number, its text or a part of it (`dependencies.named`).
"""

import re
import shlex
from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import NamedTuple

from kern import plain
from kern.errors import UsageError
from kern.model import Marker
from kern.spec import dependencies, edit, questions
from kern.spec.checklist import EXAMPLE, Kind, Note, Spec, Task, is_experiment, parse
from kern.spec.required import criteria, task_gates


class Edited(NamedTuple):
    text: str
    said: str


_MOST_NAMED = 10  # tasks in a sentence
_COUNTED = (Kind.ATTEMPT, Kind.SKIPPED, Kind.BLOCKED)
Verb = Callable[[str, Spec, str], Edited]


def added_again(task: Task) -> str:
    """The command that adds the task."""
    words = ["--under", task.key.parent] if task.key.parent else []
    words += [word for note in task.of(Kind.AFTER) for word in ("--after", note.text)]
    words += [word for gate in task_gates(task, 0) for word in ("--gate", gate.command)]
    words += [word for criterion in criteria(task) for word in ("--judge", criterion)]
    return shlex.join(["kern", "add", task.text, *words])


def given_again(task: Task, note: Note) -> str:
    if note.kind is Kind.ANSWER:
        return shlex.join(["kern", "answer", task.text, note.text])
    if note.kind is Kind.HELD:
        return shlex.join(["kern", "hold", task.text, note.text])
    return "write it again when the run has ended"


class New(NamedTuple):
    """A task to be added: what it says, comes after, must pass and belongs to."""

    title: str
    after: Sequence[str] = ()
    gates: Sequence[str] = ()
    judges: Sequence[str] = ()
    under: str = ""


def add(text: str, spec: Spec, new: New) -> Edited:
    """Below the tasks that are there, or below the subtasks of the one it belongs to."""
    title = as_title(new.title)
    parent = _named(spec, new.under)[0] if new.under else None
    if parent is not None:
        _refuse_below(spec, parent)
    for index, task in enumerate(spec.tasks):
        if task.parent == parent and dependencies.name(task.text) == dependencies.name(title):
            again = f"kern reopen {index + 1} takes it up again"
            words = f'kern note {index + 1} "…" adds words to it'
            raise UsageError(
                f"there already: {spec.shown(index)}",
                hint=again if task.marker is Marker.DONE else words,
            )
    notes = [
        *(f"> **{Kind.AFTER}:** {_named(spec, one)[1].text}" for one in new.after),
        *(f"> **{Kind.GATE}:** {_gate(one)}" for one in new.gates),
        *(f"> **{Kind.JUDGE}:** {_judge(one)}" for one in new.judges),
    ]
    if parent is None:
        text = edit.add_tasks(text, spec, [f"- [ ] {title}"])
    else:
        text = edit.add_subtasks(text, spec, spec.tasks[parent], [title])
    there = parse(text)
    index = max(i for i, task in enumerate(there.tasks) if task.parent == parent)
    text = edit.annotate(text, there.tasks[index], notes)
    now = parse(text)
    if index in dependencies.stuck(now):
        raise UsageError(
            "\n".join(
                ["it could never begin:", *(one.message for one in dependencies.circles(now))]
            ),
            hint="kern graph draws what waits for what",
        )
    return Edited(text, f"added {now.shown(index)}")


def done(text: str, spec: Spec, wanted: str) -> Edited:
    """Its parents too, where it was their last open subtask."""
    index, task = _named(spec, wanted)
    if task.marker is Marker.DONE:
        return Edited(text, f"done already: {spec.shown(index)}")
    _refuse_active(spec, index)
    _refuse_parent(spec, index)
    ticked = edit.ticked(spec, task)
    above = [spec.shown(spec.tasks.index(one)) for one in ticked[1:]]
    said = "".join(f", and with it {one}" for one in above)
    return Edited(edit.tick(text, spec, task), f"done {spec.shown(index)}{said}")


def reopen(text: str, spec: Spec, wanted: str) -> Edited:
    """Its done parents too. A task in progress is given back: the next run keeps what was half
    done. An experiment begins anew: with its attempts it would be concluded again at once.
    """
    index, task = _named(spec, wanted)
    if task.marker is Marker.PENDING:
        return Edited(text, f"open already: {spec.shown(index)}")
    kept = "; the next kern saves its unfinished work" if task.marker is Marker.ACTIVE else ""
    return Edited(reopened(text, spec, task), f"reopened {spec.shown(index)}{kept}")


def reopened(text: str, spec: Spec, task: Task) -> str:
    text = edit.reopen(text, spec, task)
    if task.marker is Marker.DONE and is_experiment(task.text):
        text = edit.strike(text, {note.line for note in task.of(Kind.ATTEMPT)})
    return text


def defer(text: str, spec: Spec, wanted: str, reason: str = "") -> Edited:
    """A note by which it comes after those that were skipped less often."""
    index, task = _named(spec, wanted)
    if task.marker is Marker.DONE:
        return Edited(text, f"done already: {spec.shown(index)}")
    _refuse_active(spec, index)
    _refuse_parent(spec, index)
    why = f"by a person: {reason}" if reason.strip() else "by a person"
    text = edit.annotate(text, task, [edit.note(Kind.SKIPPED, why)])
    return Edited(text, f"deferred {spec.shown(index)}")


def hold(text: str, spec: Spec, wanted: str, reason: str = "") -> Edited:
    """Neither it nor a subtask of it is taken until `unhold`. Says what waits with it."""
    index, task = _named(spec, wanted)
    if task.marker is Marker.DONE:
        return Edited(text, f"done already: {spec.shown(index)}")
    _refuse_active(spec, index)
    if noted := task.of(Kind.HELD):
        if not (why := plain.line(reason, edit.NOTE_LIMIT)) or why == noted[-1].text:
            return Edited(text, f"held already: {spec.shown(index)}")
        again = edit.without(text, task, Kind.HELD)
        text = edit.annotate(again, parse(again).tasks[index], [edit.note(Kind.HELD, why)])
        return Edited(text, f"held already, now for another reason: {spec.shown(index)}")
    parts = [at for at, one in enumerate(spec.tasks) if index in spec.above(one)]
    for at in parts:
        _refuse_active(spec, at)
    parts = [at for at in parts if spec.tasks[at].marker is not Marker.DONE]
    late = [at for at in dependencies.behind(spec, index, *parts) if at not in parts]
    said = f"held {spec.shown(index)}"
    if parts:
        said += f"; its subtasks with it: {_numbers(parts)}"
    if late:
        named = ", ".join(spec.shown(at) for at in late[:_MOST_NAMED])
        more = f" and {len(late) - _MOST_NAMED} more" if len(late) > _MOST_NAMED else ""
        said += f"; waiting for it: {named}{more}"
    text = edit.annotate(text, task, [edit.note(Kind.HELD, reason.strip() or "by a person")])
    return Edited(text, said)


def unhold(text: str, spec: Spec, wanted: str) -> Edited:
    index, task = _named(spec, wanted)
    if not task.of(Kind.HELD):
        above = next((at for at in spec.above(task) if spec.tasks[at].of(Kind.HELD)), None)
        if above is None:
            return Edited(text, f"not held: {spec.shown(index)}")
        raise UsageError(
            f"{index + 1} is held with the whole that it belongs to: {spec.shown(above)}",
            hint=f"kern unhold {above + 1}",
        )
    text = edit.without(text, task, Kind.HELD)
    return Edited(text, f"no longer held: {spec.shown(index)}")


def unblock(text: str, spec: Spec, wanted: str) -> Edited:
    index, task = _named(spec, wanted)
    if not task.of(Kind.BLOCKED):
        return Edited(text, f"not blocked: {spec.shown(index)}")
    return Edited(_afresh(text, task), f"unblocked {spec.shown(index)}")


def retry(text: str, spec: Spec, wanted: str) -> Edited:
    """What came of it so far counts no more: with its attempts used up it would be skipped or
    blocked again at once. Their work stays in its refs.
    """
    index, task = _named(spec, wanted)
    if task.marker is Marker.DONE:
        raise UsageError(
            f"it is done: {spec.shown(index)}",
            hint=f"kern undo {index + 1} takes its commit back; kern reopen {index + 1} does not",
        )
    _refuse_active(spec, index)
    if not any(map(task.of, _COUNTED)):
        return Edited(text, f"no attempt counts: {spec.shown(index)}")
    attempts = plain.count(task.attempts, "attempt") if task.attempts else "what was noted"
    text = _afresh(text, task)
    kept = ", whose work stays in refs/kern/attempts" if task.attempts else ""
    waits = f'; first: kern answer {index + 1} "…"' if questions.pending(task) else ""
    return Edited(text, f"to be tried afresh, without {attempts}{kept}: {spec.shown(index)}{waits}")


def _afresh(text: str, task: Task) -> str:
    notes = [note for kind in _COUNTED for note in task.of(kind)]
    return edit.strike(text, {line for note in notes for line in range(note.line, note.end + 1)})


def note(text: str, spec: Spec, wanted: str, words: str) -> Edited:
    """The agents read what stands under a task."""
    index, task = _named(spec, wanted)
    lines = as_body(words)
    if not lines:
        raise UsageError("the note says nothing", hint=f'kern note {index + 1} "what to know"')
    text = edit.annotate(text, task, lines)
    return Edited(text, f"noted under {spec.shown(index)}")


# ---------------------------------------------------------------- which task, and may it be


def _named(spec: Spec, wanted: str) -> tuple[int, Task]:
    index = dependencies.named(wanted, [task.text for task in spec.tasks])
    return index, spec.tasks[index]


def _numbers(indexes: Sequence[int]) -> str:
    named = ", ".join(str(index + 1) for index in indexes[:_MOST_NAMED])
    return f"{named} and {len(indexes) - _MOST_NAMED} more" if len(indexes) > _MOST_NAMED else named


def _refuse_active(spec: Spec, index: int) -> None:
    if spec.tasks[index].marker is Marker.ACTIVE:
        raise UsageError(
            f"kern has it in progress: {spec.shown(index)}",
            hint=f"kern stop ends a run in progress, kern reopen {index + 1} then gives the task "
            "back; or run kern: it goes on with it",
        )


def _refuse_parent(spec: Spec, index: int) -> None:
    if parts := spec.open_parts(index):
        raise UsageError(
            f"it is done with its last subtask: {spec.shown(index)}",
            hint=f"its open subtasks are {', '.join(parts)}: name one of them",
        )


def _refuse_below(spec: Spec, parent: int) -> None:
    _refuse_active(spec, parent)
    if spec.tasks[parent].marker is Marker.DONE:
        raise UsageError(
            f"it is done: {spec.shown(parent)}", hint=f"first: kern reopen {parent + 1}"
        )


# ---------------------------------------------------------------- words that say only themselves

_BOX = r"(?:(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?\[[ ~xX]?\](?:[ \t]+|$))+"


def as_title(text: str) -> str:
    """One line; a checkbox that was typed along goes."""
    flat = plain.line(text, len(text))
    if box := re.match(_BOX, flat):
        flat = flat[box.end() :]
    if not flat:
        raise UsageError("the task says nothing", hint=f'kern add "{EXAMPLE[6:]}"')
    return flat


def _gate(command: str) -> str:
    """Between backticks enough that it is read back as it was given."""
    bare = command.strip()
    if "\n" in bare or plain.UNSAFE.search(bare):
        raise UsageError(
            f"a gate is one line: {plain.line(command, 160)!r}",
            hint="join commands with &&, or put them into a script",
        )
    if not bare.strip("` "):
        raise UsageError("the gate says nothing", hint='--gate "pytest -q tests/test_x.py"')
    ticks = "`"
    while ticks in bare:
        ticks += "`"
    pad = " " if "`" in (bare[0], bare[-1]) else ""
    return f"{ticks}{pad}{bare}{pad}{ticks}"


def _judge(text: str) -> str:
    flat = plain.line(text, len(text))
    if not flat.strip("` "):
        raise UsageError("the judge is asked nothing", hint='--judge "every error says what to do"')
    return flat


def as_body(words: str) -> list[str]:
    """A person's lines as they can stand under a task. What would be read as a task, a note or an
    open fence gets the backslash that makes plain text of it in Markdown.
    """
    lines = [line.rstrip() for line in dedent(plain.block(words)).split("\n") if line.strip()]
    if _inert(lines):
        return lines
    return [line if _inert([line]) else _escaped(line) for line in lines]


def _inert(lines: Sequence[str]) -> bool:
    read = parse("\n".join(["- [ ] task", *(f"  {line}" for line in lines)]))
    alone = len(read.tasks) == 1 and not read.tasks[0].notes and not read.diagnostics
    return alone and not any(line.lstrip().startswith(">") for line in lines)


def _escaped(line: str) -> str:
    bare = line.lstrip()
    return f"{line[: len(line) - len(bare)]}\\{bare}"
