"""What of SPEC.md says what is to be done, to tell a person's word from an agent's. Pure."""

from kern.spec.checklist import Kind, Note, Task, parse

# Notes that say what is to be done, and what is not.
DIRECT = (Kind.GATE, Kind.JUDGE, Kind.AFTER, Kind.ANSWER, Kind.HELD)
Directive = tuple[str, ...]
_ENDED = "no longer"


def of(text: str) -> set[Directive]:
    """What in SPEC.md says what is to be done: tasks, their checks and order, answers."""
    tasks = parse(text).tasks
    notes = {directive(task, note) for task in tasks for note in task.notes if note.kind in DIRECT}
    return notes.union(map(directive, tasks))


def directive(task: Task, note: Note | None = None) -> Directive:
    return (str(note.kind), task.text, note.text) if note else ("Task", task.text)


def taken_back(before: str, after: str) -> set[Directive]:
    """The holds that a person ended between two texts, as they are remembered while a run lasts."""
    gone = of(before) - of(after)
    return {unheld(one) for one in gone if one[0] == Kind.HELD}


def unheld(hold: Directive) -> Directive:
    return (_ENDED, *hold)


def opposite(one: Directive) -> Directive:
    """Of a hold its end, and the other way round."""
    return one[1:] if one[0] == _ENDED else unheld(one)
