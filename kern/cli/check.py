"""`kern check`: the gates now, as a run would run them before its first task."""

import difflib
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kern import plain
from kern.checks import detect, result
from kern.config import Gate
from kern.errors import Asked, Exit, UsageError
from kern.events import Event, GateEnded, Warned
from kern.model import OnRed, Result
from kern.pipeline import outside, project, session, trial
from kern.pipeline.site import Leave, Options, Site
from kern.views.live import Console, style_of, under_way

_NAME = 28  # columns of a gate's name
_ROOM = "{}: room = false, so that the daemon outside sees what the gate does (kern help settings)"


class Gates(Console):
    """A sink: a row as each gate ends."""

    stamp = ""
    width = 0  # of the names

    def expect(self, gates: Sequence[Gate]) -> None:
        self.width = max((len(_name(gate.label)) for gate in gates), default=0)

    def __call__(self, event: Event) -> None:
        self.see(event)
        if isinstance(event, Warned):
            super().__call__(event)
        elif isinstance(event, GateEnded):
            ended = event.result
            self.print(f"{_name(ended.name):<{self.width}}  {_end(ended)}", style_of(event))
            first = result.first_failing(ended.output, result.TELLING)
            for line in filter(None, dict.fromkeys([first, *ended.closed]) if ended.red else ()):
                self.print(f"    {line}")
            if ended.red and ended.log and not ended.cannot_run:  # the shell's word is all there is
                self.print(f"    full output: {plain.line(ended.log)}")

    def picture(self, silent: float) -> Any:
        return under_way(self.now, time.time())


def _name(label: str) -> str:
    return plain.line(label.removeprefix("gate "), _NAME)


def _end(ended: Result) -> str:
    known = ", known to be red" if ended.red and ended.known_red else ""
    took = f"{ended.seconds:.1f} s" if ended.seconds < 60 else plain.span(ended.seconds)
    return f"{f'{result.outcome(ended)}{known}':<10}  {took}"


def main(folder: Path, names: Sequence[str], leave: Leave) -> int:
    """Its exit code is that of a run which the gates let begin, or not."""
    table = Gates()
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
    print(*told, _summary(results, stopping), sep="\n")
    if not stopping:
        return Exit.OK
    print(f"no run begins like this: {result.refusal(stopping)[1]}")
    return Exit.USAGE


def _summary(results: Sequence[Result], stopping: Sequence[Result]) -> str:
    """`stopping`: those that let no run begin."""
    red = sum(one.red for one in results)
    if not red:
        one = len(results) == 1
        return "the gate is green" if one else f"all {len(results)} gates are green"
    counts = f"{len(results) - red} green, {red} red"
    return counts if stopping else f"{counts}, as kern.toml says: a run begins all the same"


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
