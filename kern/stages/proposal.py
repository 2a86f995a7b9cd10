"""What a planner answers, as lines for SPEC.md; and the goal as SPEC.md states it. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from kern import plain
from kern.frozen import frozen
from kern.model import Aide, Marker
from kern.spec import edit, order
from kern.spec.parse import Kind, Spec, Task, is_experiment, parse
from kern.stages import answer
from kern.stages.answer import Code

MOST_TASKS = 50
LONGEST_TITLE = 300  # characters
LONGEST_NOTE = 1000
MOST_LINES = 20  # of a task's own text
_KEPT = (Kind.GATE, Kind.JUDGE, Kind.AFTER)  # of the notes; the others are kern's to write
_GOAL = "> **Goal:**"
_BOM = "\ufeff"  # stays where it is: at the very beginning
# In a quote it would be a diagnostic: a check that silently does not count is worse.
_NEARLY_CHECK = r"(?im)^(\W{0,2}(?:gate|judge)s?\b)"
_FENCED = r"(?s)\s*(`{3,}|~{3,})\w*\n(.*)\n\s*\1\s*"  # as agents like to put it around Markdown


class Mode(StrEnum):
    PLAN = "plan"
    REVIEW = "review"
    IMPROVE = "improve"


@frozen
class Plan:
    block: tuple[str, ...] = ()  # lines for SPEC.md, from the left margin
    titles: tuple[str, ...] = ()  # of the new tasks
    known: tuple[str, ...] = ()  # listed, and there already
    done: str = ""  # why nothing is missing
    wrong: str = ""  # why the answer is refused


def read(text: str, there: str, mode: Mode) -> Plan:
    """`there` is SPEC.md as it is. Never raises: an answer that cannot be trusted as a whole comes
    back as `wrong`.
    """
    replied = answer.parse(Aide.PLANNER, text)
    match replied.code:
        case Code.TASKS:
            return tasks(replied.tasks, there, mode)
        case Code.DONE if replied.tasks:
            return Plan(wrong="it says DONE and lists tasks")
        case Code.DONE:
            return Plan(done=replied.reason)
        case _:
            return Plan(wrong="it does not end in TASKS or DONE: reason")


def tasks(block: str, there: str, mode: Mode = Mode.PLAN) -> Plan:
    """The same for the list alone, as a person may have edited it."""
    fenced = re.fullmatch(_FENCED, block)
    listed, before = parse(fenced[2] if fenced else block), parse(there)
    if wrong := next(_faults(listed, mode), ""):
        return Plan(wrong=wrong)
    names = {order.name(task.text) for task in before.tasks}
    new, dropped = list[Task](), set[int]()
    for index, task in enumerate(listed.tasks):
        if task.parent in dropped or order.name(task.text) in names:
            dropped.add(index)
        else:
            new.append(task)
    prefix = "Experiment: " if mode is Mode.IMPROVE else ""
    lines = [line for task in new for line in _lines(task, len([*listed.above(task)]), prefix)]
    if wrong := _disordered(there, before, edit.add_tasks(there, before, lines)):
        return Plan(wrong=wrong)
    titles = (_title(task.text, prefix) for task in new)
    return Plan(tuple(lines), (*titles,), tuple(listed.tasks[at].text for at in sorted(dropped)))


def fitted(plan: Plan, text: str) -> Plan:
    """What of a plan is new to SPEC.md's text, which may have changed since; or why it no longer
    fits.
    """
    return tasks("\n".join(plan.block), text) if plan.block else plan


def added(text: str, plan: Plan) -> str:
    return edit.add_tasks(text, parse(text), fitted(plan, text).block)


def _disordered(there: str, before: Spec, after: str) -> str:
    """An `After` of the new tasks that leads nowhere, or in a circle."""
    old = {fault.message for fault in order.faults(before)} if there else set()
    new = (fault.message for fault in order.faults(parse(after)))
    return next((f"in its order: {message}" for message in new if message not in old), "")


def _faults(listed: Spec, mode: Mode) -> Iterator[str]:
    for fault in (*listed.diagnostics, *([listed.unclosed] if listed.unclosed else ())):
        yield f"in its list of tasks: {fault.message}"
    if not listed.tasks:
        yield "it lists no task below `## Tasks`"
    if len(listed.tasks) > MOST_TASKS:
        yield f"it lists {len(listed.tasks)} tasks; at most {MOST_TASKS} are sensible at a time"
    names = [order.name(task.text) for task in listed.tasks]
    for at, task in enumerate(listed.tasks):
        faults = {
            "it lists a task that is not open": task.marker is not Marker.PENDING,
            f"a text longer than {LONGEST_TITLE} characters": len(task.text) > LONGEST_TITLE,
            "a task without words": not re.search(r"\w", task.text),
            "it lists a task twice": names[at] in names[:at],
            f"more than {MOST_LINES} lines below one task": len(task.body) > MOST_LINES,
            f"a note of more than {LONGEST_NOTE} characters below": any(
                len(note.text) > LONGEST_NOTE for note in task.notes
            ),
        }
        yield from (f"{why}: {plain.line(task.text, 100)}" for why, true in faults.items() if true)
    if mode is Mode.IMPROVE:
        if len(names) != 1:
            yield f"it lists {len(names)} improvements; one at a time is asked for"
        if listed.tasks[0].of(Kind.AFTER):
            yield "its improvement waits for another task"
        if not listed.tasks[0].of(Kind.GATE):
            yield "its improvement has no gate that measures it"


def _lines(task: Task, depth: int, prefix: str) -> list[str]:
    """The task as it stands in SPEC.md; of what is no word of the planner's to say nothing."""
    notes = (note for note in task.notes if note.kind in _KEPT)
    body = [plain.block(line).strip() for line in task.body]
    body += [f"> **{note.kind}:** {plain.block(note.text).strip()}" for note in notes]
    title = f"- [ ] {_title(task.text, prefix)}"
    return ["  " * depth + line for line in (title, *(f"  {line}" for line in body if line))]


