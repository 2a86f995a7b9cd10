"""What is proposed for LEARNINGS.md: read, refused where it cannot be trusted, applied. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kern import plain
from kern.memory import capture
from kern.memory.entries import Entry, numbers, parse, written
from kern.model import Aide, Marker
from kern.spec.parse import Kind, Spec
from kern.stages import answer
from kern.stages.answer import Code

MOST = 30  # changes at a time: a person reads them
LONGEST = 600  # characters of an entry
_ITEM = r"[-*+]\s+[*`]*(?P<ids>NEW|L\d+(?:[\s,+]+(?:and )?L\d+)*)[*`]*\s*:\**\s*(?P<text>.*)"
_FENCE = r"(?m)^\s*(`{3,}|~{3,})\w*\s*$"


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
    said = list[str]()
    for task in (one for one in spec.tasks if one.marker is Marker.DONE):
        said.append(f"- {plain.line(task.text, 300)}")
        for note in task.of(Kind.QUESTION, Kind.ANSWER):
            said[-1] += f"\n  {note.kind}: {plain.line(note.text, LONGEST)}"
    return said


def read(said: str, there: str) -> Proposed:
    """`there` is LEARNINGS.md as it is. Never raises: an answer that cannot be trusted as a whole
    comes back as `wrong`.
    """
    replied, known = answer.parse(Aide.PLANNER, said), parse(there).entries
    if replied.code is Code.DONE and not replied.changes:
        return Proposed(there, written(there, known), done=replied.reason)
    if replied.code is not Code.CHANGES:
        return Proposed(wrong="it does not end in either CHANGES or DONE: reason")
    parts = re.split(r"\n(?=[-*+]\s)", re.sub(_FENCE, "", replied.changes))
    items = [" ".join(one.split()) for one in parts if re.match(r"\s*[-*+]\s", one)]
    if not 0 < len(items) <= MOST:
        count = f"{len(items) or 'no'} changes below `## Changes`"
        return Proposed(wrong=f"it lists {count}; at most {MOST} are sensible at a time")
    kept = {one.id: one for one in known}
    free, taken = numbers(known), list[str]()
    for item in items:
        match = re.fullmatch(_ITEM, item)
        ids = re.findall(r"L\d+", match["ids"]) if match else []
        new = _entry(match["text"]) if match else None
        taken += ids
        if why := _fault(new, ids, kept, taken):
            return Proposed(wrong=f"{why}: {plain.line(item, 100)}")
        assert new is not None
        if ids:
            ours = [kept.pop(name) if name != ids[0] else kept[name] for name in ids]
            kept[ids[0]] = _changed(ours, new)
        elif not capture.alike(new.text, known):
            name = next(free)
            kept[name] = replace(new, id=name)
    return Proposed(there, written(there, kept.values()))


def _entry(text: str) -> Entry:
    """Of what stands behind the numbers."""
    (found,) = parse(f"## Learnings\n- L1 +0 -0 {plain.line(text, 2 * LONGEST)}").entries
    retired = re.fullmatch(r"(?i)(?:\| )?retired: (.*)", found.text)
    return replace(found, text="", retired=retired[1]) if retired else found


def _fault(
    new: Entry | None, ids: Sequence[str], kept: dict[str, Entry], taken: Sequence[str]
) -> str:
    if new is None:
        return "it lists no change that kern knows"
    if lost := [name for name in ids if name not in kept or kept[name].retired]:
        twice = lost[0] in taken[: len(taken) - len(ids)]
        return (
            f"{lost[0]} stands in two changes" if twice else f"there is no entry {lost[0]} in use"
        )
    if twice_named := [name for name in ids if taken.count(name) > 1]:
        return f"{twice_named[0]} stands in two changes"
    if len(new.text) > LONGEST:
        return f"a text is longer than {LONGEST} characters"
    said = new.text or new.retired * bool(ids)
    return "" if re.search(r"\w", said) else "it has no text"


def _changed(ours: Sequence[Entry], new: Entry) -> Entry:
    """The first of them with the votes of all."""
    first = ours[0]
    if new.retired and not new.text:
        return replace(first, retired=plain.line(new.retired, 100))
    helpful, harmful = (sum(one.helpful for one in ours), sum(one.harmful for one in ours))
    when = capture.when(new.when or "; ".join(one.when for one in ours))
    return replace(first, text=new.text, helpful=helpful, harmful=harmful, when=when)
