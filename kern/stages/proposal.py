"""What a planner answers: tasks for SPEC.md, or entries of LEARNINGS.md; read, and refused where it
cannot be trusted. And the goal as SPEC.md states it. Pure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from kern import plain
from kern.errors import UsageError
from kern.memory import entries
from kern.memory.entries import Entry
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
# Agents like one around Markdown.
_FENCE = r"(?m)\A\s*(?:`{3,}|~{3,})\w*\n|^\s*(?:`{3,}|~{3,})\s*\Z"
LONGEST = 600  # characters of a learning
_NUMBERED = r"(?m)^- (L\d+) "


class Mode(StrEnum):
    PLAN = "plan"
    REVIEW = "review"
    IMPROVE = "improve"


@dataclass(frozen=True, slots=True)
class Plan:
    items: tuple[Item, ...] = ()
    titles: tuple[str, ...] = ()  # of the new tasks
    done: str = ""  # why nothing is missing
    wrong: str = ""  # why the answer is refused


def read(text: str, there: str, mode: Mode) -> Plan:
    """`there` is SPEC.md as it is. Never raises: an answer that cannot be trusted as a whole comes
    back as `wrong`.
    """
    replied = answer.parse(Aide.PLANNER, text)
    if replied.code is Code.DONE and not replied.listed:
        return Plan(done=replied.reason)
    if replied.code is not Code.TASKS:
        return Plan(wrong="it does not end in TASKS or DONE: reason")
    listed = parse(re.sub(_FENCE, "", replied.listed))
    plan = Plan(tuple(_item(task, mode) for task in listed.tasks))
    try:
        if wrong := next(_faults(listed, mode), ""):
            raise UsageError(wrong)
        return replace(plan, titles=added(there, plan).new)
    except UsageError as exc:
        return Plan(wrong=str(exc))


def added(text: str, plan: Plan) -> Added:
    """What of a plan is new to that SPEC.md, in it. Raises UsageError where it does not fit: an
    `After` leads nowhere, or in a circle.
    """
    new = imports.added(text, plan.items)
    old = {fault.message for fault in order.faults(parse(text))}
    if wrong := [one.message for one in order.faults(parse(new.text)) if one.message not in old]:
        raise UsageError(f"in its order: {wrong[0]}")
    return new


def _faults(listed: Spec, mode: Mode) -> Iterator[str]:
    for fault in listed.diagnostics:
        yield f"in its list of tasks: {fault.message}"
    if not 0 < len(listed.tasks) <= MOST_TASKS:
        count = len(listed.tasks) or "no"
        yield f"it lists {count} tasks; at most {MOST_TASKS} are sensible at a time"
    if mode is Mode.IMPROVE:
        if len(listed.tasks) > 1 or listed.tasks[0].of(Kind.AFTER):
            yield "one improvement at a time is asked for, and one that waits for nothing"
        if not listed.tasks[0].of(Kind.GATE):
            yield "its improvement has no gate that measures it"


def _item(task: Task, mode: Mode) -> Item:
    """Of what is no word of the planner's to say nothing."""
    prefix = "Experiment: " if mode is Mode.IMPROVE and not is_experiment(task.text) else ""
    own_notes = ((note.kind, plain.block(note.text).strip()) for note in task.of(*_KEPT))
    notes = tuple(f"> **{kind}:** {text}" for kind, text in own_notes)
    done = task.marker is Marker.DONE
    return Item(prefix + task.text, "\n".join(task.body), "", done, task.parent, notes)


# ---------------------------------------------------------------- the goal


def goals(text: str) -> list[str]:
    """What a SPEC.md wants to reach, each as it was given."""
    lines = re.findall(_GOAL, text.replace("\r", ""))
    return [re.sub(r"\n> ?", "\n", quoted).strip() for quoted in lines]


def with_goal(text: str, goal: str) -> str:
    """State the goal above the first task, below the title and earlier goals; once."""
    body = re.sub(_NEARLY_CHECK, r"- \1", plain.block(goal).strip())
    if not body or body in goals(text):
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    ends = [match.end() for match in (re.match(_TITLE, text), *re.finditer(_GOAL, text)) if match]
    above, below = text[: max(ends)], text[max(ends) :]
    lines = [f"> {line}".rstrip() for line in f"**Goal:** {body}".split("\n")]
    before = end * (bool(above.strip("\ufeff")) + (above[-1:] not in ("", "\n", "\ufeff")))
    after = end * (1 + bool(below.partition("\n")[0].strip()))
    return above + before + end.join(lines) + after + below


# ---------------------------------------------------------------- entries of LEARNINGS.md


@dataclass(frozen=True, slots=True)
class Proposed:
    before: str = ""  # LEARNINGS.md as it was read
    text: str = ""  # and with the changes, a line for each entry
    done: str = ""  # why no entry is to be changed
    wrong: str = ""  # why the answer is refused


def changes(text: str, there: str) -> Proposed:
    """As `read`, for LEARNINGS.md: the answer lists the entries that are to read otherwise, by
    their numbers, and new ones without. Votes are kern's to count.
    """
    replied, old_entries = answer.parse(Aide.PLANNER, text), entries.parse(there).entries
    listed = re.sub(r"\n[ \t]+(?=\S)", " ", plain.block(re.sub(_FENCE, "", replied.listed)))
    if replied.code is Code.DONE and not listed:
        return Proposed(there, entries.written(there, old_entries), done=replied.reason)
    new_entries = entries.parse(f"## Learnings\n{listed}")
    by_id, free = {one.id: one for one in old_entries}, entries.numbers(old_entries)
    numbers = re.findall(_NUMBERED, listed)
    unknown = [name for name in numbers if name not in by_id or by_id[name].retired]
    faults = {
        "it does not end in either CHANGES or DONE: reason": replied.code is not Code.CHANGES,
        "it lists no entry below `## Changes`": not new_entries.entries,
        f"in its list: {next(iter(new_entries.faults), '')}": bool(new_entries.faults),
        f"there is no entry {next(iter(unknown), '')} in use": bool(unknown),
        f"a text is empty or longer than {LONGEST} characters": not all(
            re.search(r"\w", one.text) and len(one.text) <= LONGEST for one in new_entries.entries
        ),
    }
    if wrong := next((why for why, holds in faults.items() if holds), ""):
        return Proposed(wrong=wrong)
    for new in new_entries.entries:
        name = new.id if new.id in numbers else next(free)
        old = by_id.get(name, Entry(name, ""))
        by_id[name] = replace(new, id=name, helpful=old.helpful, harmful=old.harmful)
    return Proposed(there, entries.written(there, by_id.values()))
