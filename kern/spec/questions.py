"""What agents ask of a person, and the answers, as notes under a task. Pure.

A task waits while its last question has no answer below it.
"""

import re

from kern import plain
from kern.model import Marker, Question
from kern.spec import edit
from kern.spec.checklist import Kind, Note, Spec, Task

MOST = 3  # questions of one task; a person may delete those that are settled
_KEPT = r" \(kept: \S+\)$"
_NEARLY = r"(?i)>[\s*_]*answer\b"


def pending(task: Task) -> Note | None:
    """The question that the task waits with."""
    last: Note | None = None
    for note in task.notes:
        if note.kind is Kind.QUESTION:
            last = note
        elif note.kind is Kind.ANSWER and note.text:
            last = None
    return last


def blocker(task: Task) -> str:
    """What keeps the task waiting, empty where nothing does; and what was hardly meant so."""
    noted = pending(task)
    if noted is None:
        return ""
    nearly = next((line for line in task.body if re.match(_NEARLY, line)), "")
    unread = f" ({nearly!r} is no answer: write > **Answer:** …)" if nearly else ""
    return f"waits for your answer: {words(noted)}{unread}"


def waiting(spec: Spec) -> tuple[Question, ...]:
    """The open questions, in file order."""
    return tuple(
        Question(number, task.text, words(note))
        for number, task in enumerate(spec.tasks, 1)
        if task.marker is not Marker.DONE and task.notes and (note := pending(task))
    )


def objection(task: Task, question: str) -> str:
    """Why an agent may not ask this; empty where it may. Else it would be asked without end."""
    asked = task.of(Kind.QUESTION)
    open_one = pending(task)
    if any(same(question, note) for note in asked if note is not open_one):
        return f"it asked again what is answered: {plain.line(question, 160)}"
    if len(asked) >= MOST and not (open_one and same(question, open_one)):
        return f"it asked more than {MOST} questions, the last: {plain.line(question, 160)}"
    return ""


def same(question: str, noted: Note) -> bool:
    """Whether the note holds that question; it may have been cut to make room for the ref."""
    one, other = (plain.line(text).casefold().rstrip(" .?!") for text in (question, words(noted)))
    return one == other or (other.endswith("…") and one.startswith(other[:-1]))


def words(noted: Note) -> str:
    """The question alone, without where the work is kept."""
    return re.sub(_KEPT, "", noted.text.rstrip())


def note(question: str, ref: str) -> str:
    """The line below the task; `ref`: where the work so far is kept, if there is any."""
    tail = f" (kept: {ref})" if ref else ""
    return edit.note(Kind.QUESTION, plain.line(question, edit.NOTE_LIMIT - len(tail)) + tail)


def told(task: Task) -> list[str]:
    """What a stage reads of it: a question that still waits is left out."""
    waits = pending(task)
    lines = [
        f"- {note.kind}: {note.text}"
        for note in task.notes
        if note.kind in (Kind.QUESTION, Kind.ANSWER) and note is not waits
    ]
    if not lines:
        return []
    head = "Asked by earlier agents, and answered by a person, whose answers belong to the task:"
    return ["", head, *lines]


def answered(text: str, noted: Note, answer: str) -> str:
    """SPEC.md with the answer right below its question."""
    return edit.put_below(text, noted, edit.note(Kind.ANSWER, answer))
