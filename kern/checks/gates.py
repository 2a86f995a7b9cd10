"""Runs the commands that must pass before a commit, and remembers how they ended on which tree; and
those that only tell how things stand.
"""

import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kern import plain
from kern.config import Gate
from kern.model import Result
from kern.sandbox import closed
from kern.sandbox.confine import Hold, unheld
from kern.sandbox.wall import Kind, Room
from kern.system import process
from kern.system.workspace import Scope

OUTPUT_LIMIT = 20_000_000  # bytes
# Its parent is a shell, which waits for it whatever comes: one that kills its parent kills no kern.
_PARENT = 'trap : INT TERM; sh -c "$1"; exit $?'


@dataclass(slots=True)
class Gates:
    """The gates of one working tree. What they print lies beside the stage files."""

    root: Path
    scope: Scope
    run_id: str
    tick: process.Tick
    hold: Hold = unheld
    # Where a tree and nothing else lies: a room, if it may be one; None for the working tree.
    furnish: Callable[[str, bool], Room | None] = lambda tree, mounted: None
    # By tree, name and command; in no file, which an agent could write.
    _ended: dict[tuple[str, str, str], Result] = field(default_factory=dict)

    def known(self, gate: Gate, tree: str) -> Result | None:
        """How it ended on that tree, where this run saw it: tools and services come and go."""
        return self._ended.get((tree, gate.name, gate.command))

    def run(self, gate: Gate, exact: str, *, before: bool = False, how: str = "") -> Result:
        """Where `exact` lies. `before`: the task, whose stage files its output is none of; `how`:
        what is said of the tree.
        """
        room = self.furnish(exact, gate.room)
        if room and gate.hidden:
            room = replace(room, laid=Path(gate.hidden).expanduser())
        end = self._run(gate, "before" if before else "gate", room, how)
        return replace(end, strict=gate.strict, known_red=bool(gate.red))

    def remember(self, gate: Gate, tree: str, end: Result) -> Result:
        self._ended[tree, gate.name, gate.command] = end
        return end

    def beside(self, gate: Gate, *, held: bool = True) -> Result:
        """How it ends on all that lies in the working tree; where no sandbox holds it."""
        where = self if held else replace(self, hold=unheld)
        return where._run(gate, "tree" if held else "outside")

    def _run(self, command: Gate, why: str, room: Room | None = None, of: str = "") -> Result:
        env, argv = process.reflog(self.run_id), ("sh", "-c", _PARENT, "sh", command.command)
        own = f"task {zlib.crc32(os.fsencode(command.command)):x}"  # two may begin alike
        log = re.sub(r"\W+", "-", f"{why} {command.name[:40] or own} {of}").strip("-")
        how = {"limit": OUTPUT_LIMIT, "total": command.timeout}
        kind = Kind.CHECK if command.hidden is None else Kind.HIDDEN
        return replace(self.execute(argv, log, env, how, kind=kind, room=room), name=command.label)

    def execute(
        self,
        argv: Sequence[str],
        name: str,
        own: Mapping[str, str],
        how: Mapping[str, Any],
        *,
        kind: Kind = Kind.CHECK,
        room: Room | None = None,
        write: Sequence[Path] = (),
    ) -> Result:
        """How a command of the project's ends; what it printed is in its log. `own`: of its
        environment; `how`: see `process.run`.
        """
        log = self.scope.folder / f"{name}.log"
        env = {**process.surroundings(), "KERN_ROOT": str(self.root), **own}
        confined = self.hold(kind, argv, env, write=write, room=room)
        ran = process.run(
            confined.argv,
            cwd=self.root,
            env=confined.env,
            status=confined.status,
            stdin="",
            stdout=log,
            joined=True,
            tick=self.tick,
            **how,
        )
        output = plain.masked(ran.stderr, plain.secrets(os.environ))
        shut = closed.sentences(output, confined) if ran.code else []
        output = "\n".join((output.rstrip(), *shut)) if shut else output
        failure = ran.timed_out or (ran.overflow and f"it printed more than {ran.overflow} bytes")
        return Result(
            name,
            None if failure else ran.code,
            f"{output}\n{failure}" if failure else output,
            ran.seconds,
            log=str(log),
            closed=tuple(shut),
        )
