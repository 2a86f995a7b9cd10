"""Which entries a stage is told: the most useful ones that fit, none that is not relevant. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kern.memory.entries import Entry

IRRELEVANT = "not relevant"  # begins the reason of what no search found near enough
_CHARS_PER_TOKEN = 4
# A path of the repository: folders and a file with an extension, no URL, no pattern.
_PATH = r"(?<![\w./~:@$%*<{-])((?:[\w.-]+/)+[\w-][\w.-]*\.[A-Za-z]\w{0,9})(?![\w/*<{])"


@dataclass(frozen=True, slots=True)
class Told:
    """One entry that was chosen, and why."""

    entry: Entry
    worth: float  # score times relevance; 0 where nothing had to be chosen
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    chosen: tuple[Told, ...] = ()  # the most useful first; in the file's order where all fit
    left_out: tuple[tuple[Entry, str], ...] = ()  # with the reason, in the file's order
    tokens: int = 0  # of what is chosen
    remark: str = ""  # what hindered the search

    @property
    def texts(self) -> list[str]:
        return [shown(told.entry) for told in self.chosen]


NOTHING = Selection()


def shown(entry: Entry) -> str:
    """As a stage reads it: its number, by which the answer can name it, and its words."""
    if not entry.title:
        return entry.text
    dated = f"{entry.date} - " if entry.date else ""
    return f"## {entry.id} - {dated}{entry.title}\n{entry.text}".rstrip()


def cost(entry: Entry) -> int:
    """In tokens, with the line end after it."""
    return -(-(len(shown(entry)) + 1) // _CHARS_PER_TOKEN)


def select(
    entries: Sequence[Entry],
    relevance: Mapping[str, float] | None,
    budget: int,
    *,
    least: float = 0.0,
    gone: Mapping[str, str] | None = None,
) -> Selection:
    """`relevance`: 0 to 1 by id, as a search for the task found it; None where nobody searched,
    which is enough where all entries fit into `budget` tokens: then all are told, in the file's
    order. `least`: the relevance below which an entry says nothing about the task. `gone`: by id,
    the file that an entry names and the repository lost.
    """
    gone = gone or {}
    out = {entry.id: entry.unwanted for entry in entries}
    for name, path in gone.items():
        out[name] = out.get(name) or f"names {path}, which is gone"
    fit = [entry for entry in entries if not out[entry.id]]
    if sum(map(cost, fit)) <= budget:
        chosen = [Told(entry, 0.0, "all fit") for entry in fit]
    else:
        chosen = _ranked(fit, relevance or {}, budget, least, out)
    left = tuple((entry, out[entry.id]) for entry in entries if out[entry.id])
    return Selection(tuple(chosen), left, sum(cost(told.entry) for told in chosen))


def fits(entries: Iterable[Entry], budget: int) -> bool:
    """Whether all that may be told fit: then nobody need search."""
    return sum(cost(entry) for entry in entries if not entry.unwanted) <= budget


def _ranked(
    entries: Sequence[Entry],
    relevance: Mapping[str, float],
    budget: int,
    least: float,
    out: dict[str, str],
) -> list[Told]:
    """Greedy: the most useful that fits, again and again; of equals the newer."""
    worth: dict[str, tuple[float, int]] = {}
    known: dict[str, Entry] = {}
    for at, entry in enumerate(entries):
        found = relevance.get(entry.id, 0.0)
        if not found or found < least:
            out[entry.id] = f"{IRRELEVANT} enough" if found else IRRELEVANT
        else:
            worth[entry.id] = (entry.score * found, at)
            known[entry.id] = entry
    chosen: list[Told] = []
    while worth:
        best = max(worth, key=lambda name: worth[name])
        value, _ = worth.pop(best)
        entry = known[best]
        if cost(entry) > budget:
            out[best] = "no room"
            continue
        budget -= cost(entry)
        why = f"score {entry.score:.2f}, relevance {relevance[best]:.2f}"
        chosen.append(Told(entry, value, why))
    return chosen


def paths(text: str) -> list[str]:
    """The files that an entry names, as paths of the repository."""
    found = (match[1].removeprefix("./") for match in re.finditer(_PATH, text))
    return list(dict.fromkeys(path for path in found if ".." not in path.split("/")))
