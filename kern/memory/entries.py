"""LEARNINGS.md as entries, a line each: `- L7 +5 -0 text | when: the work that needs it`. Pure."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kern import plain

LONGEST = 4000  # characters of a line that is read, and of an entry that is written
_HARMFUL_AT = 2  # harmful votes from which a low score counts as proven
_PROVEN = 0.4  # the score of 1 helpful, 2 harmful
_HEADING = "## Learnings"
_HEAD = r"- (?:L([1-9]\d{0,8}) \+(\d{1,9}) -(\d{1,9}) |(?!L\d+ [+-])(?=\S))"
_COMMENT = r"(?s)<!--(?:(?!<!--|-->).)*-->"
_SECTIONS = r"(?m)^(?=## )"
# As an earlier kern wrote one: a section, with a comment that counts.
_DATED = r"^## +(?:\d{4}-\d\d-\d\d +[-\u2013\u2014] +)?"
_FIELD = r'\b(id(?==L)|helpful(?==\d)|harmful(?==\d)|when|retired)="?((?<=")[^"]*|L?\d{1,9}\b)'


@dataclass(frozen=True, slots=True)
class Entry:
    id: str  # L7
    text: str
    helpful: int = 0
    harmful: int = 0
    when: str = ""  # the kinds of work that need it: it is found by them
    retired: str = ""  # why it is out of use
    at: int = field(default=-1, compare=False)  # its line; -1 for a section, which counts no votes

    @property
    def score(self) -> float:
        """The mean of the Beta distribution after the votes: 0.5 where there are none."""
        return (self.helpful + 1) / (self.helpful + self.harmful + 2)

    @property
    def unwanted(self) -> str:
        """Why it is never told to an agent, in words; empty for one that may be."""
        if self.retired:
            return f"retired: {self.retired}"
        proven = self.harmful >= _HARMFUL_AT and self.score <= _PROVEN
        return f"harmful: {self.helpful} helpful, {self.harmful} harmful" if proven else ""

    @property
    def words(self) -> tuple[str, ...]:
        """By which it is the same in any form."""
        return tuple(re.findall(r"[^\W_]+", self.text))

    @property
    def line(self) -> str:
        """As it stands in the file."""
        parts = {"when": self.when, "retired": self.retired}
        more = "".join(f" | {name}: {plain.line(text)}" for name, text in parts.items() if text)
        head = f"- {self.id} +{self.helpful} -{self.harmful} "
        return head + plain.line(self.text, LONGEST - len(head) - len(more)) + more


class Learnings(NamedTuple):
    entries: tuple[Entry, ...] = ()
    faults: tuple[str, ...] = ()  # the lines that are not read, in words


def parse(text: str) -> Learnings:
    """The entries in the order of the file. Never raises. One without a number gets a free one."""
    rows, faults, start = list[Entry](), list[str](), 0
    for part in re.split(_SECTIONS, text):
        heading = part.partition("\n")[0].rstrip()
        if part.startswith("## ") and heading != _HEADING:
            rows += _section(part)
        else:
            rows += _items(part, start, faults if heading == _HEADING else [])
        start += part.count("\n")
    return Learnings(tuple(_numbered(rows, faults)), tuple(faults))


def _items(part: str, start: int, faults: list[str]) -> Iterator[Entry]:
    bare = re.sub(_COMMENT, lambda comment: "\n" * comment[0].count("\n"), part)
    for at, row in enumerate(bare.split("\n"), start):
        head = re.match(_HEAD, row)
        if head and len(row) <= LONGEST:
            name, helpful, harmful = head.groups("0")
            said, _, retired = plain.line(row[head.end() :], LONGEST).partition(" | retired: ")
            text, _, when = said.partition(" | when: ")
            id = f"L{name}" if name != "0" else ""
            yield Entry(id, text, int(helpful), int(harmful), when, retired, at)
        elif row.strip() and not row.startswith("#"):
            faults.append(f"line {at + 1} is no entry, and not read: {plain.line(row, 40)}")


def _section(part: str) -> Iterator[Entry]:
    noted = dict[str, str](re.findall(_FIELD, " ".join(re.findall(_COMMENT, part))))
    heading, _, below = re.sub(_COMMENT, "", part).partition("\n")
    title, text = re.sub(_DATED, "", heading).strip(), plain.line(below, LONGEST)
    said = text if text.startswith(title.rstrip("…")) else f"{title}: {text}".removesuffix(": ")
    if said:
        votes = int(noted.get("helpful", 0)), int(noted.get("harmful", 0))
        more = noted.get("when", ""), noted.get("retired", "")
        yield Entry(noted.get("id", ""), plain.line(said, LONGEST), *votes, *more)


def _numbered(rows: Sequence[Entry], faults: list[str]) -> Iterator[Entry]:
    """Of two that say the same under one number, as a merge leaves them, the first counts."""
    by_id, ids = dict[str, Entry](), {entry.id for entry in rows}
    free = (name for n in itertools.count(1) if (name := f"L{n}") not in ids)
    for entry in rows:
        if twin := by_id.get(entry.id):
            faults.append(f"line {entry.at + 1}: {entry.id} stands there a second time")
        if twin and twin.words == entry.words:
            continue
        if twin or not entry.id:
            entry = replace(entry, id=next(free))
        by_id[entry.id] = entry
        yield entry


def numbers(entries: Iterable[Entry]) -> Iterator[str]:
    """Ids for new entries: above all that there are."""
    in_use = {int(entry.id[1:]) for entry in entries}
    return (f"L{n}" for n in itertools.count(max(in_use, default=0) + 1))


def counted(text: str, votes: Mapping[str, Sequence[int]]) -> str:
    """With these votes, helpful and harmful, by the id that an entry has in `text`."""
    lines = text.split("\n")
    for entry in parse(text).entries:
        if entry.id in votes and entry.at >= 0:
            head = "- {} +{} -{} ".format(entry.id, *votes[entry.id])
            lines[entry.at] = head + re.sub(_HEAD, "", lines[entry.at], count=1)
    return "\n".join(lines)


def appended(text: str, entries: Iterable[Entry]) -> str:
    """With these at the end, below `## Learnings`, and the line ends of the file."""
    end = "\r\n" if "\r\n" in text else "\n"
    new = "".join(entry.line + end for entry in entries)
    if not new:
        return text
    text += end if text and not text.endswith("\n") else ""
    if re.split(_SECTIONS, text)[-1].partition("\n")[0].rstrip() != _HEADING:
        text += (end if text else "") + _HEADING + end
    return text + (end if text.rstrip().endswith(_HEADING) else "") + new


def written(text: str, entries: Iterable[Entry]) -> str:
    """The file with these entries in the place of those that it has."""
    top, items = re.split(_SECTIONS, text)[0], {one.at for one in parse(text).entries}
    above = "\n".join(line for at, line in enumerate(top.split("\n")) if at not in items).rstrip()
    return appended(f"{above}\n" if above else "", entries)
