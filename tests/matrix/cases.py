"""What can happen, what can come of it, and the workers that are asked."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent.parent
BEFORE = "before"  # SIGKILL before the write instead of after it
WHAT = ("SIGKILL", BEFORE, "SIGINT", "SIGTERM", "ENOSPC", "EIO")
OK, AGAIN, ON, BAD = ".", "a", "-", "!"
OUTCOMES = {
    OK: "as if nothing had happened",
    AGAIN: "the same; a stage whose answer was not saved was asked again",
    ON: "kern went on in spite of it",
    BAD: "bad",
}


@dataclass(frozen=True)
class Case:
    """One thing that happened at one write of one story, and what came of it."""

    story: str
    step: str
    name: str
    what: str
    outcome: str  # a letter
    problems: Sequence[str] = ()


@dataclass(frozen=True)
class Answer:
    cases: Sequence[Case]
    writes: Sequence[str]  # of the undisturbed story, in their order


class Worker:
    """A process that has kern imported and tells stories, see worker.py."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.matrix.worker", str(folder)],
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": str(TOP)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, story: str, what: Sequence[str], own: Sequence[str] = ()) -> Answer:
        """`what` happens at every boundary, `own` only at those that no main story before has."""
        said = self._ask({"story": story, "what": what, "own": own})
        return Answer([Case(**case) for case in said["cases"]], said["writes"])

    def relentless(self, story: str) -> tuple[int, list[str]]:
        """Killed again and again: how often, and what was wrong with the end."""
        said = self._ask({"story": story})
        return said["deaths"], said["problems"]

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(job), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, "the worker broke down; what it said stands above"
        return dict(json.loads(line))

    def close(self) -> None:
        self.process.communicate()
