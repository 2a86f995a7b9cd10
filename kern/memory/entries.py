"""LEARNINGS.md as entries: a heading, a text, and in one comment what kern counted of it. Pure."""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

from kern import plain

PREAMBLE = "kern appends entries; edit them freely"  # in what kern init writes
HARMFUL_AT = 2  # harmful votes from which a low score counts as proven
_PROVEN = 0.4  # the score of 1 helpful, 2 harmful
_LONGEST = 120  # characters of a task's text or a reason in the comment
LONGEST_WHEN = 240  # characters of the kinds of work that need it
_HEADING = r"## +(\S.*)"
_DATED = r"(\d{4}-\d\d-\d\d) +[-\u2013\u2014] +(\S.*)"
_FENCE = r" {0,3}(`{3,}(?=[^`]*$)|~{3,})"
_NOTE = r"\s*<!--\s*kern:\s*(.*?)\s*-->\s*"
_BEGUN = r"\s*<!--\s*kern:"
_FIELD = r'([a-z]+)=(?:"([^"]*)"|([^\s"]+))(?:\s+|$)'
_ID = re.compile(r"L[1-9]\d{0,8}")
_COUNT = re.compile(r"\d{1,9}")
_SAID = ("retired", "why", "when")  # in words, where there is anything to say
_OURS = ("id", "kind", "helpful", "harmful", "commit", "task", *_SAID)
_MARKERS = r"(?:<{7}|>{7}|\|{7})(?: .*)?|={7}"


class Kind(StrEnum):
    """What an entry is."""

    DECISION = "decision"  # made once, to be kept
    PATTERN = "pattern"  # how something is done here
    INSIGHT = "insight"  # a fact that the code does not show
    SIGN = "sign"  # what goes wrong, and what helps


@dataclass(frozen=True, slots=True)
class Entry:
    """One section. `raw` is its exact text in the file, from the heading to its last line."""

    id: str  # L7; L0 is what stands before the first heading
    title: str
    date: str  # 2026-11-22, or empty
    text: str  # without heading and comment, harmless for a terminal
    line: int  # 1-based, of its heading
    raw: str
    kind: Kind = Kind.INSIGHT
    helpful: int = 0
    harmful: int = 0
    task: str = ""  # that taught it
    commit: str = ""  # on top of which it was learned
    retired: str = ""  # why a person took it out of use
    why: str = ""  # what a person said of it last
    when: str = ""  # the kinds of work that need it, in a task's words: it is found by them
    noted: bool = False  # it has a comment of kern's
    faults: tuple[str, ...] = ()  # what is wrong with it, in words

    @property
    def score(self) -> float:
        """The mean of the Beta distribution after the votes: 0.5 where there are none."""
        return (self.helpful + 1) / (self.helpful + self.harmful + 2)

    @property
    def mark(self) -> str:
        """By which it is known again while a stage works, whatever else is edited."""
        told = f"{self.title}\0{self.text}".encode("utf-8", "surrogateescape")
        return hashlib.blake2b(told, digest_size=6).hexdigest()

    @property
    def unwanted(self) -> str:
        """Why it is never told to an agent, in words; empty for one that may be."""
        if self.retired:
            return f"retired: {self.retired}"
        if self.harmful >= HARMFUL_AT and self.score <= _PROVEN:
            return f"harmful: {self.votes}"
        return ""

    @property
    def votes(self) -> str:
        return f"{self.helpful} helpful, {self.harmful} harmful"


# ---------------------------------------------------------------- reading


def parse(text: str) -> list[Entry]:
    """The entries in the order of the file. Never raises: what is damaged is read as far as it
    goes, and `faults` says so. Entries without an id of their own get the free numbers in order.
    """
    found: list[Entry] = []
    seen: dict[str, int] = {}  # where in `found` each id stands
    for entry in _sections(text):
        twin = found[seen[entry.id]] if entry.id in seen else None
        if twin is None:
            seen |= {entry.id: len(found)} if entry.id else {}
            found.append(entry)
        elif (twin.title, twin.text) == (entry.title, entry.text):  # a merge kept both sides
            found[seen[entry.id]] = _joined(twin, entry)
        else:
            told = f"line {entry.line}: {entry.id} stands for two entries; this is the later one"
            found.append(replace(entry, id="", faults=(*entry.faults, told)))
    free = (f"L{n}" for n in range(1, 2 * len(found) + 1) if f"L{n}" not in seen)
    return [entry if entry.id else replace(entry, id=next(free)) for entry in found]


