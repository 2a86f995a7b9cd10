"""The gates as a table, a row as each ends; on a terminal a line of the one that is at work."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from kern import plain
from kern.checks import result
from kern.config import Gate
from kern.events import Event, GateEnded, GateStarted, Warned
from kern.model import Result
from kern.views import progress

_HEARTBEAT_S = 30.0  # between signs of life on a pipe
_COLOURS = {"green": "32", "red": "31", "cannot run": "31", "stopped": "31"}
_SAID = len("cannot run")
_INDENT = 4
_WIDEST_NAME = 28


class Table:
    """A sink that prints rows on standard output, and warnings on standard error."""

    def __init__(self, *, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.drawable = self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.colours = self.drawable and not os.environ.get("NO_COLOR")
        self.width = 0  # of the names
        self.working: GateStarted | None = None
        self.beat = 0.0
        self.shown = ""

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
                self.close()
                word, *more = rows(ended, self.width)
                if self.colours:
                    said = result.outcome(ended)
                    colour = _COLOURS.get(said.partition(",")[0], "33")
                    word = word.replace(said, f"\x1b[{colour}m{said}\x1b[0m", 1)
                print(word, *more, sep="\n", file=self.out, flush=True)
            case Warned():
                self.close()
                print(f"warning: {plain.line(event.text, 600)}", file=self.err, flush=True)
            case _:
                pass

    def tick(self, seconds: float, silent: float) -> None:
        """The gate is at work since so many seconds."""
        if self.working is None:
            return
        name, command = _name(self.working.name), plain.line(self.working.command, 200)
        if self.drawable:
            text = f"{name:<{self.width}}  {progress.clock(seconds)}  {command}"
            if len(text) >= (columns := max(shutil.get_terminal_size().columns, 10)):
                text = f"{text[: columns - 2]}…"
            if text != self.shown:
                self.shown = text
                with contextlib.suppress(OSError, ValueError):
                    print(f"\r\x1b[K{text}", end="", file=self.out, flush=True)
        elif seconds - self.beat >= _HEARTBEAT_S:
            self.beat = seconds
            print(f"{name}: at work for {plain.span(seconds)}", file=self.err, flush=True)

    def close(self) -> None:
        """Take the line of the gate at work away."""
        if self.shown:
            self.shown = ""
            with contextlib.suppress(OSError, ValueError):
                print("\r\x1b[K", end="", file=self.out, flush=True)


def _name(label: str) -> str:
    return plain.line(label.removeprefix("gate "), _WIDEST_NAME)


def rows(ended: Result, width: int) -> list[str]:
    """The result, and below a red one what tells, and where the rest is."""
    known = ", known to be red" if ended.red and ended.known_red else ""
    said = f"{result.outcome(ended)}{known}"
    lines = [f"{_name(ended.name):<{width}}  {said:<{_SAID}}  {_took(ended.seconds)}"]
    if ended.red:
        indent = " " * _INDENT
        if first := result.first_failing(ended.output, result.TELLING):
            lines.append(f"{indent}{first}")
        lines += [f"{indent}{one}" for one in ended.closed if one != first]
        if ended.log and not ended.cannot_run:  # the shell's word is all there is
            lines.append(f"{indent}full output: {plain.line(ended.log)}")
    return lines


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else plain.span(seconds)


def summary(results: Sequence[Result], stopping: Sequence[Result]) -> str:
    """The last line. `stopping`: those that let no run begin."""
    red = [one for one in results if one.red]
    if not red:
        one = len(results) == 1
        return "the gate is green" if one else f"all {len(results)} gates are green"
    green = len(results) - len(red)
    counts = f"{green} green, {len(red)} red"
    return counts if stopping else f"{counts}, as kern.toml says: a run begins all the same"