def _title(text: str, prefix: str) -> str:
    title = plain.line(text, LONGEST_TITLE)
    return title if is_experiment(title) else prefix + title


# ---------------------------------------------------------------- the goal


def goals(text: str) -> list[str]:
    """What a SPEC.md wants to reach, each as it was given."""
    found: list[list[str]] = []
    within = False
    for line in text.removeprefix(_BOM).replace("\r", "").split("\n"):
        if line.startswith(_GOAL):
            found.append([line.removeprefix(_GOAL)])
        elif within and line.startswith(">"):
            found[-1].append(line.removeprefix(">").removeprefix(" "))
        within = line.startswith(_GOAL) or (within and line.startswith(">"))
    return ["\n".join(lines).strip() for lines in found]


def with_goal(text: str, wanted: str) -> str:
    """State the goal above the first task, below the title and earlier goals; once."""
    said = re.sub(_NEARLY_CHECK, r"- \1", plain.block(wanted).strip())
    if not said or said in goals(text):
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    bare = text.removeprefix(_BOM)
    lines = bare.split("\n")
    at = _goal_place(lines)
    quoted = [f"> {line}".rstrip() for line in said.split("\n")]
    block = [*([""] if at and lines[at - 1].strip() else []), f"{_GOAL} {quoted[0][2:]}"]
    block += [*quoted[1:], *([""] if at < len(lines) and lines[at].strip() else [])]
    lines[at:at] = [line + newline.removesuffix("\n") for line in block]
    return text[: len(text) - len(bare)] + "\n".join(lines)


def _goal_place(lines: Sequence[str]) -> int:
    """The index of the line before which a goal belongs."""
    at = max((index for index, line in enumerate(lines) if line.startswith(_GOAL)), default=-1)
    if at < 0:
        return int(lines[0].startswith("# "))
    return next((n for n in range(at, len(lines)) if not lines[n].startswith(">")), len(lines))


def history(found: Iterable[dict[str, object]]) -> list[str]:
    """What became of the tasks, one line each, from `report.summary`'s rows."""
    said = []
    for task in found:
        attempts = task["attempts"]
        count = len(attempts) if isinstance(attempts, list) else 0
        tries = f" after {count} failed attempts" if count else ""
        why = f": {task['detail']}" if task["detail"] and task["outcome"] != "done" else ""
        proved = f", {task['proved']}" if task["proved"] else ""
        said.append(plain.line(f"{task['outcome']}{tries}{proved}: {task['task']}{why}", 300))
    return said
