"""The gates as a table, a row as each ends; on a terminal a line of the one that is at work."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from kern import plain
from kern.checks import result
from kern.config import Gate
from kern.events import Event, GateEnded, GateStarted, Warned
from kern.model import Result
from kern.views import progress
from kern.views.summary import BAD, GOOD, NOTICE

_HEARTBEAT_S = 30.0  # between signs of life on a pipe
_WIDEST_NAME = 28


class Table:
    """A sink that prints rows on standard output, and warnings on standard error."""

    def __init__(self, *, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out, self.err = out or sys.stdout, err or sys.stderr
        self.screen = None
        if self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            from kern.views.live import Screen

            self.screen = Screen(self.out)
        self.width = 0  # of the names
        self.working: GateStarted | None = None
        self.beat = 0.0

    def expect(self, gates: Iterable[Gate]) -> None:
        """How wide the names are."""
        self.width = max((len(_name(gate.label)) for gate in gates), default=0)

    def __call__(self, event: Event) -> None:
        match event:
            case GateStarted():
                self.working, self.beat = event, 0.0
                self.tick(0.0, 0.0)
            case GateEnded(ended):
                self.working = None
                style = NOTICE if ended.flaky or ended.known_red else BAD if ended.red else GOOD
                for number, row in enumerate(rows(ended, self.width)):
                    self._print(row, "" if number else style)
            case Warned():
                self.close()
                print(f"warning: {plain.line(event.text, 600)}", file=self.err, flush=True)

    def tick(self, seconds: float, silent: float) -> None:
        """The gate is at work since so many seconds."""
        if self.working is None:
            return
        name, command = _name(self.working.name), plain.line(self.working.command, 200)
        if self.screen:
            self.screen.show(f"{name:<{self.width}}  {progress.clock(seconds)}  {command}")
        elif seconds - self.beat >= _HEARTBEAT_S:
            self.beat = seconds
            print(f"{name}: at work for {plain.span(seconds)}", file=self.err, flush=True)

    def _print(self, text: str, style: str) -> None:
        text = plain.block(text)
        if self.screen:
            self.screen.print(text, style)
        else:
            print(text, file=self.out, flush=True)

    def close(self) -> None:
        """Take the line of the gate at work away."""
        if self.screen:
            self.screen.hide()


def _name(label: str) -> str:
    return plain.line(label.removeprefix("gate "), _WIDEST_NAME)


def rows(ended: Result, width: int) -> list[str]:
    """The result, and below a red one what tells, and where the rest is."""
    known = ", known to be red" if ended.red and ended.known_red else ""
    took = f"{ended.seconds:.1f} s" if ended.seconds < 60 else plain.span(ended.seconds)
    lines = [f"{_name(ended.name):<{width}}  {f'{result.outcome(ended)}{known}':<10}  {took}"]
    if ended.red:
        first = result.first_failing(ended.output, result.TELLING)
        lines += [f"    {one}" for one in dict.fromkeys([first, *ended.closed]) if one]
        if ended.log and not ended.cannot_run:  # the shell's word is all there is
            lines.append(f"    full output: {plain.line(ended.log)}")
    return lines


def summary(results: Sequence[Result], stopping: Sequence[Result]) -> str:
    """The last line. `stopping`: those that let no run begin."""
    red = sum(one.red for one in results)
    if not red:
        one = len(results) == 1
        return "the gate is green" if one else f"all {len(results)} gates are green"
    counts = f"{len(results) - red} green, {red} red"
    return counts if stopping else f"{counts}, as kern.toml says: a run begins all the same"
