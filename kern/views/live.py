"""A few lines at the bottom of a terminal that are redrawn; everything else scrolls above them."""

import contextlib
import os
import time
from collections.abc import Sequence
from typing import TextIO

_REDRAW_S = 0.25
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"


class Live:
    """Needs rich, which is loaded only here: for colours, and for how wide a character is."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console as Terminal

        self.stream = stream
        self.terminal = Terminal(file=stream, highlight=False)
        self.shown: list[str] = []
        self.size = os.terminal_size((80, 24))
        self.drawn = 0.0

    @property
    def width(self) -> int:
        """Columns that a line may take; in the last one some terminals wrap already."""
        return max(self._size().columns - 1, 1)

    def print(self, text: str, style: str) -> None:
        self.hide()
        self.terminal.print(text, style=style or None, markup=False, emoji=False)

    def show(self, lines: Sequence[str]) -> None:
        """Redrawn when they change, not more often than is seen."""
        now, size = time.monotonic(), self._size()
        if size == self.size and self.shown and now - self.drawn < _REDRAW_S:
            return
        width = max(size.columns - 1, 1)
        cut = [_cut(line, width) for line in lines[: max(size.lines - 1, 1)]]
        if cut == self.shown and size == self.size:
            return
        head = f"{_BOLD}{cut[0]}{_PLAIN}" if cut else ""
        text = "\r\n".join([head, *cut[1:]])
        self._write(f"{self._erased(size)}{'' if self.shown else _HIDE}{text}")
        self.shown, self.size, self.drawn = cut, size, now

    def hide(self) -> None:
        if self.shown:
            self._write(f"{self._erased(self._size())}{_SHOW}")
            self.shown = []

    def _erased(self, size: os.terminal_size) -> str:
        """What takes the lines away. A terminal that became narrower has wrapped them, or there
        would be ghosts of them above.
        """
        from rich.cells import cell_len

        if not self.shown:
            return ""
        rows = sum(max(1, -(-cell_len(line) // size.columns)) for line in self.shown)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}\x1b[J"

    def _size(self) -> os.terminal_size:
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(self.stream.fileno())
            if size.columns and size.lines:
                return size
        return os.terminal_size((80, 24))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # its terminal is gone
            self.stream.write(text)
            self.stream.flush()


def _cut(line: str, width: int) -> str:
    """As much of it as there are columns for."""
    from rich.cells import cell_len, set_cell_size

    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}…"
