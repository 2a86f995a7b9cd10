"""Many at once with real claude processes: kern's workers against as many bare processes, on a
scripted API whose answers take two seconds.
"""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.bench.agents import CLAUDE, Bench
from tests.bench.measuring import Row
from tests.kit.scripted_server import ScriptedServer, Turn
from tests.kit.wires.wire import Asked

DELAY_S = 2.0
EACH = 3  # tasks of a worker
WORKERS = (4, 8)
LEAST = 0.95  # of the speed-up of the bare processes
_TASK = re.compile(r"task-\d+")


class Named(ScriptedServer):
    """A script in which TASK stands for the task that the prompt is about."""

    def turn(self, asked: Asked, body: dict[str, Any], size: int) -> tuple[int, Turn]:
        number, turn = super().turn(asked, body, size)
        task = _TASK.search(asked.prompt)
        return number, json.loads(json.dumps(turn).replace("TASK", task[0] if task else "TASK"))


def script() -> dict[str, list[Turn]]:
    """Each stage uses one tool and answers."""
    look = {"tool": "Grep", "input": {"pattern": "line", "output_mode": "content"}}
    return {
        "research": [look, {"text": "- Files: a.txt:1-3\n- Pattern: a.txt:1\n\nREADY"}],
        "implement": [
            {"tool": "Bash", "input": {"command": "echo more > TASK.txt"}},
            {"text": "Wrote it.\n\nSUCCESS"},
        ],
        "commit": [{"text": "Do it: TASK"}],
    }


def names(count: int) -> list[str]:
    return [f"task-{number}" for number in range(10, 10 + count)]


def rows(folder: Path) -> Iterator[Row]:
    if not CLAUDE.binary:
        yield Row("speed-up of many at once", "needs KERN_TEST_CLAUDE")
        return
    folder.mkdir()
    with Named(script(), DELAY_S) as server:
        bench = Bench(folder, CLAUDE, server, names(EACH))
        calls = bench.record()
        alone = _took(bench, 1, calls), _took(bench, 1, None)
        for count in WORKERS:
            bare = count * alone[0] / _took(bench, count, calls)
            ours = count * alone[1] / _took(bench, count, None)
            share = ours / bare
            yield Row(
                f"speed-up of `kern -j {count}`, {count} bare claude processes reach {bare:.2f} x",
                f"{ours:.2f} x ({share:.0%} of theirs)",
                f"≥ {LEAST:.0%} of theirs",
                share >= LEAST,
            )


def _took(bench: Bench, count: int, calls: Any) -> float:
    """Seconds of so many lanes with three tasks each: bare calls, or kern."""
    if calls is None:
        root = bench.project(names(EACH * count))
        began = time.perf_counter()
        bench.kern(None, root, "-j", str(count))
        return time.perf_counter() - began
    roots = [bench.project() for _ in range(count)]
    began = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        for _ in pool.map(lambda root: bench.bare(calls, plain=False, root=root), roots):
            pass
    return time.perf_counter() - began
