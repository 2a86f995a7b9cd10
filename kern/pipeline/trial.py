"""Commands tried once on all that lies in the tree, before there is any task: in a room, or where
there is none in the tree itself, as by hand.
"""

import contextlib
import secrets
from collections.abc import Sequence

from kern.checks.gates import Gates
from kern.config import Gate
from kern.events import GateEnded, GateStarted, Sink, Warned
from kern.git.repository import Repo
from kern.git.room import Room
from kern.model import Result
from kern.pipeline import isolation, preflight
from kern.sandbox import wall
from kern.sandbox.confine import Means, unheld
from kern.system import control, lock, process, workspace


def run(
    found: Repo, gates: Sequence[Gate], sandbox: str, sink: Sink, tick: process.Tick
) -> list[Result]:
    """How each ended. `sandbox`: see `isolation.mode`. Raises KernError, and Interrupted."""
    own = preflight.person_settings(found.root)
    branch = found.branch() or found.head().name  # no commit is needed
    scope = workspace.scope(found.root, branch)
    run_id = secrets.token_hex(8)
    wanted = isolation.wanted(found, scope, (), own)
    results: list[Result] = []
    with (
        isolation.ready(wanted, isolation.mode(sandbox, own), sink) as held,
        control.signals(),
        lock.hold(scope, found.git_dir),
        contextlib.closing(found.store),
    ):
        if lacking := isolation.lacking(held):
            sink(Warned(lacking))
        room = Room(found) if held.means is Means.BWRAP else None

        def filled(tree: str, mounted: bool) -> wall.Room | None:
            if not (room and mounted):
                return None
            room.fill(tree)
            return wall.Room(room.tree, room.index, room.over, room.mounts)

        hold = unheld if held.means is Means.NONE else held.confine
        runner = Gates(found.root, scope, run_id, ("KERN_RUN_ID", run_id), tick, hold, filled)
        for gate in gates:
            sink(GateStarted(gate.label, gate.command, before=True))
            results.append(runner.beside(gate))
            sink(GateEnded(results[-1], before=True))
    return results
