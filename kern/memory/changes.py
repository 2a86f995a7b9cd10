"""What a task changes in LEARNINGS.md: votes for the entries it was told, and its own. Pure."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kern import plain
from kern.memory import capture
from kern.memory.entries import Entry, comment, parse, renoted, swapped

_HIGHEST = 10**8  # of the numbers that ids are given from
Swap = tuple[str, str]  # an entry as it stands in the file, and as it is to stand there


@dataclass(frozen=True, slots=True)
class Taught:
    """What an implement stage said of the learnings."""

    learned: str = ""
    whole: bool = False  # an experiment's result: one entry, as it is
    overcame: bool = False  # an attempt had failed before
    told: Mapping[str, str] = field(default_factory=dict)  # the mark of each entry, by its id
    used: Sequence[str] = ()
    misled: Sequence[str] = ()
    commit: str = ""  # on top of which it worked


class Vote(NamedTuple):
    entry: str  # its id
    helpful: bool
    why: str


class Change(NamedTuple):
    bodies: tuple[str, ...] = ()  # of new entries, each with its comment
    swaps: tuple[Swap, ...] = ()
    votes: tuple[Vote, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()  # what is no entry, and why


def succeeded(text: str, taught: Taught, title: str) -> Change:
    """Of a task that passed its gates and is committed: what it used was helpful."""
    entries = parse(text)
    wrong = set(taught.misled)
    used = [name for name in taught.used if name not in wrong]
    votes = [Vote(name, True, "used") for name in dict.fromkeys(used)]
    votes += [Vote(name, False, "misled") for name in dict.fromkeys(taught.misled)]
    known = _resolved(entries, taught.told)
    cast = {known[vote.entry].id: vote for vote in votes if vote.entry in known}
    found = capture.lessons(taught.learned, overcame=taught.overcame)
    if taught.whole:
        found = capture.whole(taught.learned)
    refused = found.refused
    there = [capture.tokens(one.text) for one in entries if one.title == title]
    fresh: list[capture.Lesson] = []
    for lesson in found.kept:
        if capture.tokens(lesson.text) in there:
            continue  # a person committed it
        twin = None if taught.whole else capture.alike(lesson.text, entries)
        if twin is None or twin.id == "L0":
            fresh.append(lesson)
        elif twin.retired:
            refused = (*refused, (lesson.text, f"{twin.id} says so and is retired"))
        else:
            cast.setdefault(twin.id, Vote(twin.id, True, "learned again"))
    free = numbers(entries)
    bodies = [body(one, next(free), title, taught.commit) for one in fresh]
    return Change(tuple(bodies), _swaps(entries, cast), tuple(cast.values()), refused)


def failed(text: str, taught: Taught) -> Change:
    """Of an attempt that failed: what it went by was harmful."""
    entries = parse(text)
    known = _resolved(entries, taught.told)
    votes = [Vote(name, False, "misled") for name in taught.misled]
    votes += [Vote(name, False, "used, and the attempt failed") for name in taught.used]
    cast = {known[v.entry].id: v for v in reversed(votes) if v.entry in known}
    return Change((), _swaps(entries, cast), tuple(cast.values()))


def applied(text: str, swaps: Iterable[Swap]) -> str:
    """Each once, however often this is called."""
    for old, new in swaps:
        if swapped(text, new, "") == text:
            text = swapped(text, old, new)
    return text


def undone(text: str, swaps: Iterable[Swap]) -> str:
    for old, new in swaps:
        text = swapped(text, new, old)
    return text


def merged(old: str, text: str, new: str) -> tuple[str, list[str]]:
    """`text` with the votes that `new` has and `old` has not, and the entries that are to be
    appended: those that only `new` has. Line ends are those of `text`. Where nothing is known of
    before, `old` is empty, and the higher counts hold.
    """
    before, there = _by_words(old), _by_words(text)
    appended: list[str] = []
    for words, entry in _by_words(new).items():
        known, was = there.get(words), before.get(words)
        raw = plain.lf(entry.raw)
        if known is None:
            appended += [] if was else [raw]
        elif not old:
            helpful, harmful = max(known.helpful, entry.helpful), max(known.harmful, entry.harmful)
            if (helpful, harmful) != (known.helpful, known.harmful):
                both = replace(known, helpful=helpful, harmful=harmful)
                text = swapped(text, known.raw, renoted(both))
        elif was and plain.lf(known.raw) == plain.lf(was.raw) != raw:
            ends = "\r\n" if "\r\n" in known.raw else "\n"
            text = swapped(text, known.raw, raw.replace("\n", ends))
    return text, appended


def renumbered(text: str, added: Iterable[str]) -> list[str]:
    """Entries from elsewhere, with a number of their own where theirs is taken in `text`."""
    there = parse(text)
    taken, free = {entry.id for entry in there}, numbers(there)
    told: list[str] = []
    for raw in added:
        for entry in parse(raw)[:1]:
            if entry.noted and entry.id in taken:
                raw = renoted(replace(entry, id=next(free)))
        told.append(raw)
    return told


def _words(entry: Entry) -> tuple[str, str, str]:
    return entry.date, entry.title, entry.text


def _by_words(text: str) -> dict[tuple[str, str, str], Entry]:
    return {_words(entry): entry for entry in parse(text)}


def _resolved(entries: Sequence[Entry], told: Mapping[str, str]) -> dict[str, Entry]:
    """The entries that were told, as they stand by now: a person may have edited the file."""
    marks = {entry.mark: entry for entry in entries if entry.id != "L0"}
    return {name: marks[mark] for name, mark in told.items() if mark in marks}


def _swaps(entries: Sequence[Entry], votes: Mapping[str, Vote]) -> tuple[Swap, ...]:
    return tuple(
        (entry.raw, renoted(voted(entry, helpful=votes[entry.id].helpful)))
        for entry in entries
        if entry.id in votes
    )


def voted(entry: Entry, *, helpful: bool) -> Entry:
    return replace(entry, helpful=entry.helpful + helpful, harmful=entry.harmful + (not helpful))


def numbers(entries: Sequence[Entry]) -> Iterator[str]:
    """Ids for new entries: above all that there are."""
    taken = {int(entry.id[1:]) for entry in entries}
    highest = max(taken, default=0)
    start = highest if highest < _HIGHEST else 0
    return (f"L{n}" for n in itertools.count(start + 1) if n not in taken)


def body(lesson: capture.Lesson, name: str, title: str, commit: str = "") -> str:
    """What stands below the heading of a new entry."""
    task = title if commit else ""
    made = Entry(
        *(name, title, "", lesson.text, 1, "", lesson.kind),
        task=task,
        commit=commit[:7],
        when=lesson.when,
    )
    return f"{lesson.text}\n\n{comment(made)}"


def entry_of(text: str, wanted: str) -> Entry | None:
    """By its id, however it is written: L7, l7, 7."""
    name = f"L{wanted.lstrip('lL')}"
    return next((entry for entry in parse(text) if entry.id == name), None)
