"""One table of what kern costs:  python -m tests.bench [PART...]

Parts: repository, large, landings, agents, learnings (all unless named). `agents` compares kern
with bare agents and needs real binaries, no account: KERN_TEST_CLAUDE=/path/to/claude and so on.
Their API is scripted: it answers at once, claude's once more as fast as a very fast model. With its
default flags a bare claude refuses the edit, and does less; kern's flags compare like with like.
Ratios are medians of interleaved runs. The exit code is 1 where a target is missed.
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
    "landings": repository.landings,
    "agents": lambda folder: agents.rows(folder, rounds=5),
    "learnings": learnings.rows,
}


VERDICT = {True: "ok", False: "**missed**", None: ""}

if set(sys.argv[1:]) - PARTS.keys():
    sys.exit(__doc__)
print("| what | measured | target | |\n| --- | ---: | ---: | --- |", flush=True)
missed = False
for name in sys.argv[1:] or PARTS:
    with tempfile.TemporaryDirectory(prefix=f"kern-bench-{name}-") as folder:
        for row in PARTS[name](Path(folder).resolve()):
            print(f"| {row.what} | {row.shown} | {row.bound} | {VERDICT[row.met]} |", flush=True)
            missed |= row.met is False
sys.exit(missed)
