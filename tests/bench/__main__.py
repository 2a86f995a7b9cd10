"""One table of what kern costs:  python -m tests.bench [PART...]

Parts: repository, large, agents, learnings (all unless named). `agents` compares kern with bare
agent processes and needs real binaries, no account: KERN_TEST_CLAUDE=/path/to/claude and so on.
Their API is scripted: it answers at once, so that every millisecond of kern's own shows; claude's
once more as fast as a very fast model. With its default flags a bare claude refuses the edit, so
it sends as many requests but does less; the rows with kern's flags compare like with like.
Times depend on the machine; ratios are medians of interleaved runs. The exit code is 1 where a
target is missed.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.bench import agents, learnings, repository
from tests.bench.measuring import Row

PARTS: dict[str, Callable[[Path], Iterable[Row]]] = {
    "repository": repository.rows,
    "large": repository.large_files,
    "agents": lambda folder: agents.rows(folder, rounds=5),
    "learnings": learnings.rows,
}


def main(argv: list[str]) -> int:
    if strange := set(argv) - PARTS.keys():
        print(f"no such part: {', '.join(sorted(strange))}\n\n{__doc__}", file=sys.stderr)
        return 2
    print("| what | measured | target | |\n| --- | ---: | ---: | --- |", flush=True)
    missed = 0
    for name in argv or PARTS:
        with tempfile.TemporaryDirectory(prefix=f"kern-bench-{name}-") as folder:
            for row in PARTS[name](Path(folder).resolve()):
                print(_line(row), flush=True)
                missed += row.met is False
    return 1 if missed else 0


def _line(row: Row) -> str:
    verdict = {True: "ok", False: "**missed**", None: ""}[row.met]
    return f"| {row.what} | {row.shown} | {row.bound} | {verdict} |"


sys.exit(main(sys.argv[1:]))
