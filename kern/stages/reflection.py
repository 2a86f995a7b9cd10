"""What is proposed for LEARNINGS.md: read, refused where it cannot be trusted, applied. Pure."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import accumulate

from kern import plain
from kern.frozen import frozen
from kern.memory import capture, entries
from kern.memory import changes as edits
from kern.memory.changes import Swap
from kern.memory.entries import Entry, Kind
from kern.model import Aide, Marker
from kern.spec import edit
from kern.spec.checklist import Kind as Noted
from kern.spec.checklist import Spec, Task
from kern.stages import answer
from kern.stages.answer import Code

MOST = 30  # changes at a time: a person reads them
LONGEST = 600  # characters of an entry
_VERBS = r"\**(MERGE|REWRITE|RETIRE|WHEN|ADD)\**"
_ITEM = rf"[-*+]\s+{_VERBS}\s+([^:]+?)\**:\**\s*(.*)"
_BULLET = r"[-*+]\s"
_IDS = r"L\d+(?:\s*(?:,|\+|and)\s*L\d+)*"
_NEW = r"(\w+)\s*\(([^()]{1,100})\)"


class Verb(StrEnum):
    MERGE = "MERGE"
    REWRITE = "REWRITE"
    RETIRE = "RETIRE"
    WHEN = "WHEN"
    ADD = "ADD"


_RETELLING = (Verb.MERGE, Verb.REWRITE)
_MOST = {Verb.RETIRE: 100, Verb.WHEN: entries.LONGEST_WHEN}  # characters; else LONGEST


@frozen
class Change:
    verb: Verb
    text: str  # the new text; of a retirement the reason; of WHEN the kinds of work
    ids: tuple[str, ...] = ()  # of entries; the one that stays is the first
    kind: Kind = Kind.DECISION  # of a new one
    topic: str = ""
    when: str = ""  # of a new one: the kinds of work that need it


@frozen
class Proposed:
    changes: tuple[Change, ...] = ()
    done: str = ""  # why nothing is to be changed
    wrong: str = ""  # why the answer is refused


# ---------------------------------------------------------------- told


def listed(found: Sequence[Entry]) -> list[str]:
    """The entries in a line each: the agent reads their texts in the file. Where there is no room
    for all, the last ones are told: those whose number does not stand in the file.
    """
    ours = sorted(filter(usable, found), key=lambda one: not one.noted)
    return [
        plain.line(f"{one.id} (line {one.line}, {one.kind}, {one.votes}): {one.title}", 160)
        for one in ours
    ]


def usable(entry: Entry) -> bool:
    """Whether it may be changed: what stands before the first heading is a person's."""
    return bool(entry.title) and not entry.retired


def finished(spec: Spec) -> list[str]:
    """The tasks that are done, with what was asked about them and answered."""
    done = [task for task in spec.tasks if task.marker is Marker.DONE]
    return ["\n".join([f"- {plain.line(task.text, 300)}", *_decided(task)]) for task in done]


def newest(items: Sequence[str], most: int) -> list[str]:
    """The last ones that fit into so many characters: the entries need the room."""
    sizes = [*accumulate(len(item) + 1 for item in reversed(items))]
    return [*items[len(items) - bisect_right(sizes, most) :]]


def _decided(task: Task) -> list[str]:
    asked = (note for note in task.notes if note.kind in (Noted.QUESTION, Noted.ANSWER))
    return [f"  {note.kind}: {plain.line(note.text, LONGEST)}" for note in asked]


# ---------------------------------------------------------------- read


def read(text: str, there: str) -> Proposed:
    """`there` is LEARNINGS.md as it is. Never raises: an answer that cannot be trusted as a whole
    comes back as `wrong`.
    """
    replied = answer.parse(Aide.PLANNER, text)
    if replied.code is Code.DONE:
        if replied.changes:
            return Proposed(wrong="it says DONE and lists changes")
        return Proposed(done=replied.reason)
    if replied.code is not Code.CHANGES:
        return Proposed(wrong="it does not end in CHANGES or DONE: reason")
    changes: list[Change] = []
    for item in _items(replied.changes):
        change = _change(item)
        if change is None:
            return Proposed(wrong=f"no change that kern knows: {plain.line(item, 100)}")
        changes.append(change)
    wrong = _unsound(changes, {one.id: one for one in entries.parse(there)})
    wrong = wrong or _misread(changes, there)
    return Proposed(wrong=wrong) if wrong else Proposed(fitting(changes, there))


def _items(block: str) -> list[str]:
    """Each item in one line; what stands before the first is none."""
    items: list[str] = []
    for line in block.split("\n"):
        if re.match(_BULLET, line):
            items.append(line)
        elif items and line.strip() and not re.fullmatch(r"(`{3,}|~{3,})\w*", line.strip()):
            items[-1] += " " + line.strip()
    return items


