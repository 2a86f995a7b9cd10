"""What notes under a task ask for: questions and their answers; gates and judges. Pure.

A task waits while its last question has no answer below it.
"""

import re
from dataclasses import dataclass

from kern import plain
from kern.config import Gate, Settings
from kern.model import Marker
from kern.spec import edit
from kern.spec.parse import Kind, Note, Spec, Task

MOST = 3  # questions of one task; a person may delete those that are settled
_KEPT = r" \((?:[^()]*; )?kept: \S+\)$"  # the ref may be gone; `kern show` names it if it is there


def pending(task: Task) -> Note | None:
    """The question that the task waits with."""
    last: Note | None = None
    for note in task.of(Kind.QUESTION, Kind.ANSWER):
        if note.kind is Kind.QUESTION:
            last = note
        elif note.text:
            last = None
    return last


def waiting(spec: Spec) -> tuple[dict[str, object], ...]:
    """The open questions, in file order; the number is the task's, as `kern status` shows it."""
    return tuple(
        {"number": number, "task": task.text, "text": without_ref(note.text)}
        for number, task in enumerate(spec.tasks, 1)
        if task.marker is not Marker.DONE and (note := pending(task))
    )


def objection(task: Task, question: str) -> str:
    """Why an agent may not ask this; empty where it may. Else it would be asked without end."""
    questions, open_one = task.of(Kind.QUESTION), pending(task)
    if any(same(question, note) for note in questions if note is not open_one):
        return f"it asked again what is answered: {plain.line(question, 160)}"
    if len(questions) >= MOST and not (open_one and same(question, open_one)):
        return f"it asked more than {MOST} questions, the last: {plain.line(question, 160)}"
    return ""


def same(question: str, noted: Note) -> bool:
    """Whether the note holds that question; it may have been cut to make room for the ref."""
    texts = question, without_ref(noted.text)
    one, other = (plain.line(text, 200).casefold().rstrip(" .?!") for text in texts)
    return one == other


def without_ref(text: str) -> str:
    """A question alone, without where the work is kept."""
    return re.sub(_KEPT, "", text.rstrip())


def question(text: str, ref: str) -> str:
    """The line below the task; `ref`: where the work so far is kept, if there is any."""
    tail = f" (kept: {ref})" if ref else ""
    return edit.note(Kind.QUESTION, plain.line(text, edit.NOTE_LIMIT - len(tail)) + tail)


def answers(task: Task) -> list[str]:
    """What a stage reads of it: a question that still waits is left out."""
    waits = pending(task)
    rest = [note for note in task.of(Kind.QUESTION, Kind.ANSWER) if note is not waits]
    head = "Asked by earlier agents, and answered by a person, whose answers belong to the task:"
    return ["", head, *(f"- {note.kind}: {note.text}" for note in rest)] if rest else []


def answered(text: str, noted: Note, answer: str) -> str:
    """SPEC.md with the answer right below its question, as far in as that."""
    above = text.split("\n")[noted.end - 1]
    margin = above[: len(above) - len(above.lstrip())]
    return edit.insert(text, noted.end, [margin + edit.note(Kind.ANSWER, answer)])


# ---------------------------------------------------------------- what must hold before a commit


@dataclass(frozen=True, slots=True)
class Checks:
    """Gates, then judges."""

    gates: tuple[Gate, ...] = ()
    criteria: tuple[str, ...] = ()  # for judges
    red: frozenset[Gate] = frozenset()  # of the gates, before the task

    @property
    def shown(self) -> tuple[str, ...]:
        return (
            *(f"{gate.shown}{' (red now)' if gate in self.red else ''}" for gate in self.gates),
            *(f"judge: {criterion}" for criterion in self.criteria),
        )


def checks(spec: Spec, task: Task, settings: Settings) -> Checks:
    """The task's own gates, those of the parents that are done with it, the project's; judges."""
    done = edit.ticked(spec, task)
    own = [gate for one in done for gate in task_gates(one, settings.patience)]
    judged = [note.text.strip() for one in done for note in one.of(Kind.JUDGE)]
    return Checks((*own, *settings.gates), tuple(filter(None, judged)))


def task_gates(task: Task, timeout: float) -> tuple[Gate, ...]:
    """A task's own gates, from its notes. They say what done means: red before is no excuse."""
    commands = [_unquoted(note.text) for note in task.of(Kind.GATE)]
    return tuple(Gate("", command, timeout, strict=True) for command in commands if command)


def _unquoted(text: str) -> str:
    """The command between backticks at the beginning, or all of it as it stands."""
    match = re.match(r"(`+)(.+?)\1(?!`)", text.strip())
    bare = (match[2] if match else text).replace("\0", "").strip()
    return bare if bare.strip("` ") else ""


def open_gates(spec: Spec) -> list[Gate]:
    """Those of the tasks that are not done."""
    unfinished = (task for task in spec.tasks if task.marker is not Marker.DONE)
    return [gate for task in unfinished for gate in task_gates(task, 0)]


def commands(spec: Spec, settings: Settings) -> tuple[str, ...]:
    """What this repository makes kern run: the project's gates, and those of its open tasks."""
    gates = (*settings.gates, *open_gates(spec))
    return tuple(dict.fromkeys(f"gate {gate.shown}" for gate in gates))
