"""What finding learnings costs at 20,000 entries, in processor time, and how much of what belongs
to a task is told.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kern.memory import recall
from kern.memory.entries import parse
from tests.bench.measuring import Row, row
from tests.bench.memory import ranking
from tests.bench.memory.bundled import combined

ENTRIES = 20_000


def rows(folder: Path) -> Iterator[Row]:
    yield from speed()
    yield from ranking.rows()


def speed() -> Iterator[Row]:
    text, query = many(ENTRIES), combined().tasks[3].researched().text
    entries = parse(text).entries
    size = f"{ENTRIES:,} entries, {len(text) / 1e6:.1f} MB"
    taken = processor_ms(lambda: parse(text), 3)
    yield row(f"LEARNINGS.md of {size}, read", taken, "ms", most=2000)
    taken = processor_ms(lambda: recall.told(entries, query), 3)
    yield row("the best of them, told", taken, "ms", most=1000)


def processor_ms(act: Callable[[], object], times: int = 5) -> float:
    """Of all its threads, the best of some times: other work on the machine does not count."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return 1000 * min(taken)


def many(count: int) -> str:
    """A LEARNINGS.md of made-up entries in the words of the bundled ones."""
    chance = random.Random(11)
    words = [word for entry in combined().entries for word in entry.text.split()]

    def entry(number: int) -> str:
        text = " ".join(chance.choices(words, k=60))
        return f"- L{number} +{number % 5} -0 {text}\n"

    return "# Learnings\n\n## Learnings\n\n" + "".join(map(entry, range(1, count + 1)))
