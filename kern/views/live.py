"""The bottom of a terminal while a run is on: a line for each task under way, redrawn by rich;
everything else scrolls above it.
"""

import contextlib
import time
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kern import plain
from kern.fleet.lanes import Picture
from kern.views import progress

_REDRAW_S = 0.25
_TASK = 12  # columns at least


class Screen:
    def __init__(self, stream: TextIO) -> None:
        self.console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self.live: Live | None = None
        self.drawn = 0.0

    def print(self, text: str, style: str = "") -> None:
        self.hide()
        with contextlib.suppress(OSError, ValueError):  # its terminal is gone
            self.console.print(text, style=style or None)

    def show(self, shown: RenderableType) -> None:
        """Not more often than is seen; of a text one line."""
        if isinstance(shown, str):
            shown = Text(shown, no_wrap=True, overflow="ellipsis")
        if self.live and time.monotonic() - self.drawn < _REDRAW_S:
            return
        self.drawn = time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            if self.live:
                self.live.update(shown, refresh=True)
                return
            self.live = Live(
                shown,
                console=self.console,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.live.start(refresh=True)

    def hide(self) -> None:
        live, self.live = self.live, None
        if live:
            with contextlib.suppress(OSError, ValueError):
                live.stop()


def drawn(now: Picture, at: float, ran: float, silent: float = 0.0) -> RenderableType:
    """`at`: epoch seconds; the others as in `progress.figures`."""
    several = len(now.lanes) > 1
    table = Table.grid(padding=(0, 2), expand=True)
    cut: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
    if several:
        table.add_column(min_width=len(str(now.lanes[-1].worker)))
    table.add_column(**cut, style="bold")
    table.add_column(min_width=4, no_wrap=True)
    table.add_column(**cut, min_width=_TASK, ratio=1)
    for lane in now.lanes:
        since = progress.clock(at - lane.since) if lane.doing else ""
        number = [str(lane.worker)] if several else []
        table.add_row(*number, Text(lane.doing or "idle"), since, Text(plain.line(lane.task)))
    calls = [f"  {call}" for lane in now.lanes for call in lane.calls]
    cut_off = [Text(line, **cut) for line in (*calls, *progress.landing(now, at))]
    return Group(table, *cut_off, Text(progress.figures(now, ran, silent)), Text(progress.STOP))
