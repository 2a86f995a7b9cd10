"""What an agent may not have done to SPEC.md and LEARNINGS.md is undone here; a person's edits
survive.

Pure: the text before the stage, the text after it, the reconciled text and what to say about it.
"""

import re
from collections.abc import Collection, Iterator
from difflib import SequenceMatcher

from kern.model import Key, Marker
from kern.spec import edit
from kern.spec.checklist import DIRECT, Directive, Kind, Note, Spec, Task, directive, parse, unheld
from kern.spec.commands import added_again, given_again

_MARKER = r"\[[ ~xX]\]"
_OURS, _THEIRS = re.compile(r"^<{7} ", re.M), re.compile(r"^>{7} ", re.M)
_MANY = 2000  # lines; more of them are compared by what is rare among them


def spec(before: str, after: str | None, *, trusted: bool) -> tuple[str, list[str]]:
    """Put back task lines and notes that vanished, and, unless the stage could not write anyway
    (`trusted`: then a person did it), markers that were changed.
    """
    if after is None:
        return before, ["SPEC.md was deleted while an agent ran: restored"]
    if before == after:
        return after, []
    old = parse(before)
    text, said = restore_tasks(before, old, after)
    text, told = restore_notes(before, old, text)
    said += told
    if not trusted:
        for rule in (strike_notes, _restore_markers):
            text, told = rule(before, old, text)
            said += told
        if hidden := _hidden(before, old, text):
            return before, [f"tasks were hidden in SPEC.md; restored whole: {hidden}"]
    return text, said


def _hidden(before: str, old: Spec, text: str) -> str:
    """What a fence or comment of the agent's makes unreadable, though each line is there."""
    now = parse(text)
    if now.unclosed and not old.unclosed:
        return now.unclosed.message
    found = _matches(before, old, text, now)
    return "; ".join(task.text for task in old.tasks if task.key not in found)


def _matches(before: str, old: Spec, text: str, now: Spec) -> dict[Key, Task]:
    """Which new task each old one is: by its key, twins by their lines; moved or below a reworded
    parent, by its own text and marker; the `[~]` one under other words where nothing else changed.
    """
    found = _twins(before, old, text, now)
    taken = {task.line for task in found.values()}
    free: dict[tuple[str, Marker], list[Task]] = {}
    for task in now.tasks:
        if task.line not in taken:
            free.setdefault((task.text, task.marker), []).append(task)
    for task in old.tasks:
        if task.key not in found and (same := free.get((task.text, task.marker))):
            found[task.key] = same.pop(0)
    if (
        len(old.active) == len(now.active) == 1
        and len(old.tasks) == len(now.tasks)
        and old.active[0].key not in found
        and all(now.active[0] is not task for task in found.values())
    ):
        found[old.active[0].key] = now.active[0]
    return found


def _twins(before: str, old: Spec, text: str, now: Spec) -> dict[Key, Task]:
    """Tasks of one name below one parent, in order; where one is gone, the lines say which."""
    names: list[dict[tuple[str, str], list[Task]]] = [{}, {}]
    for side, whole in zip(names, (old, now), strict=True):
        for task in whole.tasks:
            side.setdefault((task.key.parent, task.key.text), []).append(task)
    lines: dict[int, int] | None = None
    found: dict[Key, Task] = {}
    for name, ours in names[0].items():
        theirs = names[1].get(name, [])
        if len(ours) != len(theirs) and theirs:
            if lines is None:
                lines = aligned(before.split("\n"), text.split("\n"))
            there = {task.line - 1: task for task in theirs}
            pairs = [(task, there.get(lines.get(task.line - 1, -1))) for task in ours]
            found |= {task.key: new for task, new in pairs if new}
            taken = {new.line for _, new in pairs if new}
            ours = [task for task, new in pairs if not new]
            theirs = [task for task in theirs if task.line not in taken]
        found |= {task.key: new for task, new in zip(ours, theirs, strict=False)}
    return found


def restore_tasks(before: str, old: Spec, after: str) -> tuple[str, list[str]]:
    """Tasks that are gone come back, with their notes, where they stood."""
    found = _matches(before, old, after, parse(after))
    gone = [task for task in old.tasks if task.key not in found]
    if gone:  # a line that is there but hidden did not vanish
        lines = aligned(before.split("\n"), after.split("\n"))
        gone = [task for task in gone if task.line - 1 not in lines]
    if not gone:
        return after, []
    spans = [(task.line, task.end) for task in gone]
    spans += [(note.line, note.end) for task in gone for note in task.notes]
    lost = {line for first, last in spans for line in range(first - 1, last)}
    text = _merge(before.split("\n"), after.split("\n"), lost)
    return text, [f"restored a task that vanished from SPEC.md: {task.text}" for task in gone]


