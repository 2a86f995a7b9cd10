"""LEARNINGS.md as entries, a line each: `- L7 +5 -0 text | when: the work that needs it`. Pure."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kern import plain

LONGEST = 4000  # characters of a line that is read, and of an entry that is written
# Of words that any text has.
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be been but by can could do does each for from had has have how i"
        " if in into is it its may must no not of on one only or our should so some than that the"
        " their them then there these they this to too was we were what when where which who will"
        " with without would you your",
    )
)
_HARMFUL_AT = 2  # harmful votes from which a low score counts as proven
_PROVEN = 0.4  # the score of 1 helpful, 2 harmful
_HEADING = "## Learnings"
_HEAD = r"- (?:L([1-9]\d{0,8}) \+(\d{1,9}) -(\d{1,9}) |(?!L\d+ [+-])(?=\S))"
_TORN = r"[<>]{7} "  # by git
# As an earlier kern wrote it: a section, with a comment that counts.
_NOTE = "<!-- kern:"
_FIELD = r'([a-z]+)=(?:"([^"]*)"|([^\s"]+))'
_DATED = r"^## +(?:\d{4}-\d\d-\d\d +[-\u2013\u2014] +)?"
_NO_TEXT = r"(?m)^# .*$|^(?:[<>|]{7} .*|={7})\r?$|^What later tasks need to know.*$"


@dataclass(frozen=True, slots=True)
class Entry:
    id: str  # L7
    text: str
    helpful: int = 0
    harmful: int = 0
    when: str = ""  # the kinds of work that need it: it is found by them
    retired: str = ""  # why it is out of use
    at: int = field(default=-1, compare=False)  # the line that counts its votes; -1 for none

    @property
    def score(self) -> float:
        """The mean of the Beta distribution after the votes: 0.5 where there are none."""
        return (self.helpful + 1) / (self.helpful + self.harmful + 2)

    @property
    def unwanted(self) -> str:
        """Why it is never told to an agent, in words; empty for one that may be."""
        if self.retired:
            return f"retired: {self.retired}"
        if self.harmful >= _HARMFUL_AT and self.score <= _PROVEN:
            return f"harmful: {self.helpful} helpful, {self.harmful} harmful"
        return ""

    @property
    def words(self) -> tuple[str, ...]:
        """By which it is the same in any form."""
        return tuple(re.findall(r"[^\W_]+", self.text))

    @property
    def line(self) -> str:
        """As it stands in the file."""
        parts = {"when": self.when, "retired": self.retired}
        more = "".join(f" | {name}: {plain.line(said)}" for name, said in parts.items() if said)
        head = f"- {self.id} +{self.helpful} -{self.harmful} "
        return head + plain.line(self.text, LONGEST - len(head) - len(more)) + more


class Learnings(NamedTuple):
    entries: tuple[Entry, ...] = ()
    faults: tuple[str, ...] = ()  # the lines that are not read, in words


# ---------------------------------------------------------------- reading


def parse(text: str) -> Learnings:
    """The entries in the order of the file. Never raises. One without a number gets a free one."""
    found, faults, start = list[Entry](), list[str](), 0
    for part in _parts(text):
        lines = part.split("\n")
        if lines[0].rstrip() == _HEADING:
            found += _items(lines, start, faults)
        elif part.startswith("## "):
            found += _section(lines, start)
            torn = (at for at, line in enumerate(lines, start + 1) if re.match(_TORN, line))
            faults += [f"line {at} is half a merge; both sides count" for at in torn]
        else:
            found += list(_items(lines, start, [])) or _section(lines, start)
        start += part.count("\n")
    return Learnings(tuple(_numbered(found, faults)), tuple(faults))


def _parts(text: str) -> list[str]:
    """What stands before the first heading, and each section."""
    return re.split(r"(?m)^(?=## )", text)


def _items(lines: Sequence[str], start: int, faults: list[str]) -> Iterator[Entry]:
    """One that is broken over indented lines is one."""
    rows, hidden = list[tuple[int, list[str]]](), False
    last = max((at for at, line in enumerate(lines) if "-->" in line), default=-1)
    for at, line in enumerate(lines):
        if hidden or (line.startswith("<!--") and at <= last):
            hidden = "-->" not in line
        elif rows and re.match(r"[ \t]+\S", line):
            rows[-1][1].append(line.strip())
        elif line.strip() and not line.startswith("#"):
            rows.append((start + at, [line.rstrip()]))
    for at, parts in rows:
        row = " ".join(parts)
        head = re.match(_HEAD, row)
        if not head or len(row) > LONGEST:
            why = f"is longer than {LONGEST} characters" if head else "is no entry"
            faults.append(f"line {at + 1} {why}, and not read: {plain.line(row, 40)}")
            continue
        name, helpful, harmful = head.groups("0")
        said, _, retired = plain.line(row[head.end() :], LONGEST).partition(" | retired: ")
        text, _, when = said.partition(" | when: ")
        id = f"L{name}" if name != "0" else ""
        yield Entry(id, text, int(helpful), int(harmful), when, retired, at)


def _section(lines: Sequence[str], start: int) -> Iterator[Entry]:
    """A heading, a text, and perhaps kern's comment."""
    heading = re.sub(_DATED, "", lines[0]) if lines[0].startswith("## ") else ""
    first, *rest = "\n".join(lines[bool(heading) :]).split("<!--")
    kept = (one.partition("-->")[2] if "-->" in one else f"<!--{one}" for one in rest)
    text = plain.line(re.sub(_NO_TEXT, "", "".join((first, *kept))), LONGEST)
    title = plain.line(heading, LONGEST).rstrip("…")
    said = text if text.startswith(title) else f"{title}: {text}".removesuffix(": ")
    noted = [at for at, line in enumerate(lines) if _NOTE in line][:1]
    found = re.findall(_FIELD, lines[noted[0]]) if noted else []
    fields = {name: quoted or bare for name, quoted, bare in found}

    def counted(name: str) -> int:
        return int(fields[name]) if re.fullmatch(r"\d{1,9}", fields.get(name, "")) else 0

    id = re.fullmatch(r"L[1-9]\d{0,8}", fields.get("id", ""))
    if said:
        yield Entry(
            *(id[0] if id else "", said, counted("helpful"), counted("harmful")),
            *(fields.get("when", ""), fields.get("retired", "")),
            start + noted[0] if noted else -1,
        )


