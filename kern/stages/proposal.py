"""What a planner answers: tasks for SPEC.md, or changes of LEARNINGS.md; read, and refused where it
cannot be trusted. And the goal as SPEC.md states it. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kern import plain
from kern.errors import UsageError
from kern.memory import capture, entries
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
_FENCED = r"(?s)\s*(`{3,}|~{3,})\w*\n(.*)\n\s*\1\s*"  # as agents like to put it around Markdown
MOST_CHANGES = 30  # at a time: a person reads them
LONGEST = 600  # characters of a learning
_CHANGE = r"[-*+]\s+[*`]*(NEW|L\d+(?:[\s,+]+(?:and )?L\d+)*)[*`]*\s*:\**\s*(.*)"
_FENCE = r"(?m)^\s*(`{3,}|~{3,})\w*\s*$"


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
    return replace(found, titles=new.new, known=new.left_out)


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
    if mode is Mode.IMPROVE:
        if count > 1 or listed.tasks[0].of(Kind.AFTER):
            yield "one improvement at a time is asked for, and one that waits for nothing"
        if not listed.tasks[0].of(Kind.GATE):
            yield "its improvement has no gate that measures it"


def _item(task: Task, mode: Mode) -> Item:
    """Of what is no word of the planner's to say nothing."""
    prefix = "Experiment: " if mode is Mode.IMPROVE and not is_experiment(task.text) else ""
    kept = ((note.kind, plain.block(note.text).strip()) for note in task.of(*_KEPT))
    notes = tuple(f"> **{kind}:** {text}" for kind, text in kept)
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


# ---------------------------------------------------------------- changes of LEARNINGS.md


@dataclass(frozen=True, slots=True)
class Proposed:
    before: str = ""  # LEARNINGS.md as it was read
    text: str = ""  # and with the changes, a line for each entry
    done: str = ""  # why no entry is to be changed
    wrong: str = ""  # why the answer is refused


def listed(found: Iterable[Entry]) -> list[str]:
    """The entries in a line each, with the numbers by which the answer names them."""
    return [plain.line(one.line, 160) for one in found if not one.retired]


def finished(spec: Spec) -> list[str]:
    """The tasks that are done, with what was asked about them and answered."""
    rows = list[str]()
    for task in (one for one in spec.tasks if one.marker is Marker.DONE):
        notes = task.of(Kind.QUESTION, Kind.ANSWER)
        more = (f"\n  {note.kind}: {plain.line(note.text, LONGEST)}" for note in notes)
        rows.append("".join((f"- {plain.line(task.text, 300)}", *more)))
    return rows


def changes(text: str, there: str) -> Proposed:
    """As `read`, for LEARNINGS.md."""
    replied, known = answer.parse(Aide.PLANNER, text), entries.parse(there).entries
    if replied.code is Code.DONE and not replied.changes:
        return Proposed(there, entries.written(there, known), done=replied.reason)
    if replied.code is not Code.CHANGES:
        return Proposed(wrong="it does not end in either CHANGES or DONE: reason")
    parts = re.split(r"\n(?=[-*+]\s)", re.sub(_FENCE, "", replied.changes))
    items = [" ".join(one.split()) for one in parts if re.match(r"\s*[-*+]\s", one)]
    if not 0 < len(items) <= MOST_CHANGES:
        count = f"{len(items) or 'no'} changes below `## Changes`"
        return Proposed(wrong=f"it lists {count}; at most {MOST_CHANGES} are sensible at a time")
    try:
        return Proposed(there, entries.written(there, _changed(items, known)))
    except UsageError as exc:
        return Proposed(wrong=str(exc))


def _changed(items: Sequence[str], known: Sequence[Entry]) -> Iterable[Entry]:
    """The entries with what the items make of them. Raises UsageError."""
    kept, free = {one.id: one for one in known}, entries.numbers(known)
    taken = list[str]()
    for item in items:
        match = re.fullmatch(_CHANGE, item)
        ids = re.findall(r"L\d+", match[1]) if match else []
        new = _entry(match[2] if match else "?")
        taken += ids
        faults = {
            "it lists no change that kern knows": match is None,
            **{f"{name} stands in two changes": taken.count(name) > 1 for name in ids},
            **{f"there is no entry {n} in use": n not in kept or kept[n].retired for n in ids},
            f"a text is longer than {LONGEST} characters": len(new.text) > LONGEST,
            "it has no text": not re.search(r"\w", new.text or new.retired * bool(ids)),
        }
        if why := next((why for why, wrong in faults.items() if wrong), ""):
            raise UsageError(f"{why}: {plain.line(item, 100)}")
        if ids:
            ours = [kept.pop(name) if name != ids[0] else kept[name] for name in ids]
            kept[ids[0]] = _merged(ours, new)
        elif not capture.alike(new.text, known):
            name = next(free)
            kept[name] = replace(new, id=name)
    return kept.values()


def _entry(text: str) -> Entry:
    """Of what stands behind the numbers."""
    (found,) = entries.parse(f"## Learnings\n- L1 +0 -0 {plain.line(text, 2 * LONGEST)}").entries
    retired = re.fullmatch(r"(?i)(?:\| )?retired: (.*)", found.text)
    return replace(found, text="", retired=retired[1]) if retired else found


def _merged(ours: Sequence[Entry], new: Entry) -> Entry:
    """The first of them with the votes of all."""
    if new.retired and not new.text:
        return replace(ours[0], retired=plain.line(new.retired, 100))
    helpful, harmful = (sum(one.helpful for one in ours), sum(one.harmful for one in ours))
    when = capture.when(new.when or "; ".join(one.when for one in ours))
    return replace(ours[0], text=new.text, helpful=helpful, harmful=harmful, when=when)
