"""What is proposed for LEARNINGS.md: read, refused where it cannot be trusted, applied. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kern import plain
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


@dataclass(frozen=True, slots=True)
class Proposed:
    before: str = ""  # LEARNINGS.md as it was read
    text: str = ""  # and with the changes
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


def read(said: str, there: str, day: str) -> Proposed:
    """`there` is LEARNINGS.md as it is, `day` (2026-11-22) that of what is new. Never raises: an
    answer that cannot be trusted as a whole comes back as `wrong`. Nothing is deleted: what is
    merged or retired keeps its text and says why it is no longer told. What is new and says what an
    entry says is left out.
    """
    replied = answer.parse(Aide.PLANNER, said)
    if replied.code is Code.DONE and not replied.changes:
        return Proposed(there, there, done=replied.reason)
    if replied.code is not Code.CHANGES:
        return Proposed(wrong="it does not end in either CHANGES or DONE: reason")
    parts = re.split(r"\n(?=[-*+]\s)", re.sub(r"(?m)^\s*(`{3,}|~{3,})\w*\s*$", "", replied.changes))
    items = [" ".join(one.split()) for one in parts if re.match(r"\s*[-*+]\s", one)]
    if not 0 < len(items) <= MOST:
        count = f"{len(items) or 'no'} changes below `## Changes`"
        return Proposed(wrong=f"it lists {count}; at most {MOST} are sensible at a time")
    every, text, taken = entries.parse(there), there, list[str]()
    known, free = {one.id: one for one in every if usable(one)}, edits.numbers(every)
    for item in items:
        if not (match := re.fullmatch(_ITEM, item)):
            return Proposed(wrong=f"no change that kern knows: {plain.line(item, 100)}")
        verb, ids = match["verb"] or "ADD", re.findall(r"L\d+", match["ids"] or "")
        words, _, when = match["text"].partition(" When: " if verb == "ADD" else "\n")
        words = plain.line(words, _SHORT.get(verb, LONGEST + 1))
        taken += ids
        if why := _fault(verb, words, ids, known, taken):
            named = ", ".join(ids) or match["topic"]
            return Proposed(wrong=f"{verb} {plain.line(named, 100)}: {why}")
        if ours := [known[name] for name in ids]:
            swaps = zip(ours, _changed(verb, words, ours), strict=True)
            text = edits.applied(text, ((old.raw, entries.renoted(new)) for old, new in swaps))
        elif not capture.alike(words, every):
            lesson = capture.Lesson(words, Kind(match["kind"]), capture.when(when))
            topic = plain.line(match["topic"], 100)
            text += edit.learning(text, day, topic, edits.body(lesson, next(free), topic))
    return Proposed(there, text)


def _fault(
    verb: str, text: str, ids: Sequence[str], known: Mapping[str, Entry], taken: Sequence[str]
) -> str:
    if lost := [name for name in ids if name not in known]:
        return f"there is no entry {lost[0]} that is in use"
    if twice := [name for name in ids if taken.count(name) > 1]:
        return f"{twice[0]} stands in two changes"
    if damaged := [fault for name in ids for fault in known[name].faults]:
        return f"{damaged[0]}; mend that by hand first"
    if (len(ids) > 1) is not (verb == "MERGE"):
        return "a merge is of two entries or more, everything else of one"
    if len(text) > LONGEST:
        return f"its text is longer than {LONGEST} characters"
    readable = re.search(r"\w", text) and not re.match(_MARKUP, text)
    return "" if readable else "its text could not be read as one"


def _changed(verb: str, text: str, ours: Sequence[Entry]) -> Iterator[Entry]:
    first, *others = ours
    if verb == "RETIRE":
        yield replace(first, retired=text)
    elif verb == "WHEN":
        yield replace(first, when=capture.when(text))
    else:
        helpful, harmful = (sum(one.helpful for one in ours), sum(one.harmful for one in ours))
        when = capture.when("; ".join(one.when for one in ours))
        raw = _retold(first, text)
        yield replace(first, raw=raw, helpful=helpful, harmful=harmful, when=when)
        yield from (replace(one, retired=f"merged into {first.id}") for one in others)


def _retold(entry: Entry, text: str) -> str:
    """Its section with another text between its heading and kern's comment."""
    heading, *rest = entry.raw.split("\n")
    end = "\r\n" if heading.endswith("\r") else "\n"
    notes = [line.removesuffix("\r") for line in rest if entries.is_note(line)]
    return end.join([heading.removesuffix("\r"), "", text, *(["", *notes] if notes else [])])