def _numbered(found: Sequence[Entry], faults: list[str]) -> Iterator[Entry]:
    """Of two that say the same under one number, as a merge leaves them, the first counts."""
    seen, taken = dict[str, Entry](), {entry.id for entry in found}
    free = (name for n in itertools.count(1) if (name := f"L{n}") not in taken)
    for entry in found:
        twin = seen.get(entry.id) if entry.id else None
        if twin and twin.words == entry.words:
            faults.append(f"line {entry.at + 1}: {entry.id} stands there a second time")
            continue
        if twin:
            faults.append(f"line {entry.at + 1}: {entry.id} is another entry's number as well")
        if twin or not entry.id:
            entry = replace(entry, id=next(free))
        seen[entry.id] = entry
        yield entry


def numbers(entries: Iterable[Entry]) -> Iterator[str]:
    """Ids for new entries: above all that there are."""
    taken = {int(entry.id[1:]) for entry in entries if entry.id}
    return (f"L{n}" for n in itertools.count(max(taken, default=0) + 1))


# ---------------------------------------------------------------- writing


def counted(text: str, votes: Mapping[str, Entry]) -> str:
    """With the votes of these entries, by the id that they have in `text`."""
    lines = text.split("\n")
    for entry in parse(text).entries:
        if (new := votes.get(entry.id)) and entry.at >= 0:
            old = lines[entry.at]
            if old.startswith("- "):
                head = f"- {entry.id} +{new.helpful} -{new.harmful} "
                lines[entry.at] = head + re.sub(_HEAD, "", old, count=1)
            else:
                told = re.sub(r"helpful=\d+", f"helpful={new.helpful}", old)
                lines[entry.at] = re.sub(r"harmful=\d+", f"harmful={new.harmful}", told)
    return "\n".join(lines)


def appended(text: str, entries: Iterable[Entry]) -> str:
    """With these at the end, below `## Learnings`, and the line ends of the file."""
    end = "\r\n" if "\r\n" in text else "\n"
    new = "".join(entry.line + end for entry in entries)
    if not new:
        return text
    text += end if text and not text.endswith("\n") else ""
    headings = [line.rstrip() for line in text.split("\n") if line.startswith("## ")]
    if headings[-1:] != [_HEADING]:
        text += (end if text else "") + _HEADING + end
    gap = end if text.rstrip().endswith(_HEADING) and not text.endswith(end + end) else ""
    return text + gap + new


def written(text: str, entries: Iterable[Entry]) -> str:
    """The file with these entries in the place of those that it has."""
    top = _parts(text)[0].split("\n")
    items = [entry.at for entry in _items(top, 0, [])]
    if items or any(_section(top, 0)):  # which are among the entries
        top = top[: items[0]] if items else ["# Learnings"]
    above = "\n".join(top).rstrip()
    return appended(above and f"{above}\n", entries)
