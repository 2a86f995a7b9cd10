import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests import matrix
from tests.matrix import table
from tests.matrix.cases import BAD, WHAT, Case, Worker
from tests.matrix.stories import STORIES, playable

WORKERS = 2


def main(argv: list[str]) -> int:
    if strange := set(argv) - STORIES.keys():
        print(f"no such story: {', '.join(sorted(strange))}\n\n{matrix.__doc__}", file=sys.stderr)
        print(f"Stories: {', '.join(STORIES)}", file=sys.stderr)
        return 2
    if missing := (set(argv) or STORIES.keys()) - {*playable()}:
        told = "KERN_TEST_HOOKS names no folder with hook frameworks, left out"
        print(f"{told}: {', '.join(sorted(missing))}", file=sys.stderr)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kern-matrix-") as folder:
        cases = played(
            [name for name in argv or STORIES if name not in missing], Path(folder).resolve()
        )
    for line in (*table.lines(cases), "", *table.totals(cases), "", *table.faults(cases)):
        print(line)
    bad = sum(case.outcome == BAD for case in cases)
    print(f"{len(cases)} cases, {bad} bad, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


def played(names: Sequence[str], folder: Path) -> list[Case]:
    """The cases in the stories' order; the stories with the most attempts are told first."""
    free: Queue[Worker] = Queue()
    for number in range(WORKERS):
        free.put(Worker(folder / str(number)))

    def play(name: str) -> Sequence[Case]:
        worker = free.get()
        try:
            found = worker.ask(name, WHAT).cases
            print(f"{name}: {len(found)} cases", file=sys.stderr, flush=True)
            return found
        finally:
            free.put(worker)

    longest = sorted(names, key=lambda name: -sum(map(len, STORIES[name].agent.values())))
    with ThreadPoolExecutor(WORKERS) as pool:
        told = dict(zip(longest, pool.map(play, longest), strict=True))
    while not free.empty():
        free.get().close()
    return [case for name in names for case in told[name]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
