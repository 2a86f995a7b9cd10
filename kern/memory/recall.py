"""Which entries a stage is told: all where they fit, else the best until the room is full. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kern.memory.entries import Entry

BUDGET = 2000  # tokens
IRRELEVANT = "not relevant"  # the reason of what has no word of the task
_CHARS_PER_TOKEN = 4


class Selection(NamedTuple):
    chosen: tuple[tuple[Entry, str], ...] = ()  # with the reason, the best first
    left_out: tuple[tuple[Entry, str], ...] = ()

    @property
    def texts(self) -> list[str]:
        return [shown(entry) for entry, _ in self.chosen]

    @property
    def tokens(self) -> int:
        return sum(cost(entry) for entry, _ in self.chosen)


NOTHING = Selection()


def shown(entry: Entry) -> str:
    """As a stage reads it: its number, by which the answer can name it, and its words."""
    return f"- {entry.id}: {entry.text}"


def cost(entry: Entry) -> int:
    """In tokens, with the line end after it."""
    return -(-(len(shown(entry)) + 1) // _CHARS_PER_TOKEN)


def told(entries: Sequence[Entry], query: str, room: int = BUDGET) -> Selection:
    """Within so many tokens, at most `BUDGET`. Where all fit, nobody searches."""
    room, fit = min(room, BUDGET), [entry for entry in entries if not entry.unwanted]
    whole = sum(map(cost, fit)) <= room
    order = fit if whole else nearest(fit, query)
    kept = filling(order, room)
    rank = {one.id: at for at, one in enumerate(order, 1)}
    chosen = [(one, "all fit" if whole else f"comes {rank[one.id]}. of {len(fit)}") for one in kept]
    names = {one.id for one in kept}
    rest = [one for one in entries if one.id not in names]
    why = [one.unwanted or ("no room" if one.id in rank else IRRELEVANT) for one in rest]
    return Selection(tuple(chosen), tuple(zip(rest, why, strict=True)))


def nearest(entries: Sequence[Entry], query: str) -> list[Entry]:
    """Those with a word of the query, the best first; of what comes as near, what helped more."""
    from kern.memory.search import ranked  # with SQLite: most runs need none

    texts = [f"{entry.text}\n{entry.when}" for entry in entries]
    worth = [entry.score for entry in entries]
    return [entries[at] for at in ranked(texts, query, worth)]


def filling(order: Iterable[Entry], room: int) -> list[Entry]:
    """As many of them as there is room for."""
    chosen = list[Entry]()
    for entry in order:
        if cost(entry) <= room:
            room -= cost(entry)
            chosen.append(entry)
    return chosen
