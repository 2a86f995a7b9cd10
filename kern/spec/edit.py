"""Edits of SPEC.md: an edit changes the characters that it must and no others."""

from collections.abc import Iterable, Sequence

from kern import plain
from kern.model import Key, Marker
from kern.spec.parse import Kind, Note, Spec, Task, parse

NOTE_LIMIT = 300  # characters
NO_TASKS = "# Tasks\n"  # a SPEC.md to begin with


def mark(text: str, task: Task, marker: Marker) -> str:
    """Change the one character between the brackets."""
    return mark_all(text, [(task, marker)])


def mark_all(text: str, changes: Iterable[tuple[Task, Marker]]) -> str:
    lines = text.split("\n")
    for task, marker in changes:
        line = lines[task.line - 1]
        lines[task.line - 1] = line[: task.column] + marker + line[task.column + 1 :]
    return "\n".join(lines)


def tick(text: str, spec: Spec, task: Task, *, proved: bool = True) -> str:
    """Mark the task done, and every ancestor of which it was the last open subtask."""
    done = ticked(spec, task, proved=proved)
    return mark_all(text, [(one, Marker.DONE) for one in done])


def ticked(spec: Spec, task: Task, *, proved: bool = True) -> list[Task]:
    """The task, and every ancestor that is done with it. What is not `proved` ends below those that
    have checks of their own.
    """
    done = [task]
    for index in spec.above(task):
        above = spec.tasks[index]
        others = [at for at in spec.parts(index) if spec.tasks[at].line != done[-1].line]
        unchecked = not proved and above.of(Kind.GATE, Kind.JUDGE)
        if others or unchecked or above.marker is Marker.DONE:
            break
        done.append(above)
    return done


def note(kind: Kind, text: str, number: int = 0) -> str:
    """One quote line as it stands under a task, without its margin."""
    label = f"{kind} {number}" if number else f"{kind}"
    return f"> **{label}:** {plain.line(text, NOTE_LIMIT)}"


def research(findings: Sequence[tuple[str, str]]) -> list[str]:
    """The research note: a heading line and one line per finding, say ("Files", "a.py:1-20")."""
    lines = [f">   - {label}: {plain.line(text, NOTE_LIMIT)}" for label, text in findings]
    return [f"> **{Kind.RESEARCH}:**", *lines]


def annotate(text: str, task: Task, notes: Sequence[str]) -> str:
    """Put quote lines under the task, after what it has and before its subtasks."""
    last = max(task.end, *(note.end for note in task.notes), 0)  # in order, even below subtasks
    return insert(text, last, [task.below + line for line in notes])


def noted(text: str, task: Task, came: str, theirs: Task) -> str:
    """With the notes that the task has in another text."""
    lines, ours = came.split("\n"), {note.said for note in task.notes}
    new = [lines[note.line - 1 : note.end] for note in theirs.notes if note.said not in ours]
    return annotate(text, task, [line.strip() for block in new for line in block])


def without(text: str, notes: Iterable[Note]) -> str:
    """Take the lines of notes out, with their line ends."""
    numbers = {number for one in notes for number in range(one.line, one.end + 1)}
    lines = text.split("\n")
    rest = "\n".join(line for number, line in enumerate(lines, 1) if number not in numbers)
    return rest.removesuffix("\r") if len(lines) in numbers else rest


def replayed(text: str, theirs: str, key: Key) -> str:
    """With what `came`, the committed SPEC.md, says of the task: its notes, the ticks above it."""
    new = parse(theirs)
    there, done = parse(text).find(key), new.find(key)
    if there is None or done is None:
        return text
    text = noted(text, there, theirs, done)
    parsed = parse(text)
    chain = {key, *(parsed.tasks[index].key for index in parsed.above(there))}
    done_too = {other.key for other in new.tasks if other.marker is Marker.DONE} & chain
    return mark_all(text, [(one, Marker.DONE) for one in parsed.tasks if one.key in done_too])


def add_subtasks(text: str, spec: Spec, task: Task, titles: Sequence[str]) -> str:
    """Append the titles under the task, each pending, without those that are there already."""
    index = spec.tasks.index(task)
    there = {other.text for other in spec.tasks if other.parent == index}
    return add_tasks(text, spec, [f"- [ ] {one}" for one in titles if one not in there], index)


def add_tasks(text: str, spec: Spec, block: Sequence[str], parent: int | None = None) -> str:
    """Append tasks, given as lines from the left margin, behind those that are there: below the
    parent, or at the top level; in a text without any at its end.
    """
    beside = [task for task in spec.tasks if task.parent == parent]
    whole = None if parent is None else spec.tasks[parent]
    if last := whole or next(reversed(beside), None):
        margin = beside[-1].margin if beside else last.below
        return insert(text, last.block_end, [(margin + line).rstrip() for line in block])
    if not block:
        return text
    newline = _newline(text)
    gap = "" if not text.strip() else newline if text.endswith("\n") else 2 * newline
    return text + gap + newline.join(block) + newline


def insert(text: str, after: int, new: Sequence[str]) -> str:
    """Insert lines after the 1-based line `after`, with the text's line ending."""
    if not new:
        return text
    lines, end = text.split("\n"), _newline(text)[:-1]
    block = [line.removesuffix("\r") + end for line in new]
    if after == len(lines):  # the file has no final newline, and gets none
        lines[-1] += end
        block[-1] = block[-1].removesuffix("\r")
    return "\n".join([*lines[:after], *block, *lines[after:]])


def _newline(text: str) -> str:
    """That of most lines."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