def _change(item: str) -> Change | None:
    found = re.fullmatch(_ITEM, item.strip())
    if found is None:
        return None
    verb, head = Verb(found[1]), found[2].strip(" *`")
    said, needed = found[3], ""
    if verb is Verb.ADD:
        said, _, needed = said.partition(" When: ")
    text = plain.line(said, LONGEST + 1)
    if verb is Verb.ADD:
        new = re.fullmatch(_NEW, head)
        if new is None or new[1].lower() not in [*Kind]:
            return None
        topic = plain.line(new[2], 100)
        return Change(verb, text, (), Kind(new[1].lower()), topic, capture.when(needed))
    if not re.fullmatch(_IDS, head):
        return None
    return Change(verb, text, tuple(re.findall(r"L\d+", head)))


def _unsound(changes: Sequence[Change], known: Mapping[str, Entry]) -> str:
    if not changes:
        return "it lists no change below `## Changes`"
    if len(changes) > MOST:
        return f"it lists {len(changes)} changes; at most {MOST} are sensible at a time"
    seen: set[str] = set()
    for change in changes:
        name = f"{change.verb} {', '.join(change.ids) or change.topic}"
        most = _MOST.get(change.verb, LONGEST)
        if not re.search(r"\w", change.text):
            return f"{name} has no text"
        if len(change.text) > most:
            return f"{name}: its text is longer than {most} characters"
        if "<!--" in change.text or "-->" in change.text:
            return f"{name}: a comment in its text"
        if (len(change.ids) > 1) is not (change.verb is Verb.MERGE):
            return f"{name}: a merge is of two entries or more, everything else of one"
        for one in change.ids:
            if one not in known or not usable(known[one]):
                return f"{name}: there is no entry {one} that is in use"
            if known[one].faults:
                return f"{name}: {known[one].faults[0]}; mend that by hand first"
            if one in seen:
                return f"{name}: {one} stands in two changes"
            seen.add(one)
    return ""


def _misread(changes: Sequence[Change], there: str) -> str:
    """A text that would stand in the file as something else: a heading, a fence, half a merge."""
    before = {one.id: one for one in entries.parse(there)}
    after = {one.id: one for one in entries.parse(applied(there, changes, "2000-01-01"))}
    wanted = {change.ids[0]: change.text for change in changes if change.verb in _RETELLING}
    for name, one in before.items():
        found = after.pop(name, None)
        if found is None or found.text != wanted.get(name, one.text) or found.faults != one.faults:
            return f"LEARNINGS.md could not be read with it: {name}"
    added = [change.text for change in changes if change.verb is Verb.ADD]
    same = [one.text for one in after.values()] == added
    return "" if same else "LEARNINGS.md could not be read with it: what is new"


# ---------------------------------------------------------------- applied


def fitting(changes: Sequence[Change], there: str) -> tuple[Change, ...]:
    """Without new entries that say what another one says already."""
    known = entries.parse(there)
    return tuple(
        one for one in changes if one.verb is not Verb.ADD or not capture.alike(one.text, known)
    )


def applied(there: str, changes: Sequence[Change], day: str) -> str:
    """LEARNINGS.md with the changes in it. Nothing is deleted: what is merged or retired keeps its
    text and says why it is no longer told. `day`: 2026-11-22, of what is new.
    """
    known = {one.id: one for one in entries.parse(there)}
    text = edits.applied(there, (swap for one in changes for swap in _swaps(one, known)))
    free = edits.numbers([*known.values()])
    for change in changes:
        if change.verb is Verb.ADD:
            lesson = capture.Lesson(change.text, change.kind, change.when)
            body = edits.body(lesson, next(free), change.topic)
            text += edit.learning(text, day, change.topic, body)
    return text


def _swaps(change: Change, known: Mapping[str, Entry]) -> list[Swap]:
    """What each entry's section is and becomes."""
    if change.verb is Verb.ADD:
        return []
    ours = [known[name] for name in change.ids]
    if change.verb is Verb.RETIRE:
        return [(ours[0].raw, entries.renoted(replace(ours[0], retired=change.text)))]
    if change.verb is Verb.WHEN:
        when = capture.when(change.text)
        return [(ours[0].raw, entries.renoted(replace(ours[0], when=when)))]
    first, *others = ours
    gone = [replace(one, retired=f"merged into {first.id}") for one in others]
    kept = replace(
        first,
        raw=_retold(first, change.text),
        helpful=sum(one.helpful for one in ours),
        harmful=sum(one.harmful for one in ours),
        when=capture.when("; ".join(one.when for one in ours)),
    )
    return [(first.raw, entries.renoted(kept)), *((one.raw, entries.renoted(one)) for one in gone)]


def _retold(entry: Entry, text: str) -> str:
    """Its section with another text between its heading and kern's comment."""
    heading, *rest = entry.raw.split("\n")
    end = "\r\n" if heading.endswith("\r") else "\n"
    notes = [line.removesuffix("\r") for line in rest if entries.is_note(line)]
    below = ["", *notes] if notes else []
    return end.join([heading.removesuffix("\r"), "", text, *below])
