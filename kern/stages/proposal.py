"""What a planner answers, as lines for SPEC.md; and the goal as SPEC.md states it. Pure."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from kern import plain
from kern.frozen import frozen
from kern.model import Aide, Marker
from kern.spec import checklist, dependencies, edit
from kern.spec.checklist import Kind, Spec, Task
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
    if replied.code in (Code.UNCLEAR, Code.CHANGES):
        return Plan(wrong="it does not end in TASKS or DONE: reason")
    if replied.code is Code.DONE:
        if replied.tasks:
            return Plan(wrong="it says DONE and lists tasks")
        return Plan(done=replied.reason)
    return tasks(replied.tasks, there, mode)


def tasks(block: str, there: str, mode: Mode = Mode.PLAN) -> Plan:
    """The same for the list alone, as a person may have edited it."""
    listed = checklist.parse(_unfenced(block))
    if wrong := _unsound(listed) or (_unmeasured(listed) if mode is Mode.IMPROVE else ""):
        return Plan(wrong=wrong)
    before = checklist.parse(there)
    names = {dependencies.name(task.text) for task in before.tasks}
    new: list[Task] = []
    known: list[str] = []
    dropped: set[int] = set()
    for index, task in enumerate(listed.tasks):
        if task.parent in dropped or dependencies.name(task.text) in names:
            dropped.add(index)
            known.append(task.text)
        else:
            new.append(task)
    prefix = "Experiment: " if mode is Mode.IMPROVE else ""
    lines = [line for task in new for line in _lines(task, listed.depth(task), prefix)]
    if wrong := _disordered(there, before, edit.add_tasks(there, before, lines)):
        return Plan(wrong=wrong)
    return Plan(tuple(lines), tuple(_title(task.text, prefix) for task in new), tuple(known))


def fitted(plan: Plan, text: str) -> Plan:
    """What of a plan is new to SPEC.md's text, which may have changed since; or why it no longer
    fits.
    """
    return tasks("\n".join(plan.block), text) if plan.block else plan


def added(text: str, plan: Plan) -> str:
    return edit.add_tasks(text, checklist.parse(text), fitted(plan, text).block)


def _disordered(there: str, before: Spec, after: str) -> str:
    """An `After` of the new tasks that leads nowhere, or in a circle."""
    old = {fault.message for fault in dependencies.faults(before)} if there else set()
    new = [fault.message for fault in dependencies.faults(checklist.parse(after))]
    return next((f"in its order: {message}" for message in new if message not in old), "")


def _unsound(listed: Spec) -> str:
    if faults := [*listed.diagnostics, *([listed.unclosed] if listed.unclosed else [])]:
        return f"in its list of tasks: {faults[0].message}"
    if not listed.tasks:
        return "it lists no task below `## Tasks`"
    if len(listed.tasks) > MOST_TASKS:
        return f"it lists {len(listed.tasks)} tasks; at most {MOST_TASKS} are sensible at a time"
    seen: set[str] = set()
    for task in listed.tasks:
        shown = plain.line(task.text, 100)
        if task.marker is not Marker.PENDING:
            return f"it lists a task that is not open: {shown}"
        if len(task.text) > LONGEST_TITLE:
            return f"a task's text is longer than {LONGEST_TITLE} characters: {shown}"
        if not re.search(r"\w", task.text):
            return f"a task without words: {shown}"
        if dependencies.name(task.text) in seen:
            return f"it lists a task twice: {shown}"
        if len(task.body) > MOST_LINES:
            return f"more than {MOST_LINES} lines below one task: {shown}"
        if any(len(note.text) > LONGEST_NOTE for note in task.notes):
            return f"a note of more than {LONGEST_NOTE} characters below: {shown}"
        seen.add(dependencies.name(task.text))
    return ""


def _unmeasured(listed: Spec) -> str:
    if len(listed.tasks) != 1:
        return f"it lists {len(listed.tasks)} improvements; one at a time is asked for"
    if listed.tasks[0].of(Kind.AFTER):
        return "its improvement waits for another task"
    return "" if listed.tasks[0].of(Kind.GATE) else "its improvement has no gate that measures it"


def _unfenced(block: str) -> str:
    """Without the code fence that agents like to put around Markdown."""
    lines = block.strip("\n").split("\n")
    fenced = len(lines) > 1 and re.fullmatch(r"(`{3,}|~{3,})\w*", lines[0].strip())
    return "\n".join(lines[1:-1]) if fenced and lines[-1].strip() == fenced[1] else block


def _lines(task: Task, depth: int, prefix: str) -> list[str]:
    """The task as it stands in SPEC.md; of what is no word of the planner's to say nothing."""
    margin = "  " * depth
    body = [plain.block(line).strip() for line in task.body]
    notes = [
        f"> **{note.kind}:** {plain.block(note.text).strip()}"
        for note in task.notes
        if note.kind in _KEPT
    ]
    below = [f"{margin}  {line}" for line in [*filter(None, body), *notes]]
    return [f"{margin}- [ ] {_title(task.text, prefix)}", *below]


def _title(text: str, prefix: str) -> str:
    title = plain.line(text, LONGEST_TITLE)
    return title if checklist.is_experiment(title) else prefix + title


# ---------------------------------------------------------------- the goal


def goals(text: str) -> list[str]:
    """What a SPEC.md wants to reach, each as it was given."""
    found: list[list[str]] = []
    within = False
    for line in text.removeprefix(_BOM).replace("\r", "").split("\n"):
        if line.startswith(_GOAL):
            found.append([line.removeprefix(_GOAL)])
            within = True
        elif within and line.startswith(">"):
            found[-1].append(line.removeprefix(">").removeprefix(" "))
        else:
            within = False
    return ["\n".join(lines).strip() for lines in found]


def with_goal(text: str, wanted: str) -> str:
    """State the goal above the first task, below the title and earlier goals; once."""
    said = re.sub(_NEARLY_CHECK, r"- \1", plain.block(wanted).strip())
    first, *rest = said.split("\n")
    quoted = [f"{_GOAL} {first}", *(f"> {line}".rstrip() for line in rest)]
    if not said or said in goals(text):
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    bare = text.removeprefix(_BOM)
    lines = bare.split("\n")
    at = _goal_place(lines)
    block = [*([""] if at and lines[at - 1].strip() else []), *quoted]
    block += [""] if at < len(lines) and lines[at].strip() else []
    lines[at:at] = [line + newline.removesuffix("\n") for line in block]
    return text[: len(text) - len(bare)] + "\n".join(lines)


def _goal_place(lines: Sequence[str]) -> int:
    """The index of the line before which a goal belongs."""
    goals = [index for index, line in enumerate(lines) if line.startswith(_GOAL)]
    if goals:
        at = goals[-1]
        while at < len(lines) and lines[at].startswith(">"):
            at += 1
        return at
    title = bool(lines) and lines[0].startswith("# ")
    return 1 if title else 0


def history(found: Iterable[dict[str, object]]) -> list[str]:
    """What became of the tasks, one line each, from `report.summary`'s rows."""
    said = []
    for task in found:
        attempts = task["attempts"]
        tries = (
            f" after {len(attempts)} failed attempts"
            if isinstance(attempts, list) and attempts
            else ""
        )
        why = f": {task['detail']}" if task["detail"] and task["outcome"] != "done" else ""
        proved = f", {task['proved']}" if task["proved"] else ""
        said.append(plain.line(f"{task['outcome']}{tries}{proved}: {task['task']}{why}", 300))
    return said
