"""The lines at the bottom of a terminal, drawn on a small model of one that wraps what it must."""

import os
import pty
import re
import termios
from collections.abc import Iterator

import pytest

from kern.views.live import Live

END = "\x1b[0n"


class Screen:
    """A terminal that becomes narrower wraps its lines again, as most do."""

    def __init__(self, columns: int, rows: int = 24) -> None:
        self.ours, self.theirs = pty.openpty()
        self.stream = os.fdopen(self.theirs, "w")
        self.lines = [""]  # the last is where the cursor is
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int = 24) -> None:
        self.columns = columns
        termios.tcsetwinsize(self.theirs, (rows, columns))
        self.lines = [part for line in self.lines for part in self._wrapped(line)]

    def _wrapped(self, line: str) -> list[str]:
        return [line[at : at + self.columns] for at in range(0, len(line), self.columns)] or [""]

    def read(self) -> list[str]:
        """What is on it, blank lines left out."""
        self.stream.write(END)
        self.stream.flush()
        data = b""
        while not data.endswith(END.encode()):  # the kernel passes it on when it has the time
            data += os.read(self.ours, 1 << 16)
        sent = data.decode().removesuffix(END)
        for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", sent):
            if part.endswith("A") and part[0] == "\x1b":
                self.lines = self.lines[: len(self.lines) - int(part[2:-1])]
                self.lines[-1:] = [""]  # kern goes to the line's beginning and clears
            elif part == "\x1b[J":
                self.lines[-1] = ""
            elif part == "\n":
                self.lines.append("")
            elif part[0] not in "\x1b\r":
                self.lines[-1:] = self._wrapped(self.lines[-1] + part)
        return [line for line in self.lines if line]


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen(80)
    yield made
    made.stream.close()
    os.close(made.ours)


def show(live: Live, *lines: str) -> None:
    live.drawn = 0.0  # the next may be drawn at once
    live.show(lines)


def test_lines_are_redrawn_in_place_and_taken_away(screen: Screen) -> None:
    live = Live(screen.stream)
    show(live, "one", "two")
    show(live, "three", "two")
    assert screen.read() == ["three", "two"]
    live.print("said", "")
    assert screen.read() == ["said"]
    show(live, "four")
    live.hide()
    assert screen.read() == ["said"]


@pytest.mark.parametrize("narrow", [10, 39, 40, 60, 79, 80, 140])
def test_a_resize_leaves_no_ghosts(screen: Screen, narrow: int) -> None:
    live = Live(screen.stream)
    live.print("said before", "")
    show(live, "x" * 100, "short", "y" * 60)
    assert screen.read() == ["said before", "x" * 78 + "…", "short", "y" * 60]
    screen.resize(narrow)
    show(live, "a" * 200, "b")
    first = [*screen._wrapped("said before")]
    assert screen.read() == [*first, "a" * (narrow - 2) + "…", "b"]


def test_no_line_is_wider_than_the_terminal_and_no_block_higher(screen: Screen) -> None:
    screen.resize(10, 4)
    live = Live(screen.stream)
    show(live, "漢字漢字漢字漢字", "b", "c", "d", "e")
    shown = screen.read()
    assert shown[0] == "漢字漢字…" and len(shown) == 3
