"""What a planner answers, as tasks for SPEC.md; and the goal as SPEC.md states it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kern import plain
from kern.errors import UsageError
from kern.model import Aide, Marker
from kern.spec import imports, order
from kern.spec.imports import Added, Item
from kern.spec.parse import Kind, Spec, Task, is_experiment, parse
from kern.stages import answer
from kern.stages.answer import Code

MOST_TASKS = 50
_KEPT = (Kind.GATE, Kind.JUDGE, Kind.AFTER)  # of the notes; the others are kern's to write
_GOAL = r"(?m)^\ufeff?> \*\*Goal:\*\*(.*(?:\n>(?! \*\*Goal:\*\*).*)*)(?:\n|\Z)"
_TITLE = r"\ufeff?(?:# .*(?:\n|\Z))?"
# In a quote it would be a diagnostic: a check that silently does not count is worse.
_NEARLY_CHECK = r"(?im)^(\W{0,2}(?:gate|judge)s?\b)"
_FENCED = r"(?s)\s*(`{3,}|~{3,})\w*\n(.*)\n\s*\1\s*"  # as agents like to put it around Markdown


class Mode(StrEnum):
    PLAN = "plan"
    REVIEW = "review"
    IMPROVE = "improve"


@dataclass(frozen=True, slots=True)
class Plan:
    items: tuple[Item, ...] = ()
    titles: tuple[str, ...] = ()  # of the new tasks
    known: int = 0  # listed, and there already
    listed: str = ""  # the list as it came
    done: str = ""  # why nothing is missing
    wrong: str = ""  # why the answer is refused


def read(text: str, there: str, mode: Mode) -> Plan:
    """`there` is SPEC.md as it is. Never raises: an answer that cannot be trusted as a whole comes
    back as `wrong`.
    """
    replied = answer.parse(Aide.PLANNER, text)
    if replied.code is Code.TASKS:
        return tasks(replied.tasks, there, mode)
    if replied.code is Code.DONE and not replied.tasks:
        return Plan(done=replied.reason)
    return Plan(wrong="it does not end in TASKS or DONE: reason")


def tasks(block: str, there: str, mode: Mode = Mode.PLAN) -> Plan:
    """The same for the list alone, as a person may have edited it."""
    fenced = re.fullmatch(_FENCED, block)
    listed = parse(fenced[2] if fenced else block)
    if wrong := next(_faults(listed, mode), ""):
        return Plan(wrong=wrong)
    found = Plan(tuple(_item(task, mode) for task in listed.tasks), listed=block)
    try:
        new = added(there, found)
    except UsageError as exc:
        return Plan(wrong=str(exc))
    return Plan(found.items, new.new, new.left_out, block)


def added(text: str, plan: Plan) -> Added:
    """What of a plan is new to that SPEC.md, in it. Raises UsageError where it does not fit."""
    new = imports.added(text, plan.items)
    old = {fault.message for fault in order.faults(parse(text))}
    for fault in order.faults(parse(new.text)):  # an `After` that leads nowhere, or in a circle
        if fault.message not in old:
            raise UsageError(f"in its order: {fault.message}")
    return new


def _faults(listed: Spec, mode: Mode) -> Iterator[str]:
    for fault in (*listed.diagnostics, *([listed.unclosed] if listed.unclosed else ())):
        yield f"in its list of tasks: {fault.message}"
    count, names = len(listed.tasks), [order.name(task.text) for task in listed.tasks]
    if not 0 < count <= MOST_TASKS:
        yield f"it lists {count or 'no'} tasks; at most {MOST_TASKS} are sensible at a time"
    for at, task in enumerate(listed.tasks):
        if task.marker is not Marker.PENDING:
            yield f"it lists a task that is not open: {plain.line(task.text, 100)}"
        if names[at] in names[:at]:
            yield f"it lists a task twice: {plain.line(task.text, 100)}"
    if mode is Mode.IMPROVE and (count > 1 or listed.tasks[0].of(Kind.AFTER)):
        yield "one improvement at a time is asked for, and one that waits for nothing"
    if mode is Mode.IMPROVE and not listed.tasks[0].of(Kind.GATE):
        yield "its improvement has no gate that measures it"


def _item(task: Task, mode: Mode) -> Item:
    """Of what is no word of the planner's to say nothing."""
    prefix = "Experiment: " if mode is Mode.IMPROVE and not is_experiment(task.text) else ""
    notes = tuple(
        f"> **{note.kind}:** {plain.block(note.text).strip()}" for note in task.of(*_KEPT)
    )
    return Item(prefix + task.text, "\n".join(task.body), parent=task.parent, notes=notes)


# ---------------------------------------------------------------- the goal


def goals(text: str) -> list[str]:
    """What a SPEC.md wants to reach, each as it was given."""
    found = re.findall(_GOAL, text.replace("\r", ""))
    return [re.sub(r"\n> ?", "\n", quoted).strip() for quoted in found]


def with_goal(text: str, wanted: str) -> str:
    """State the goal above the first task, below the title and earlier goals; once."""
    said = re.sub(_NEARLY_CHECK, r"- \1", plain.block(wanted).strip())
    if not said or said in goals(text):
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    ends = [match.end() for match in (re.match(_TITLE, text), *re.finditer(_GOAL, text)) if match]
    above, below = text[: max(ends)], text[max(ends) :]
    lines = [f"> {line}".rstrip() for line in f"**Goal:** {said}".split("\n")]
    before = end * (bool(above.strip("\ufeff")) + (above[-1:] not in ("", "\n", "\ufeff")))
    after = end * (1 + bool(below.partition("\n")[0].strip()))
    return above + before + end.join(lines) + after + below
