"""What is proposed for LEARNINGS.md: read, refused where it cannot be trusted, applied. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kern import plain
from kern.frozen import frozen
from kern.memory import capture, entries
from kern.memory import changes as edits
from kern.memory.entries import Entry, Kind
from kern.model import Aide, Marker
from kern.spec import edit
from kern.spec.parse import Kind as Noted
from kern.spec.parse import Spec
from kern.stages import answer
from kern.stages.answer import Code

MOST = 30  # changes at a time: a person reads them
LONGEST = 600  # characters of an entry
_SHORT = {"RETIRE": 100, "WHEN": entries.LONGEST_WHEN}  # characters; what is longer is cut
_OLD = r"[-*+]\s+\**(?P<verb>MERGE|REWRITE|RETIRE|WHEN)\**\s+[*`]*(?P<ids>L\d[L\d\s,+and]*?)"
_NEW = rf"[-*+]\s+\**(?P<add>ADD)\**\s+[*`]*(?P<kind>{'|'.join(Kind)})\s*\((?P<topic>[^()]+)\)"
_ITEM = rf"(?:{_OLD}|{_NEW})[*`]*\s*:\**\s*(?P<text>.*)"
# What would stand in the file as something else: a heading, a fence, half a merge, a comment.
_MARKUP = r"#|`{3}|~{3}|<{7}|={7}|>{7}|\|{7}|.*(?:<!--|-->)"


@frozen
class Change:
    verb: str
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
    said = list[str]()
    for task in (one for one in spec.tasks if one.marker is Marker.DONE):
        said.append(f"- {plain.line(task.text, 300)}")
        for note in task.of(Noted.QUESTION, Noted.ANSWER):
            said[-1] += f"\n  {note.kind}: {plain.line(note.text, LONGEST)}"
    return said


# ---------------------------------------------------------------- read


def read(text: str, there: str) -> Proposed:
    """`there` is LEARNINGS.md as it is. Never raises: an answer that cannot be trusted as a whole
    comes back as `wrong`. A new entry that says what another one says is left out.
    """
    replied = answer.parse(Aide.PLANNER, text)
    if replied.code is Code.DONE and not replied.changes:
        return Proposed(done=replied.reason)
    if replied.code is not Code.CHANGES:
        return Proposed(wrong="it does not end in either CHANGES or DONE: reason")
    known = entries.parse(there)
    items = re.split(r"\n(?=[-*+]\s)", re.sub(r"(?m)^\s*(`{3,}|~{3,})\w*\s*$", "", replied.changes))
    changes = list[Change]()
    for item in filter(lambda one: re.match(r"[-*+]\s", one), map(str.lstrip, items)):
        if not (match := re.fullmatch(_ITEM, " ".join(item.split()))):
            return Proposed(wrong=f"no change that kern knows: {plain.line(item, 100)}")
        changes.append(_change(match))
    if wrong := next(_faults(changes, {one.id: one for one in known if usable(one)}), ""):
        return Proposed(wrong=wrong)
    new = (one for one in changes if one.ids or not capture.alike(one.text, known))
    return Proposed((*new,))


def _change(match: re.Match[str]) -> Change:
    if match["add"]:
        text, _, when = match["text"].partition(" When: ")
        kind, topic = Kind(match["kind"]), plain.line(match["topic"], 100)
        return Change("ADD", plain.line(text, LONGEST + 1), (), kind, topic, capture.when(when))
    text = plain.line(match["text"], _SHORT.get(match["verb"], LONGEST + 1))
    return Change(match["verb"], text, tuple(re.findall(r"L\d+", match["ids"])))


def _faults(changes: Sequence[Change], known: Mapping[str, Entry]) -> Iterator[str]:
    if not 0 < len(changes) <= MOST:
        count = f"{len(changes) or 'no'} changes below `## Changes`"
        yield f"it lists {count}; at most {MOST} are sensible at a time"
    named = [name for change in changes for name in change.ids]
    for change in changes:
        what = f"{change.verb} {', '.join(change.ids) or change.topic}"
        for name in change.ids:
            if name not in known:
                yield f"{what}: there is no entry {name} that is in use"
            elif named.count(name) > 1:
                yield f"{what}: {name} stands in two changes"
            elif fault := next(iter(known[name].faults), ""):
                yield f"{what}: {fault}; mend that by hand first"
        if (len(change.ids) > 1) is not (change.verb == "MERGE"):
            yield f"{what}: a merge is of two entries or more, everything else of one"
        if len(change.text) > LONGEST:
            yield f"{what}: its text is longer than {LONGEST} characters"
        if not re.search(r"\w", change.text) or re.match(_MARKUP, change.text):
            yield f"{what}: its text could not be read as one"


# ---------------------------------------------------------------- applied


def applied(there: str, changes: Sequence[Change], day: str) -> str:
    """LEARNINGS.md with the changes in it. Nothing is deleted: what is merged or retired keeps its
    text and says why it is no longer told. `day`: 2026-11-22, of what is new.
    """
    known = {one.id: one for one in entries.parse(there)}
    free = edits.numbers([*known.values()])
    text = there
    for change in changes:
        ours = [known[name] for name in change.ids]
        swaps = zip(ours, _changed(change, ours), strict=True) if ours else ()
        text = edits.applied(text, ((old.raw, entries.renoted(new)) for old, new in swaps))
    for change in (one for one in changes if not one.ids):
        lesson = capture.Lesson(change.text, change.kind, change.when)
        body = edits.body(lesson, next(free), change.topic)
        text += edit.learning(text, day, change.topic, body)
    return text


def _changed(change: Change, ours: Sequence[Entry]) -> Iterator[Entry]:
    first, *others = ours
    if change.verb == "RETIRE":
        yield replace(first, retired=change.text)
    elif change.verb == "WHEN":
        yield replace(first, when=capture.when(change.text))
    else:
        helpful, harmful = (sum(one.helpful for one in ours), sum(one.harmful for one in ours))
        when = capture.when("; ".join(one.when for one in ours))
        raw = _retold(first, change.text)
        yield replace(first, raw=raw, helpful=helpful, harmful=harmful, when=when)
        yield from (replace(one, retired=f"merged into {first.id}") for one in others)


def _retold(entry: Entry, text: str) -> str:
    """Its section with another text between its heading and kern's comment."""
    heading, *rest = entry.raw.split("\n")
    end = "\r\n" if heading.endswith("\r") else "\n"
    notes = [line.removesuffix("\r") for line in rest if entries.is_note(line)]
    return end.join([heading.removesuffix("\r"), "", text, *(["", *notes] if notes else [])])
