"""How well the entries that belong to a task are found, and how many that do not."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from kern.memory import chunks, search, vectors
from kern.memory.entries import Entry
from kern.memory.index import Index, using
from kern.memory.search import Mode
from kern.memory.select import cost
from kern.memory.vectors import Model
from tests.bench.measuring import Row
from tests.bench.memory import bundled
from tests.bench.memory.bundled import Bundle, Task

BUDGET = 2000  # tokens, as research has them
MOST_WRONG = 0.2  # entries for each task to which none belongs
_TOP, _DEEP = 5, 10


class Setting(StrEnum):
    """Which entries there are, and which stage asks."""

    RESEARCH = "each project, research"
    IMPLEMENT = "each project, implement"
    ALL_RESEARCH = "all in one file, research"
    ALL_IMPLEMENT = "all in one file, implement"
    BARE_RESEARCH = "each project without `when`, research"
    BARE_IMPLEMENT = "each project without `when`, implement"


class Arm(StrEnum):
    NEWEST = "newest first"
    FTS = "words"
    VECTORS = "meaning"
    HYBRID = "both, by rank"
    SCORED = "both, times score"


@dataclass(frozen=True, slots=True)
class Ranked:
    """What an arm makes of one task: the order of all that it finds, and how relevant each is."""

    task: Task
    entries: Sequence[Entry]
    order: tuple[str, ...]  # ids
    relevance: Mapping[str, float]

    def recall(self) -> float:
        found = len(self.task.belong & {*self.order[:_TOP]})
        return found / min(_TOP, len(self.task.belong))

    def gain(self) -> float:
        """nDCG."""
        ideal = sum(map(_discount, range(min(_DEEP, len(self.task.belong)))))
        hits = (at for at, name in enumerate(self.order[:_DEEP]) if name in self.task.belong)
        return sum(map(_discount, hits)) / ideal

    def told(self, least: float) -> list[Entry]:
        """What a stage would be told, were the room too small for all: in this order, what is
        relevant enough and fits.
        """
        known = {entry.id: entry for entry in self.entries}
        room, kept = BUDGET, []
        for name in self.order:
            size = cost(known[name])
            if self.relevance[name] >= least and size <= room:
                room -= size
                kept.append(known[name])
        return kept


@dataclass(frozen=True, slots=True)
class Figures:
    recall: float  # of the first five
    gain: float  # nDCG of the first ten
    tokens: float  # told, for each task
    reached: float  # of what belongs, the part that is told
    wrong: float  # entries told in each task to which none belongs
    least: float  # the relevance that was asked for

    def shown(self) -> str:
        return (
            f"recall@5 {self.recall:.2f}, nDCG@10 {self.gain:.2f}; told {self.tokens:.0f} tokens,"
            f" {self.reached:.2f} of what belongs, {self.wrong:.1f} wrong where none does"
            f" (relevance ≥ {self.least:.2f})"
        )


def _discount(at: int) -> float:
    return 1 / math.log2(at + 2)


def halves() -> tuple[frozenset[str], frozenset[str]]:
    """The texts of every second task, and of the others: one half to choose by, one to report."""
    every = [{task.text, task.researched().text} for task in bundled.combined().tasks]
    return frozenset().union(*every[::2]), frozenset().union(*every[1::2])


def bundles(setting: Setting) -> list[Bundle]:
    bare = "without" in setting
    every = [bundled.combined(bare=bare)] if "all" in setting else bundled.projects(bare=bare)
    return [one.researched() for one in every] if "implement" in setting else every


def ranked(bundles: Iterable[Bundle], arm: Arm, model: Model | None) -> list[Ranked]:
    """Each task of each bundle, against that bundle's entries."""
    return [one for bundle in bundles for one in _of(bundle, arm, model)]


def _of(bundle: Bundle, arm: Arm, model: Model | None) -> list[Ranked]:
    def look(index: Index) -> list[Ranked]:
        index.refresh([chunks.learnings(bundle.learnings.encode())], all_of_them=True)
        return [_task(index, bundle, task, arm, model) for task in bundle.tasks]

    return using(None, look)[0]


