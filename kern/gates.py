"""Runs the commands that must pass before a commit, and remembers how they ended on which tree; and
those that only tell how things stand.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kern import mask, process, workspace
from kern.config import Gate, Probe
from kern.errors import KernError
from kern.proof import Result
from kern.workspace import Scope

OUTPUT_LIMIT = 20_000_000  # bytes
_TAIL = 8192  # bytes of the output that are read
_MEMORY = 200  # results
_FILE = "known-gates.json"
_MADE = "made"


class Gates:
    """The gates of one working tree. What they print lies beside the stage files."""

    def __init__(
        self, root: Path, scope: Scope, run: str, mark: tuple[str, str], tick: process.Tick
    ) -> None:
        self.root = root
        self.scope = scope
        self.run_id = run
        self.mark = mark
        self.tick = tick
        self._red: dict[str, bool] = {}  # of this run: a file can be written by an agent as well

    def known(self, gate: Gate, tree: str, *, today: bool = False) -> bool | None:
        """Whether it was red on that tree, None where that is not known. `today`: what an earlier
        run found does not count, since tools and services come and go.
        """
        key = _key(gate, tree)
        if today or key in self._red:
            return self._red.get(key)
        found = _read(self.scope).get(key)
        return found if isinstance(found, bool) else None

    def run(self, gate: Gate, tree: str) -> Result:
        """Run it on the working tree, which is `tree` now, and remember how it ended."""
        result = replace(self._run(gate, self.log(gate)), strict=gate.strict)
        self._red[_key(gate, tree)] = result.red
        known = _read(self.scope)
        known.pop(_key(gate, tree), None)  # or it would keep its old place among the newest
        self._write({**known, _key(gate, tree): result.red})
        return result

    def look(self, probe: Probe) -> Result:
        """Run a command that tells how things stand; nothing of it is remembered."""
        return self._run(probe, self._log(probe.label))

    def _run(self, command: Gate | Probe, place: Path) -> Result:
        ran = process.run(
            ["sh", "-c", command.command],
            cwd=self.root,
            env={
                **process.surroundings(),
                "KERN_ROOT": str(self.root),
                "GIT_REFLOG_ACTION": f"kern {self.run_id} stage 2",  # so that its commits are told
            },
            stdin="",
            stdout=place,
            joined=True,
            mark=self.mark,
            tick=self.tick,
            limit=OUTPUT_LIMIT,
            total=command.timeout,
        )
        output = mask.masked(_end(place), mask.values(os.environ))
        ended = ran.timed_out or (ran.overflow and f"it printed more than {ran.overflow} bytes")
        return Result(
            command.label,
            None if ended else ran.code,
            f"{output}\n{ended}" if ended else output,
            ran.seconds,
            log=str(place),
        )

    def log(self, gate: Gate) -> Path:
        """All that it printed when it ran last."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", gate.name)[:40]
        return self._log(f"gate-{name or f'task-{_digest(gate)[:6]}'}")

    def _log(self, name: str) -> Path:
        return self.scope.folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', name)[:60]}.log"

    def made(self, paths: Iterable[str]) -> None:
        """Remember files that a gate made and left: what stands there is no person's work."""
        made = dict.fromkeys([*made_in(self.scope), *paths])
        self._write({**_read(self.scope), _MADE: list(made)[-_MEMORY:]})

    def _write(self, known: Mapping[str, Any]) -> None:
        newest = dict(list(known.items())[-_MEMORY:])
        workspace.replace(self.scope.folder / _FILE, json.dumps(newest, indent=1).encode())


def made_in(scope: Scope) -> list[str]:
    """The files that gates made and nobody committed."""
    made = _read(scope).get(_MADE)
    return [path for path in made if isinstance(path, str)] if isinstance(made, list) else []


def _read(scope: Scope) -> dict[str, Any]:
    try:
        found = json.loads(workspace.read(scope.folder / _FILE) or b"{}")
    except (ValueError, RecursionError, KernError):
        return {}
    return found if isinstance(found, dict) else {}


def _key(gate: Gate, tree: str) -> str:
    return f"{tree} {_digest(gate)}"


def _digest(gate: Gate) -> str:
    return hashlib.sha256(os.fsencode(gate.command)).hexdigest()[:16]


def _end(place: Path) -> str:
    try:
        file = place.open("rb")
    except FileNotFoundError:  # a gate's own doing
        return ""
    with file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        return file.read().decode("utf-8", "replace")
