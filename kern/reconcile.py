"""What an agent may not have done to SPEC.md and LEARNINGS.md is undone here; a person's edits
survive.

Pure: the text before the stage, the text after it, the reconciled text and what to say about it.
"""

import re
from collections.abc import Callable
from difflib import SequenceMatcher

from kern import edit
from kern.spec import Key, Kind, Marker, Spec, Task, parse

_MARKER = re.compile(r"\[[ ~xX]\]")


def spec(before: str, after: str | None, *, trusted: bool) -> tuple[str, list[str]]:
    """Put back task lines and notes that vanished, and, unless the stage could not write anyway
    (`trusted`: then a person did it), markers that were changed (R9, R10).
    """
    if after is None:
        return before, ["SPEC.md was deleted while an agent ran: put back"]
    if before == after:
        return after, []
    old = parse(before)
    lost, said = _lost(old, parse(after))
    text = _merge(before.split("\n"), after.split("\n"), lost) if lost else after
    if not trusted:
        text = _restore_markers(old, text, said)
        text = _strike_markers_of_new_tasks(old, text, said)
    return text, said


def _lost(old: Spec, now: Spec) -> tuple[set[int], list[str]]:
    """The 0-based lines of the old text that hold tasks and notes which the new one lacks."""
    lost: set[int] = set()
    said: list[str] = []
    there = {task.key: task for task in now.tasks}
    reworded = _reworded(old, now)
    for task in old.tasks:
        new = there.get(task.key)
        if new is None:
            if task.key != reworded:
                lost.update(range(task.line - 1, task.end))
                said.append(f"task put back that vanished from SPEC.md: {task.text}")
            continue
        kept = {(note.kind, note.number, note.text) for note in new.notes}
        notes = [note for note in task.notes if (note.kind, note.number, note.text) not in kept]
        for note in notes:
            if note.kind is Kind.RESEARCH and new.of(Kind.RESEARCH):
                continue  # reworded, not gone
            below = len(note.text.splitlines()) if note.kind is Kind.RESEARCH else 0
            lost.update(range(note.line - 1, note.line + below))
            said.append(f"note put back that vanished from SPEC.md under: {task.text}")
    return lost, said


def _reworded(old: Spec, now: Spec) -> Key | None:
    """The `[~]` task stands under another text: a person changed its words, its line did not
    vanish.
    """
    known = {task.key for task in old.tasks}
    if len(old.active) == len(now.active) == 1 and len(now.tasks) == len(old.tasks):
        return None if now.active[0].key in known else old.active[0].key
    return None


def _merge(old: list[str], new: list[str], lost: set[int]) -> str:
    """The new lines, with the lost old ones where they stood."""
    plain_old, plain_new = ([_MARKER.sub("[ ]", line, count=1) for line in t] for t in (old, new))
    head = 0
    while head < min(len(old), len(new)) and plain_old[head] == plain_new[head]:
        head += 1
    tail = 0
    most = min(len(old), len(new)) - head
    while tail < most and plain_old[-1 - tail] == plain_new[-1 - tail]:
        tail += 1
    middle_old, middle_new = plain_old[head : len(old) - tail], plain_new[head : len(new) - tail]
    merged = new[:head]
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=len(middle_old) > 2000)
    for _, a, b, c, d in matcher.get_opcodes():
        if middle_old[a:b] != middle_new[c:d]:
            merged += [old[head + i] for i in range(a, b) if head + i in lost]
        merged += new[head + c : head + d]
    return "\n".join(merged + new[len(new) - tail :])


def _restore_markers(old: Spec, text: str, said: list[str]) -> str:
    markers = {task.key: task.marker for task in old.tasks}
    return _marks(text, lambda task: markers.get(task.key, task.marker), "put back", said)


def _strike_markers_of_new_tasks(old: Spec, text: str, said: list[str]) -> str:
    known: set[Key] = {task.key for task in old.tasks}
    had_active = bool(old.active)

    def wanted(task: Task) -> Marker:
        if task.key in known or (had_active and task.marker is Marker.ACTIVE):
            return task.marker
        return Marker.PENDING

    return _marks(text, wanted, "set to [ ]", said)


def _marks(text: str, wanted: Callable[[Task], Marker], verb: str, said: list[str]) -> str:
    for task in parse(text).tasks:
        marker = wanted(task)
        if marker is not task.marker:
            said.append(f"marker [{task.marker}] that kern did not set {verb}: {task.text}")
            text = edit.mark(text, task, marker)
    return text


def single_active(text: str, preferred: Key | None) -> tuple[str, list[str]]:
    """At most one `[~]` stays: the preferred one, else the first (R10)."""
    active = parse(text).active
    if len(active) < 2:
        return text, []
    stays = next((task for task in active if task.key == preferred), active[0])
    said = []
    for task in active:
        if task is not stays:
            text = edit.mark(text, task, Marker.PENDING)
            said.append(f"more than one [~]: line {task.line} goes back to [ ]: {task.text}")
    return text, said


def learnings(before: str, after: str | None) -> tuple[str, list[str]]:
    """Lines that vanished from LEARNINGS.md while an agent ran come back; added ones stay."""
    if after is None:
        return before, ["LEARNINGS.md was deleted while an agent ran: put back"] if before else []
    if after.startswith(before):
        return after, []
    old, new = before.split("\n"), after.split("\n")
    merged: list[str] = []
    lost = False
    for op, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if op in ("delete", "replace"):
            merged += old[a:b]
            lost = lost or any(line.strip() for line in old[a:b])
        if op in ("insert", "replace", "equal"):
            merged += new[c:d]
    if not lost:
        return after, []
    return "\n".join(merged), ["lines put back that vanished from LEARNINGS.md"]
