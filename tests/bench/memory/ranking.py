"""How much of what belongs to a task is told, and how much that does not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from kern.memory import recall, search
from kern.memory.entries import Entry
from kern.memory.recall import cost
from tests.bench.measuring import Row
from tests.bench.memory import bundled
from tests.bench.memory.bundled import Task

LEAST = {"research": 0.78, "implement": 0.90}  # of what belongs is told, by words alone


class Setting(StrEnum):
    """Which stage asks, and whether the entries say when they are needed."""

    RESEARCH = "research"
    IMPLEMENT = "implement"
    BARE_RESEARCH = "research, without `when`"
    BARE_IMPLEMENT = "implement, without `when`"


class Arm(StrEnum):
    NEWEST = "newest first"
    WORDS = "words"
    BOTH = "words and meaning"


@dataclass(frozen=True, slots=True)
class Figures:
    reached: float  # of what belongs, the part that is told
    tokens: float  # told, for each task
    irrelevant: float  # of these, of entries that do not belong

    def shown(self) -> str:
        return (
            f"{self.reached:.2f} of what belongs is told in {self.tokens:.0f} tokens,"
            f" {self.irrelevant:.0f} of them of no use"
        )


def halves() -> tuple[frozenset[str], frozenset[str]]:
    """The texts of every second task, and of the others: one half to choose by, one to report."""
    every = [{task.text, task.researched().text} for task in bundled.combined().tasks]
    return frozenset().union(*every[::2]), frozenset().union(*every[1::2])


def table(budget: int = recall.BUDGET) -> dict[tuple[Setting, Arm], Figures]:
    """All learnings in one file, asked by the half of the tasks that nothing was chosen by."""
    arms = [*Arm] if search.vectors() else [Arm.NEWEST, Arm.WORDS]
    return {(setting, arm): figures(setting, arm, budget) for setting in Setting for arm in arms}


def figures(setting: Setting, arm: Arm, budget: int) -> Figures:
    bundle = bundled.combined(bare="without" in setting)
    bundle = bundle.researched() if "implement" in setting else bundle
    asked = [task for task in bundle.tasks if task.text in halves()[1]]
    found = [told(bundle.entries, task, arm, budget) for task in asked]
    pairs = list(zip(asked, found, strict=True))
    return Figures(
        fmean(
            len(task.belong & {one.id for one in ours}) / len(task.belong)
            for task, ours in pairs
            if task.belong
        ),
        fmean(sum(map(cost, ours)) for _, ours in pairs),
        fmean(sum(cost(one) for one in ours if one.id not in t.belong) for t, ours in pairs),
    )


def told(entries: Sequence[Entry], task: Task, arm: Arm, budget: int) -> list[Entry]:
    some = [entry for entry in entries if not entry.unwanted]
    order = some[::-1]
    if arm is not Arm.NEWEST:
        order = recall.nearest(some, task.text, meaning=arm is Arm.BOTH)
    return recall.filling(order, budget)


def rows() -> Iterator[Row]:
    """For `python -m tests.bench learnings`."""
    for (setting, arm), one in table().items():
        least = LEAST.get(setting) if arm is not Arm.NEWEST else None
        bound = f"≥ {least} told" if least else ""
        met = one.reached >= least if least else None
        yield Row(f"learnings, {setting}: {arm}", one.shown(), bound, met)
