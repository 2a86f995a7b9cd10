"""`kern check`: the gates now, as a run would run them before its first task."""

import difflib
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from kern import plain
from kern.checks import detect, result
from kern.config import Gate
from kern.errors import Asked, Exit, UsageError
from kern.model import OnRed
from kern.pipeline import outside, project, session, trial
from kern.pipeline.site import Leave, Options, Site
from kern.views import checks

_ROOM = "{}: room = false, so that the daemon outside sees what the gate does (kern help settings)"


def main(folder: Path, names: Sequence[str], leave: Leave) -> int:
    """Its exit code is that of a run which the gates let begin, or not."""
    table = checks.Table()
    options = Options(tick=table.tick, leave=leave)
    try:
        with session.begin(folder, options, table, empty=True, commits=False, paid=False) as site:
            gates = _chosen(site.papers.settings().gates, names)
            table.expect(gates)
            apart = site.rooms.held and all(gate.room for gate in gates)
            with nullcontext() if apart else trial.unchanged(site.repo, table):
                results = [was for _, was, _ in project.now(site, gates)]
            told = outside.compared(site, gates, results, leave, hooked=not names)
            told += [_ROOM.format(gate.label) for gate in gates if _is_apart(site, gate)]
    except Asked:
        print("stopped, as asked: not every gate was run", file=sys.stderr)
        return Exit.HELP_NEEDED
    finally:
        table.close()
    stopping = [one for one in results if one.stops(OnRed.STOP, first=True)]
    print(*told, checks.summary(results, stopping), sep="\n")
    if not stopping:
        return Exit.OK
    print(f"no run begins like this: {result.refusal(stopping)[1]}")
    return Exit.USAGE


def _is_apart(site: Site, gate: Gate) -> bool:
    """In a room, of no use to it."""
    held = site.rooms.held and gate.room
    return held and bool(detect.DAEMON.search(gate.command))


def _chosen(gates: Sequence[Gate], names: Sequence[str]) -> list[Gate]:
    """Those of the names, in the order of kern.toml; all without names."""
    if not gates:
        raise UsageError(
            "no gates: [gates] in kern.toml names no command, so commits are unverified",
            hint="kern init shows the checks that this project seems to have; kern help settings",
        )
    known = [gate.name for gate in gates]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"kern check {near[0]}" if near else f"the gates are {plain.some(known)}"
            raise UsageError(f"no gate {plain.line(name, 60)!r} in kern.toml", hint=hint)
    return [gate for gate in gates if not names or gate.name in names]
