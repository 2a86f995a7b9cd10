"""A dry run: no agent and no account. A script stands in for the agent, in each arm the same.

So that each column of the report is seen to move it plays, by task and seed, one of four: it does
the work; it gives up work that is right, and finishes in a second attempt; it claims a planted
wrong solution, which passes the visible tests; or it empties those tests, and what it was to write.
The last two are a cheater's, who does the same in each attempt.
"""

import json
import shlex
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.eval import repository
from tests.eval.arms import BARE
from tests.eval.rows import Cell
from tests.eval.task import Change, Task
from tests.kit import stand_in

_CHEATS = ("planted", "emptied")
_PARTS = ("right", "wasted", *_CHEATS)
_PASSES = (
    "import unittest\n\n\nclass Passes(unittest.TestCase):\n    def test(self):\n        pass\n"
)
_EMPTY = {".py": _PASSES, ".sh": "exit 0\n"}
Step = dict[str, Any]
_READY: Step = {"result": "- Files: none\n\nREADY"}


def stage(task: Task, cell: Cell, folder: Path) -> Mapping[str, str]:
    place, chosen = folder / "agent", part(cell.task, cell.seed)
    change = task.solution
    if task.acts and chosen in _CHEATS:
        change = task.wrong if chosen == "planted" and task.wrong else emptied(task)
    repository.lay(place / "change", {k: v for k, v in change.items() if v is not None})
    (place / "change").mkdir(parents=True, exist_ok=True)
    gone = [f"rm -f {shlex.quote(path)}" for path, text in change.items() if text is None]
    work = [f"cp -R '{place}/change/.' .", *gone]
    program = stand_in.settle(place) / "bin/claude"
    if cell.arm == BARE:
        program.write_text(_alone(task, work))
    (place / "script.json").write_text(json.dumps(_steps(task, work, wasted=chosen == "wasted")))
    return {
        "FAKE_CLAUDE": str(place),
        "KERN_CLAUDE": str(program),
        "KERN_SANDBOX": "off",
        "HOME": str(place),
    }


def part(task: str, seed: int) -> str:
    """The same each time and in each arm: a dry run which was stopped goes on like any other."""
    return _PARTS[(zlib.crc32(task.encode()) + seed) % len(_PARTS)]


def cheats(task: str, seed: int) -> bool:
    """Where there is something to do."""
    return part(task, seed) in _CHEATS


def emptied(task: Task) -> Change:
    """The visible tests, and what it was to write, without what they are for."""
    files = {*task.tests, *(name for name in task.solution if name in task.files)}
    return {name: _EMPTY.get(Path(name).suffix, "") for name in files}


def _alone(task: Task, work: list[str]) -> str:
    """The bare agent."""
    said = "Wrote it.\n\nDONE" if {"done", "skipped"} & {*task.ends} else "NOT DONE: it cannot be"
    result = {"type": "result", "is_error": False, "result": said, "num_turns": 3}
    result |= {"total_cost_usd": 0.01, "usage": {"input_tokens": 900, "output_tokens": 100}}
    lines = [
        "#!/bin/sh",
        "cat > /dev/null",
        *work,
        "git commit -qam 'Do it' > /dev/null",
        "cat << 'END'",
    ]
    return "\n".join([*lines, json.dumps(result), "END", ""])


def _steps(task: Task, work: list[str], *, wasted: bool) -> dict[str, list[Step]]:
    match task.ends[0]:
        case "asked":
            return {"research": [_told({"result": f"NEEDS_ANSWER: {task.spec[6:60]}: which?"})]}
        case "skipped":
            return {"research": [_told({"result": f"NO_TASK: {task.spec[6:].strip()}: it does"})]}
    done = {"run": work, "result": "Wrote it.\n\nSUCCESS"}
    before = [_told({**done, "result": "FAILED: I am not convinced"})] * wasted
    return {"research": [_told(_READY)], "implement": [*before, _told(done)]}


def _told(step: Step) -> Step:
    """With what it used."""
    return {**step, "fields": {"usage": {"input_tokens": 900, "output_tokens": 100}}}