def faults(entries: Sequence[Entry]) -> list[str]:
    """What is wrong in the file, each with its line."""
    return [fault for entry in entries for fault in entry.faults]


def _joined(one: Entry, other: Entry) -> Entry:
    return replace(
        one,
        helpful=max(one.helpful, other.helpful),
        harmful=max(one.harmful, other.harmful),
        retired=one.retired or other.retired,
        faults=(*one.faults, f"line {other.line}: {one.id} stands here a second time"),
    )


def _sections(text: str) -> Iterator[Entry]:
    lines = text.split("\n")
    starts = [
        at for at, free in enumerate(_outside(lines)) if free and re.match(_HEADING, lines[at])
    ]
    edges = [*starts, len(lines)]
    marked = _conflicts(lines)
    if (first := _preamble(lines[: edges[0]])) is not None:
        yield first
    for begin, end in pairwise(edges):
        ours = marked[bisect_left(marked, begin) : bisect_left(marked, end)]
        yield _entry(lines[begin:end], begin + 1, {at - begin for at in ours})


def _outside(lines: Sequence[str]) -> list[bool]:
    """Which lines stand in no code block and in no comment. What is never closed is no block: one
    damaged entry does not swallow those below.
    """
    bare = [line.strip() for line in lines]
    closes: dict[str, list[int]] = {"`": [0], "~": [0]}  # the longest fence from here on
    for line in reversed(bare):
        for mark, longest in closes.items():
            fence = len(line) if line and not line.strip(mark) else 0
            longest.append(max(longest[-1], fence))
    for longest in closes.values():
        longest.reverse()
    comments = max((at for at, line in enumerate(lines) if _ends(line)), default=-1)
    flags: list[bool] = []
    until = ""
    for at, line in enumerate(lines):
        flags.append(not until)
        if until == "-->":
            until = "" if _ends(line) else until
        elif until:
            until = "" if bare[at].startswith(until) and not bare[at].strip(until[0]) else until
        elif opening := re.match(_FENCE, line):
            until = opening[1] if closes[opening[1][0]][at + 1] >= len(opening[1]) else ""
        elif bare[at].startswith("<!--") and "-->" not in line and not is_note(line):
            until = "-->" if comments > at else ""
    return flags


def _ends(line: str) -> bool:
    """Whether a comment of several lines ends here: one that begins here is another."""
    return "-->" in line and "<!--" not in line


def _preamble(lines: Sequence[str]) -> Entry | None:
    """What stands before the first heading, where a person wrote it."""
    own = unmarked("\n".join(lines))
    shown = re.sub(r"<!--.*?-->|^# [^\n]*", "", own, flags=re.S | re.M).strip()
    if not shown or (PREAMBLE in shown and len(shown) < 2 * _LONGEST):
        return None
    raw = "\n".join(lines).strip()
    line = next(at for at, one in enumerate(lines, 1) if one.strip())
    return Entry("L0", "", "", plain.block(raw).strip(), line, raw)


def _conflicts(lines: Sequence[str]) -> list[int]:
    """Where an unfinished merge left its marks; `=======` alone may underline a heading."""
    found: list[int] = []
    within = False
    for at, line in enumerate(lines):
        bare = line.rstrip("\r")
        if re.fullmatch(_MARKERS, bare) and (within or bare[0] != "="):
            found.append(at)
            within = bare[0] != ">"
    return found


def unmarked(text: str) -> str:
    """Both sides of an unfinished merge, without its marks."""
    lines = text.split("\n")
    gone = {*_conflicts(lines)}
    return "\n".join(line for at, line in enumerate(lines) if at not in gone)


def _entry(lines: Sequence[str], at: int, marked: Collection[int]) -> Entry:
    heading = plain.line(lines[0][2:], 10_000)
    dated = re.fullmatch(_DATED, heading)
    date, title = (dated[1], dated[2]) if dated else ("", heading)
    kept: list[str] = []
    faults: list[str] = []
    notes: list[dict[str, str]] = []
    last = max(number for number, line in enumerate(lines, 1) if line.strip())
    for number, line in enumerate(lines[1:], at + 1):
        bare = line.rstrip("\r")
        if number - at in marked:
            if not any("unfinished" in fault for fault in faults):
                faults.append(f"line {number}: an unfinished merge; both sides count")
        elif is_note(bare):
            fields, whole = _fields(bare)
            notes.append(fields)
            if not whole:
                faults.append(f"line {number}: a damaged comment of kern's, read as far as it goes")
        else:
            kept.append(line)
    entry = Entry(
        *("", title, date, plain.block("\n".join(kept)).strip(), at),
        raw="\n".join(lines[:last]).removesuffix("\r"),
        task=title if any(note.get("commit") for note in notes) else "",
        faults=tuple(faults),
    )
    for note in notes:
        entry = _with(entry, note)
    return entry