def _task(index: Index, bundle: Bundle, task: Task, arm: Arm, model: Model | None) -> Ranked:
    if arm is Arm.NEWEST:
        found = {entry.id: 1.0 for entry in reversed(bundle.entries)}
        return Ranked(task, bundle.entries, tuple(found), found)
    if arm is Arm.SCORED:
        found = search.relevance(index, task.text, model, chunks.KINDS)
        worth = {
            entry.id: (entry.score * found[entry.id], at)
            for at, entry in enumerate(bundle.entries)
            if found.get(entry.id) and not entry.unwanted
        }
        order = sorted(worth, key=lambda name: worth[name], reverse=True)
        return Ranked(task, bundle.entries, tuple(order), found)
    mode = {Arm.FTS: Mode.FTS, Arm.VECTORS: Mode.SEMANTIC, Arm.HYBRID: Mode.HYBRID}[arm]
    hits = search.search(index, task.text, model, mode=mode, limit=2 * _DEEP)
    found = {hit.chunk.key: hit.relevance for hit in hits}
    return Ranked(task, bundle.entries, tuple(found), found)


def fitted(found: Sequence[Ranked]) -> float:
    """The least relevance with which no entry is told where none belongs."""
    none = (one for one in found if not one.task.belong)
    seen = (round(value, 4) for one in none for value in one.relevance.values())
    most = max(seen, default=0.0)
    return (math.floor(most * 100) + 1) / 100 if most else 0.0


def figures(found: Sequence[Ranked], least: float) -> Figures:
    some = [one for one in found if one.task.belong]
    none = [one for one in found if not one.task.belong]
    told = {one.task.text: one.told(least) for one in found}
    return Figures(
        fmean(one.recall() for one in some),
        fmean(one.gain() for one in some),
        fmean(sum(map(cost, entries)) for entries in told.values()),
        fmean(
            len(one.task.belong & {entry.id for entry in told[one.task.text]})
            / len(one.task.belong)
            for one in some
        ),
        fmean(len(told[one.task.text]) for one in none),
        least,
    )


def table(model: Model | None) -> dict[tuple[Setting, Arm], Figures]:
    """By setting and arm, of the half that nothing was chosen by. Each arm's threshold comes from
    the other half, for each stage that asks, all learnings in one file: where all fit, nobody
    chooses.
    """
    chosen, told = halves()
    found: dict[tuple[Setting, Arm], Figures] = {}
    for arm in [*Arm] if model else [Arm.NEWEST, Arm.FTS]:
        least = {
            setting.partition(", ")[2]: threshold(setting, arm, model, chosen)
            for setting in (Setting.ALL_RESEARCH, Setting.ALL_IMPLEMENT)
        }
        for setting in Setting:
            rows = [one for one in ranked(bundles(setting), arm, model) if one.task.text in told]
            found[setting, arm] = figures(rows, least[setting.partition(", ")[2]])
    return found


def threshold(setting: Setting, arm: Arm, model: Model | None, among: frozenset[str]) -> float:
    if arm is Arm.NEWEST:
        return 0.0
    return fitted([one for one in ranked(bundles(setting), arm, model) if one.task.text in among])


def rows() -> Iterator[Row]:
    """For `python -m tests.bench learnings`."""
    model = vectors.load()
    if model is None:
        yield Row("learnings by meaning", "needs kern[semantic]")
    found = table(model)
    for (setting, arm), one in found.items():
        bound, met = "", None
        if arm is Arm.SCORED:
            newest, words = found[setting, Arm.NEWEST].recall, found[setting, Arm.FTS].recall
            wanted = max(0.85, newest + 0.35, words + 0.05)
            bound = f"recall@5 ≥ {wanted:.2f}, wrong ≤ {MOST_WRONG}"
            met = one.recall >= wanted and one.wrong <= MOST_WRONG
        yield Row(f"learnings, {setting}: {arm}", one.shown(), bound, met)