def restore_notes(
    before: str, old: Spec, text: str, kinds: Collection[Kind] = tuple(Kind)
) -> tuple[str, list[str]]:
    """Notes that are gone come back under their task, wherever that stands now."""
    found = _matches(before, old, text, parse(text))
    lost: list[tuple[Task, list[Note]]] = []
    for task in old.tasks:
        now = found.get(task.key)
        if now is None or not task.notes:
            continue
        there = {(note.kind, note.number, note.text) for note in now.notes}
        notes = [
            note
            for note in task.notes
            if note.kind in kinds
            and (note.kind, note.number, note.text) not in there
            # A research note that reads otherwise was edited, not lost.
            and not (note.kind is Kind.RESEARCH and now.of(Kind.RESEARCH))
        ]
        if notes:
            lost.append((now, notes))
    again = [(now, [line for note in notes for line in _lines(note)]) for now, notes in lost]
    return edit.annotate_all(text, again), [
        f"restored notes that vanished from SPEC.md under: {now.text}" for now, _ in lost
    ]


def _lines(note: Note) -> list[str]:
    if note.kind is Kind.RESEARCH:
        return [f"> **{note.kind}:**", *(f">   {line}" for line in note.text.splitlines() if line)]
    if note.kind in (Kind.GATE, Kind.JUDGE, Kind.ANSWER, Kind.HELD):  # a person's, of any length
        return [f"> **{note.kind}:** {note.text}"]
    return [edit.note(note.kind, note.text, note.number)]


def strike_notes(before: str, old: Spec, text: str) -> tuple[str, list[str]]:
    """An attempt or a question of the agent's own would count as one of kern's, which is written
    later.
    """
    new, found = new_notes(before, old, text, Kind.ATTEMPT, Kind.QUESTION)
    lines = {task.line for task in new}
    strays = [(task, note) for task, note in found if task.line not in lines]
    if not strays:
        return text, []
    return edit.strike(text, {note.line for _, note in strays}), [
        f"{note.kind.lower()} note that kern did not write struck: {task.text}"
        for task, note in strays
    ]


def new_notes(
    before: str, old: Spec, text: str, *kinds: Kind
) -> tuple[list[Task], list[tuple[Task, Note]]]:
    """The tasks that are new, and the new notes under any."""
    now = parse(text)
    found = {new.line: key for key, new in _matches(before, old, text, now).items()}
    had = {task.key: {(note.kind, note.text) for note in task.notes} for task in old.tasks}
    return [task for task in now.tasks if task.line not in found], [
        (task, note)
        for task in now.tasks
        for note in task.notes
        if note.kind in kinds
        and (task.line not in found or (note.kind, note.text) not in had[found[task.line]])
    ]


def lost(text: str, fixed: str) -> bool:
    """Whether a line is gone, markers aside."""
    return not {*_bare(text.split("\n"))} <= {*_bare(fixed.split("\n"))}


def _restore_markers(before: str, old: Spec, text: str) -> tuple[str, list[str]]:
    """Markers are as they were; a task that is new is pending."""
    now = parse(text)
    marks = {task.key: task.marker for task in old.tasks}
    wanted = {new.line: marks[key] for key, new in _matches(before, old, text, now).items()}
    wrong = [
        (task, marker)
        for task in now.tasks
        if (marker := wanted.get(task.line, Marker.PENDING)) is not task.marker
    ]
    said = [
        f"marker [{task.marker}] that kern did not set, now [{marker}]: {task.text}"
        for task, marker in wrong
    ]
    return edit.mark_all(text, wrong), said


def single_active(text: str, preferred: Key | None) -> tuple[str, list[str]]:
    """At most one `[~]` stays: the preferred one, else the first."""
    active = parse(text).active
    if len(active) < 2:
        return text, []
    stays = next((task for task in active if task.key == preferred), active[0])
    others = [task for task in active if task is not stays]
    said = [f"more than one [~]: line {task.line} goes back to [ ]: {task.text}" for task in others]
    return edit.mark_all(text, [(task, Marker.PENDING) for task in others]), said


def learnings(before: str, after: str | None) -> tuple[str, list[str]]:
    """Lines that vanished from LEARNINGS.md while an agent ran come back; added ones stay."""
    if after is None:
        return before, ["LEARNINGS.md was deleted while an agent ran: restored"] if before else []
    if after.startswith(before):
        return after, []
    old = before.split("\n")
    text = _merge(old, after.split("\n"), {n for n, line in enumerate(old) if line.strip()})
    if text == after:
        return after, []
    return text, ["restored lines that vanished from LEARNINGS.md"]


def _merge(old: list[str], new: list[str], lost: Collection[int]) -> str:
    """The new lines, with those old ones of `lost` (0-based) that have no counterpart, in place."""
    merged: list[str] = []
    for op, a, b, c, d in _opcodes(old, new):
        if op in ("delete", "replace"):
            merged += [old[i] for i in range(a, b) if i in lost]
        merged += new[c:d]
    return "\n".join(merged)


