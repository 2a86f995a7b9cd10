"""What finding learnings costs at 20,000 entries, in processor time, and how much of what belongs
to a task is told of learnings.jsonl: those of seven made-up projects in one file, then tasks.

Who belongs to what was decided by reading alone, before anything ranked them: an entry belongs to a
task where a person who did the task without it would probably get something wrong. So tasks speak
as SPEC.md does, and seldom in the words of what they need. The `when` of an entry was written by
somebody who saw no task, and the research of a task by somebody who saw no entry.

Whoever changes a ranking leaves that file alone; a mistake in it is corrected by its own reading,
never by what a ranking finds. Every second task is for choosing; the others are what is reported.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kern.memory import recall, search
from kern.memory.entries import Entry, appended, parse
from tests.bench.measuring import Row, row

SET = Path(__file__).with_suffix(".jsonl")
MANY = 20_000
LEAST = {"research": 0.78, "implement": 0.90}  # of what belongs is told, by words alone
VECTORS = search.vectors
ARMS = ("newest first", "words", "words and meaning")


@dataclass(frozen=True, slots=True)
class Task:
    text: str  # as it stands in SPEC.md
    research: str
    belong: frozenset[str]  # its entries; empty where none belongs

    def asked(self, stage: str) -> str:
        return self.text if stage == "research" else f"{self.text}\n\n{self.research}"


def rows(folder: Path) -> Iterator[Row]:
    entries, tasks = bundled()
    yield from speed(entries, tasks[3].asked("implement"))
    for stage, least in LEAST.items():
        for arm in ARMS if VECTORS() else ARMS[:2]:
            reached, said = figures(entries, tasks[1::2], stage, arm)
            bound = f"≥ {least} told" if arm != ARMS[0] else ""
            met = reached >= least if bound else None
            yield Row(f"learnings, {stage}: {arm}", said, bound, met)


def bundled() -> tuple[tuple[Entry, ...], list[Task]]:
    records = [json.loads(line) for line in SET.read_text("utf-8").splitlines()]
    learned = [one for one in records if "id" in one]
    names = {one["id"]: f"L{number}" for number, one in enumerate(learned, 1)}
    own = [
        Entry(names[one["id"]], one["text"], one["votes"][0], one["votes"][1], when=one["when"])
        for one in learned
    ]
    tasks = [
        Task(one["task"], one["research"], frozenset(names[name] for name in one["belong"]))
        for one in records
        if "task" in one
    ]
    return parse(appended("# Learnings\n", own)).entries, tasks


def figures(
    entries: tuple[Entry, ...], tasks: list[Task], stage: str, arm: str
) -> tuple[float, str]:
    """Which part of what belongs is told, and in how many tokens, for each task."""
    some = [entry for entry in entries if not entry.unwanted]
    vars(search)["vectors"] = VECTORS if arm == ARMS[2] else lambda: None
    reached, tokens, useless = [], [], []
    for task in tasks:
        order = some[::-1]
        if arm != ARMS[0]:
            order = recall.nearest(some, task.asked(stage))
        told = recall.filling(order, recall.BUDGET)
        if task.belong:
            reached.append(len(task.belong & {one.id for one in told}) / len(task.belong))
        tokens.append(sum(map(recall.cost, told)))
        useless.append(sum(recall.cost(one) for one in told if one.id not in task.belong))
    said = f"{fmean(reached):.2f} of what belongs is told in {fmean(tokens):.0f} tokens,"
    return fmean(reached), f"{said} {fmean(useless):.0f} of them of no use"


def speed(known: tuple[Entry, ...], query: str) -> Iterator[Row]:
    """A LEARNINGS.md of made-up entries in the words of the bundled ones."""
    chance, words = random.Random(11), [word for entry in known for word in entry.text.split()]
    lines = (
        f"- L{number} +{number % 5} -0 {' '.join(chance.choices(words, k=60))}\n"
        for number in range(1, MANY + 1)
    )
    text = "# Learnings\n\n## Learnings\n\n" + "".join(lines)
    entries = parse(text).entries
    what = f"LEARNINGS.md of {MANY:,} entries, {len(text) / 1e6:.1f} MB, read"
    acts: dict[str, Callable[[], object]] = {what: lambda: parse(text)}
    acts["the best of them, told"] = lambda: recall.told(entries, query)
    for name, act in acts.items():
        began = time.process_time()  # other work on the machine does not count
        act()
        yield row(name, 1000 * (time.process_time() - began), "ms", most=1000)
