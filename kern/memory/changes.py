"""What a task changes in LEARNINGS.md: votes for the entries it was told, and its own. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kern.memory import capture
from kern.memory.entries import Entry, appended, counted, numbers, parse


@dataclass(frozen=True, slots=True)
class Taught:
    """What an implement stage said of the learnings."""

    learned: str = ""
    experiment: str = ""  # its task: the result is one entry, as it is
    told: Mapping[str, str] = field(default_factory=dict)  # the text of each entry, by its id
    used: Sequence[str] = ()
    misled: Sequence[str] = ()


class Vote(NamedTuple):
    entry: str  # its id
    helpful: bool
    why: str


class Change(NamedTuple):
    text: str  # LEARNINGS.md with it
    new: tuple[Entry, ...] = ()
    votes: tuple[Vote, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()  # what is no entry, and why


def succeeded(text: str, taught: Taught) -> Change:
    """Of a task that passed its gates and is committed: what it used was helpful. What an entry
    says already is a vote for it, or nothing where it is the same word for word.
    """
    entries = parse(text).entries
    votes = [Vote(name, False, "misled") for name in taught.misled]
    votes += [Vote(name, True, "used") for name in taught.used]
    cast = _cast(entries, taught, votes)
    found, refused = captured(taught)
    fresh, free = list[Entry](), numbers(entries)
    for text_of, when in found:
        new = Entry("", text_of, when=when)
        twin = None if taught.experiment else capture.alike(text_of, entries)
        if any(one.words == new.words for one in entries):
            continue
        if twin is None:
            fresh.append(replace(new, id=next(free)))
        elif twin.retired:
            refused = (*refused, (text_of, f"{twin.id} says so and is retired"))
        else:
            cast.setdefault(twin.id, Vote(twin.id, True, "learned again"))
    whole = appended(_voted(text, entries, cast), fresh)
    return Change(whole, tuple(fresh), tuple(cast.values()), refused)


def captured(taught: Taught) -> capture.Captured:
    if not taught.experiment:
        return capture.lessons(taught.learned)
    named = f"{taught.experiment}: {taught.learned}" if taught.learned else ""
    return capture.whole(named)


def failed(text: str, taught: Taught) -> Change:
    """Of an attempt that failed: what it went by was harmful."""
    entries = parse(text).entries
    votes = [Vote(name, False, "misled") for name in taught.misled]
    votes += [Vote(name, False, "used, and the attempt failed") for name in taught.used]
    cast = _cast(entries, taught, votes)
    return Change(_voted(text, entries, cast), votes=tuple(cast.values()))


def _cast(entries: Sequence[Entry], taught: Taught, votes: Sequence[Vote]) -> dict[str, Vote]:
    """One for each entry that was told and still says that, the first of them; by its id now."""
    now = {entry.text: entry.id for entry in entries}
    ids = {name: now[text] for name, text in taught.told.items() if text in now}
    cast = dict[str, Vote]()
    for vote in votes:
        if vote.entry in ids:
            cast.setdefault(ids[vote.entry], vote._replace(entry=ids[vote.entry]))
    return cast


def _voted(text: str, entries: Sequence[Entry], cast: Mapping[str, Vote]) -> str:
    new = dict[str, Entry]()
    for one in entries:
        if vote := cast.get(one.id):
            harmful = one.harmful + (not vote.helpful)
            new[one.id] = replace(one, helpful=one.helpful + vote.helpful, harmful=harmful)
    return counted(text, new)


def merged(text: str, before: str, after: str) -> str:
    """`text` with what `after` has more than `before`: entries, under numbers that are free here,
    and votes, of which the higher counts hold. Twice is once.
    """
    here, old = ({one.words: one for one in parse(one).entries} for one in (text, before))
    free, fresh, votes = numbers(here.values()), list[Entry](), dict[str, Entry]()
    for entry in parse(after).entries:
        known, was = here.get(entry.words), old.get(entry.words)
        if known is None and was is None:
            taken = any(entry.id == one.id for one in (*here.values(), *fresh))
            fresh.append(replace(entry, id=next(free)) if taken else entry)
        elif known and (
            was is None or (was.helpful, was.harmful) != (entry.helpful, entry.harmful)
        ):
            most = max(known.helpful, entry.helpful), max(known.harmful, entry.harmful)
            votes[known.id] = replace(known, helpful=most[0], harmful=most[1])
    return appended(counted(text, votes), fresh)