def aligned(old: list[str], new: list[str]) -> dict[int, int]:
    return {
        a + i: c + i for op, a, b, c, _ in _opcodes(old, new) if op == "equal" for i in range(b - a)
    }


def _opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    plain_old, plain_new = _bare(old), _bare(new)
    head = 0
    while head < min(len(old), len(new)) and plain_old[head] == plain_new[head]:
        head += 1
    tail = 0
    most = min(len(old), len(new)) - head
    while tail < most and plain_old[-1 - tail] == plain_new[-1 - tail]:
        tail += 1
    middle_old, middle_new = plain_old[head : len(old) - tail], plain_new[head : len(new) - tail]
    many = max(len(middle_old), len(middle_new)) > _MANY
    yield "equal", 0, head, 0, head
    for op, a, b, c, d in SequenceMatcher(
        None, middle_old, middle_new, autojunk=many
    ).get_opcodes():
        yield op, head + a, head + b, head + c, head + d
    yield "equal", len(old) - tail, len(old), len(new) - tail, len(new)


def _bare(lines: list[str]) -> list[str]:
    """Lines as they are compared: a changed marker or line end makes no other line."""
    return [re.sub(_MARKER, "[ ]", line, count=1).rstrip() for line in lines]


def in_conflict(text: str) -> bool:
    """Whether a merge left its marks; two searches, since one for both would look for the end anew
    at every beginning.
    """
    begin = _OURS.search(text)
    return begin is not None and _THEIRS.search(text, begin.end()) is not None


def new_faults(before: str, after: str) -> list[str]:
    known = {fault.message for fault in parse(before).diagnostics}
    return [fault.said for fault in parse(after).diagnostics if fault.message not in known]


# ---------------------------------------------------------------- who directs the work


def take_out(before: str, text: str, trusted: Collection[Directive]) -> tuple[str, list[str]]:
    """Without the tasks, checks and answers that came while an agent ran, but for those that a
    person's command wrote; each with what brings it back.
    """
    tasks, notes = new_notes(before, parse(before), text, *DIRECT)
    tasks = [task for task in tasks if directive(task) not in trusted]
    lines = {task.line for task in tasks}
    notes = [
        (task, note)
        for task, note in notes
        if task.line not in lines and directive(task, note) not in trusted
    ]
    if not tasks and not notes:
        return text, []
    spans = [(task.line, task.end) for task in tasks]
    spans += [(note.line, note.end) for task in tasks for note in task.notes]
    below = {line for first, last in spans for line in range(first, last + 1)}
    # A line of old that it only came to stand above is no part of it.
    below -= {line + 1 for line in aligned(before.split("\n"), text.split("\n")).values()}
    struck = below | lines | {n for _, note in notes for n in range(note.line, note.end + 1)}
    told = [f'new task "{task.text}"; if it is yours: {added_again(task)}' for task in tasks]
    told += [
        f"{note.kind} under {task.text}: {note.text}; if it is yours: {given_again(task, note)}"
        for task, note in notes
    ]
    return edit.strike(text, struck), [
        f"taken out of SPEC.md, since an agent or gate may have written it: {one}" for one in told
    ]


def let_in(before: str, text: str, trusted: Collection[Directive]) -> list[str]:
    """What stays of it, since a person's command wrote it: anyone could have said so."""
    tasks, notes = new_notes(before, parse(before), text, *DIRECT)
    lines = {task.line for task in tasks}
    told = [added_again(task) for task in tasks if directive(task) in trusted]
    told += [
        f"{note.kind} under {task.text}: {note.text}"
        for task, note in notes
        if task.line not in lines and directive(task, note) in trusted
    ]
    return [
        f"added by a kern command while an agent worked: {one}; if it was not you: take it out of "
        "SPEC.md"
        for one in told
    ]


def recovered(before: str, text: str, trusted: Collection[Directive]) -> tuple[str, list[str]]:
    """After a kill: `text` may be an agent's, and a person's since. What adds to the orders goes, a
    check or hold that vanished comes back, but for a hold that a command ended; tasks that vanished
    only where others had come in their place.
    """
    old = parse(before)
    fixed, told = take_out(before, text, trusted)
    said = let_in(before, fixed, trusted)
    if len(parse(fixed).tasks) < len(parse(text).tasks):
        fixed, more = restore_tasks(before, old, fixed)
        told += more
    fixed, more = strike_notes(before, old, fixed)
    told += more
    checks = (Kind.GATE, Kind.JUDGE, Kind.AFTER, Kind.HELD)
    left = released(before, trusted)
    fixed, more = restore_notes(left, parse(left), fixed, checks)
    return fixed, [*told, *more, *said]


def released(before: str, trusted: Collection[Directive]) -> str:
    """Without the holds that a person's command ended: those are not restored."""
    ended = {
        note.line
        for task in parse(before).tasks
        for note in task.of(Kind.HELD)
        if unheld(directive(task, note)) in trusted
    }
    return edit.strike(before, ended) if ended else before
