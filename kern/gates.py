"""Runs the commands that must pass before a commit, and remembers how they ended on which tree."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kern import process, workspace
from kern.config import Gate
from kern.proof import Result
from kern.workspace import Scope

OUTPUT_LIMIT = 20_000_000  # bytes
_TAIL = 8192  # bytes of the output that are read
_MEMORY = 200  # results

Tick = Callable[[float], None]


class Gates:
    """The gates of one working tree. What they print lies beside the stage files."""

    def __init__(
        self, root: Path, scope: Scope, run: str, mark: tuple[str, str], tick: Tick
    ) -> None:
        self.root = root
        self.scope = scope
        self.run_id = run
        self.mark = mark
        self.tick = tick

    def known(self, gate: Gate, tree: str, *, anew: bool = False) -> bool | None:
        """Whether it was red on that tree, None where that is not known. `anew`: a red one of an
        earlier run does not count, since what it lacked may have been installed since.
        """
        found = self._memory().get(_key(gate, tree))
        if not isinstance(found, dict) or (found.get("red") and anew and self._old(found)):
            return None
        return bool(found.get("red"))

    def _old(self, found: dict[str, Any]) -> bool:
        return found.get("run") != self.run_id

    def run(self, gate: Gate, tree: str) -> Result:
        """Run it on the working tree, which is `tree` now, and remember how it ended."""
        place = self.scope.folder / f"gate-{re.sub(r'[^A-Za-z0-9]+', '-', gate.name)}.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KERN_")}
        ran = process.run(
            ["sh", "-c", gate.command],
            cwd=self.root,
            env={**environment, "KERN_ROOT": str(self.root)},
            stdin="",
            stdout=place,
            joined=True,
            mark=self.mark,
            tick=self.tick,
            limit=OUTPUT_LIMIT,
            total=gate.timeout,
        )
        ended = ran.timed_out or (ran.overflow and f"it printed more than {ran.overflow} bytes")
        result = Result(
            gate.name,
            None if ended else ran.code,
            f"{_end(place)}\n{ended}" if ended else _end(place),
            ran.seconds,
            strict=gate.strict,
        )
        known = self._memory()
        known[_key(gate, tree)] = {"red": result.red, "run": self.run_id}
        newest = dict(list(known.items())[-_MEMORY:])
        workspace.replace(self._place, json.dumps(newest, indent=1).encode())
        return result

    @property
    def _place(self) -> Path:
        return self.scope.folder / "known-gates.json"

    def _memory(self) -> dict[str, Any]:
        try:
            found = json.loads(workspace.read(self._place) or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _key(gate: Gate, tree: str) -> str:
    return f"{tree} {hashlib.sha256(os.fsencode(gate.command)).hexdigest()[:16]}"


def _end(place: Path) -> str:
    with place.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        return file.read().decode("utf-8", "replace")
