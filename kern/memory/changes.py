"""What a task changes in LEARNINGS.md: votes for the entries it was told, and its own. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kern.memory import capture
from kern.memory.entries import Entry, appended, counted, numbers, parse


class Taught(NamedTuple):
    """What an implement stage said of the learnings."""

    learned: str = ""
    experiment: str = ""  # its task: the result is one entry, as it is
    told: Mapping[str, str] = {}  # the text of each entry, by its id
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


def of(text: str, taught: Taught, *, failed: bool = False) -> Change:
    """Of a task that passed its gates and is committed: what it used was helpful. What an entry
    says already is a vote for it, or nothing where it is the same word for word. Of an attempt that
    failed: what it went by was harmful, and nothing is learned yet.
    """
    entries, fresh = parse(text).entries, list[Entry]()
    cast, free = _cast(entries, taught, failed), numbers(entries)
    for lesson, when, wrong in () if failed else capture.lessons(taught.learned, taught.experiment):
        new = Entry("", lesson, when=when)
        twin = None if taught.experiment else capture.alike(lesson, entries)
        if wrong or any(one.words == new.words for one in (*entries, *fresh)):
            continue
        if twin:
            cast.setdefault(twin.id, Vote(twin.id, True, "learned again"))
        else:
            fresh.append(replace(new, id=next(free)))
    voted = {
        one.id: (one.helpful + cast[one.id].helpful, one.harmful + (not cast[one.id].helpful))
        for one in entries
        if one.id in cast
    }
    return Change(appended(counted(text, voted), fresh), tuple(fresh), tuple(cast.values()))


def _cast(entries: Sequence[Entry], taught: Taught, failed: bool) -> dict[str, Vote]:
    """One for each entry that was told and still says that, by its id now."""
    now = {entry.text: entry.id for entry in entries if entry.at >= 0}
    ids = {name: now[text] for name, text in taught.told.items() if text in now}
    why = "used, and the attempt failed" if failed else "used"
    votes = [Vote(name, not failed, why) for name in taught.used]
    votes += [Vote(name, False, "misled") for name in taught.misled]  # which counts for more
    return {ids[one.entry]: one._replace(entry=ids[one.entry]) for one in votes if one.entry in ids}


def merged(text: str, before: str, after: str) -> str:
    """`text` with what `after` has more than `before`: entries, under numbers that are free here,
    and votes, of which the higher counts hold. Twice is once.
    """
    here, old = ({one.words: one for one in parse(one).entries} for one in (text, before))
    fresh, votes, free = list[Entry](), dict[str, tuple[int, int]](), numbers(here.values())
    for entry in parse(after).entries:
        twin = here.get(entry.words)
        if twin and entry != old.get(entry.words):
            votes[twin.id] = max(twin.helpful, entry.helpful), max(twin.harmful, entry.harmful)
        elif not twin and entry.words not in old:
            fresh.append(replace(entry, id=next(free)))
    return appended(counted(text, votes), fresh)
