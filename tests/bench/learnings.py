"""What finding learnings costs at 20,000 entries, in processor time, and how well what belongs to a
task is found.
"""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

from kern.memory import chunks, search, vectors
from kern.memory.entries import parse
from kern.memory.index import FILE, Index, using
from kern.memory.search import Mode
from tests.bench.measuring import Row, row
from tests.bench.memory import ranking
from tests.bench.memory.bundled import combined

ENTRIES = 20_000
QUERY = (
    "retry the upload when the worker loses its connection, and say in the journal what was sent"
)


def rows(folder: Path) -> Iterator[Row]:
    yield from speed(folder)
    yield from ranking.rows()


def speed(folder: Path) -> Iterator[Row]:
    data = many(ENTRIES).encode()
    model = vectors.load()

    def fresh() -> None:
        (folder / FILE).unlink(missing_ok=True)
        using(folder, lambda index: index.refresh([chunks.learnings(data)], all_of_them=True))
        if model:
            using(folder, model.update)

    first = processor_ms(fresh, 2) / 1000
    size = f"{ENTRIES:,} entries, {len(data) / 1e6:.1f} MB"
    yield row(f"index of {size}, made for the first time", first, "s", most=5)

    def unchanged(index: Index) -> bool:
        return index.refresh([chunks.learnings(data)], all_of_them=True)

    taken = processor_ms(lambda: using(folder, unchanged))
    yield row("the same, nothing changed", taken, "ms", most=50)
    more = data + b"\n## 2026-11-22 - One more\n\nAn entry that was not there.\n"
    taken = processor_ms(lambda: using(folder, lambda index: _added(index, data, more)), 2)
    yield row("the same, an entry added and taken out again", taken / 2, "ms")
    queries = {
        "a sentence": QUERY,
        "a task with its research": combined().tasks[3].researched().text,
    }
    for (name, query), mode in product(queries.items(), Mode if model else [Mode.FTS]):
        found = partial(search.search, query=query, model=model, mode=mode)
        taken = processor_ms(partial(using, folder, found))
        yield row(f"search by {mode} among them, for {name}", taken, "ms", most=50)
    if model:
        yield row("the word vectors, loaded", processor_ms(vectors.load), "ms")
    yield row(
        "LEARNINGS.md of that size, parsed", processor_ms(lambda: parse(data.decode()), 2), "ms"
    )


def processor_ms(act: Callable[[], object], times: int = 5) -> float:
    """Of all its threads, the best of some times: other work on the machine does not count."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return 1000 * min(taken)


def _added(index: Index, data: bytes, more: bytes) -> None:
    for text in (more, data):
        index.refresh([chunks.learnings(text)], all_of_them=True)


def many(count: int) -> str:
    """A LEARNINGS.md of made-up entries in the words of the bundled ones."""
    chance = random.Random(11)
    words = [word for entry in combined().entries for word in entry.text.split()]

    def entry(number: int) -> str:
        title = " ".join(chance.choices(words, k=6))
        text = " ".join(chance.choices(words, k=60))
        return (
            f"## 2026-11-{number % 28 + 1:02} - {title}\n\n{text}\n\n"
            f"<!-- kern: id=L{number} kind=pattern helpful={number % 5} harmful=0 -->\n"
        )

    return "# Learnings\n\n" + "\n".join(entry(number) for number in range(1, count + 1))
