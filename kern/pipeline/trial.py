"""Commands tried once on all that lies in the tree, before there is any task: in a room, or where
there is none in the tree itself, whose files are put back.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence

from kern import plain
from kern.checks.gates import Gates
from kern.config import Gate
from kern.events import GateEnded, GateStarted, Sink, Warned
from kern.git.repository import Repo
from kern.git.room import Room, add_visible
from kern.model import Result
from kern.pipeline import isolation, preflight
from kern.sandbox import wall
from kern.sandbox.confine import Means, unheld
from kern.system import control, lock, process, workspace


def run(found: Repo, gates: Sequence[Gate], sink: Sink, tick: process.Tick) -> list[Result]:
    """How each ended. Raises KernError, and Interrupted, with the
    tree as it was.
    """
    own = preflight.person_settings(found.root)
    branch = found.branch() or found.head().name  # no commit is needed
    scope = workspace.scope(found.root, branch)
    run_id = secrets.token_hex(8)
    wanted = isolation.wanted(found, scope, (), own)
    results: list[Result] = []
    with (
        isolation.ready(wanted, isolation.mode(own), sink) as held,
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
        apart = room and all(gate.room for gate in gates)
        with contextlib.nullcontext() if apart else unchanged(found, sink):
            for gate in gates:
                sink(GateStarted(gate.label, gate.command, before=True))
                results.append(runner.beside(gate))
                sink(GateEnded(results[-1], before=True))
    return results


@contextlib.contextmanager
def unchanged(found: Repo, sink: Sink) -> Iterator[None]:
    """Files that git sees are again as they were; what is new stays, and is named. Of the index
    what it held.
    """
    head, staged = _head(found), workspace.read(found.git_dir / "index")
    with found.private_index() as env:
        add_visible(found, env)
        try:
            yield
        finally:
            changed = found.paths("diff-files", "-z", "--name-only", env=env)
            folders = "--directory", "--no-empty-directory"
            new = "ls-files", "-z", "--others", *folders, "--exclude-standard"
            made = found.paths(*new, env=env)
            given = os.fsencode("\0".join(changed))
            found.git("checkout-index", "--force", "-z", "--stdin", given=given, env=env)
            if changed:
                sink(Warned(f"restored, since a check changed it: {plain.some(changed)}"))
            if made:
                advice = "add to .gitignore what should not be committed"
                sink(Warned(f"the checks left {plain.some(made)}: {advice}"))
    if staged and head == _head(found):  # else a check has committed, which stays
        workspace.replace(found.git_dir / "index", staged, mode=0o644)


def _head(found: Repo) -> bytes:
    return found.run("rev-parse", "--symbolic-full-name", "HEAD", "HEAD")[1]