def _fields(line: str) -> tuple[dict[str, str], bool]:
    """What a comment says, and whether it says nothing else."""
    whole = re.fullmatch(_NOTE, line)
    rest = whole[1] if whole else line[_begin(line) :].partition("-->")[0]
    fields = {field[1]: field[2] or field[3] or "" for field in re.finditer(_FIELD, rest)}
    sound = all(
        form.fullmatch(fields[name])
        for name, form in (("id", _ID), ("helpful", _COUNT), ("harmful", _COUNT))
        if name in fields
    )
    sound = sound and fields.get("kind", Kind.INSIGHT) in [*Kind]
    return fields, bool(whole) and "id" in fields and sound and not re.sub(_FIELD, "", rest).strip()


def is_note(line: str) -> bool:
    """Whether the line is a comment of kern's, be it damaged."""
    return bool(_begin(line))


def _begin(line: str) -> int:
    found = re.match(_BEGUN, line)
    return found.end() if found else 0


def _with(entry: Entry, note: Mapping[str, str]) -> Entry:
    """Of two comments, as a merge leaves them, the higher counts hold."""

    def count(name: str, known: int) -> int:
        value = note.get(name, "")
        return max(known, int(value)) if _COUNT.fullmatch(value) else known

    own = note.get("id", "")
    kind = note.get("kind", "")
    said: Any = {name: note[name] for name in ("task", "commit", *_SAID) if note.get(name)}
    return replace(
        entry,
        id=entry.id or (own if _ID.fullmatch(own) else ""),
        kind=Kind(kind) if kind in [*Kind] else entry.kind,
        helpful=count("helpful", entry.helpful),
        harmful=count("harmful", entry.harmful),
        noted=True,
        **said,
    )


# ---------------------------------------------------------------- writing


def comment(entry: Entry, known: Mapping[str, str] | None = None) -> str:
    """The one line below an entry that kern writes; `known`: what it says by now."""
    fields = {"id": entry.id, "kind": str(entry.kind)}
    fields |= {"helpful": str(entry.helpful), "harmful": str(entry.harmful)}
    fields |= {"commit": entry.commit} if entry.commit else {}
    if entry.task and (entry.task != entry.title or not entry.commit):
        fields["task"] = entry.task
    fields |= {name: said for name in _SAID if (said := getattr(entry, name))}
    fields |= {name: text for name, text in (known or {}).items() if name not in _OURS}
    told = " ".join(f"{name}={_value(name, text)}" for name, text in fields.items())
    return f"<!-- kern: {told} -->"


def _value(name: str, text: str) -> str:
    if re.fullmatch(r"[\w.-]+", text):
        return text
    told = plain.line(text, LONGEST_WHEN if name == "when" else _LONGEST)
    safe = re.sub("-{2,}>", "->", re.sub("<!-{2,}", "<!-", told.replace('"', "'")))
    return f'"{safe}"'


def renoted(entry: Entry) -> str:
    """The entry's text in the file with the comment that its values ask for: in the place of the
    one that it has, else below it. A comment that cannot be read whole stays as it is.
    """
    lines = entry.raw.split("\n")
    end = "\r" if len(lines) > 1 and lines[0].endswith("\r") else ""
    places = [at for at, line in enumerate(lines) if is_note(line)]
    read = [(at, *_fields(lines[at].rstrip("\r"))) for at in places]
    if sound := [(at, fields) for at, fields, whole in read if whole]:
        at, fields = sound[-1]
        lines[at] = comment(entry, fields) + (end if at < len(lines) - 1 else "")
        return "\n".join(lines)
    gap = [] if places and places[-1] == len(lines) - 1 else [end]
    return "\n".join([*lines[:-1], lines[-1] + end, *gap, comment(entry)])


def swapped(text: str, old: str, new: str) -> str:
    """`text` with one entry, given whole, in another form; unchanged where it does not stand."""
    at = text.find(old) if old else -1
    while at >= 0:
        end = at + len(old)
        if (at == 0 or text[at - 1] == "\n") and text[end : end + 1] in ("", "\n", "\r"):
            return text[:at] + new + text[end:]
        at = text.find(old, at + 1)
    return text
