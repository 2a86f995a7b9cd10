"""A sink that prints: events on standard output, warnings and debug lines on standard error; plain
lines on a pipe, a live view on a terminal.
"""

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO, assert_never

from kern import events, models, plain
from kern.events import Event
from kern.journal import record, words
from kern.model import Outcome, Result, unverified
from kern.system import control
from kern.views import progress, summary
from kern.views.progress import Progress

_SHOWN_OF_A_GATE = 12  # lines of what a red one printed
_HEARTBEAT_S = 60  # between signs of life on a pipe
_LIMIT_HEARTBEAT_S = 600  # while a limit or a pause holds
_REDRAW_S = 0.25
_WIDEST = 100  # columns of a page; longer lines are hard to read
_STYLES = {
    Outcome.DONE: "bold green",
    Outcome.DECOMPOSED: "cyan",
    Outcome.SKIPPED: "yellow",
    Outcome.BLOCKED: "bold red",
    Outcome.CONCLUDED: "cyan",
    Outcome.ASKED: "bold yellow",
}


class Console:
    """Prints events. On a terminal it needs rich, which is loaded only there. Where standard output
    goes elsewhere nothing is drawn: `kern | tee FILE` shows its lines on that very terminal.
    """

    def __init__(
        self, *, verbose: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.verbose = verbose
        drawable = self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.live = _Live(self.out) if drawable else None
        self.progress = Progress()
        self.attempts: list[events.AttemptNoted] = []  # of this run
        self.beat = 0.0

    @property
    def watched(self) -> bool:
        """Whether a person looks at it: `kern | tee FILE` counts as such."""
        return self.out.isatty() or self.err.isatty()

    def __call__(self, event: Event) -> None:
        self.progress = progress.after(self.progress, event)
        if self.live and not isinstance(event, events.Acted):
            self.live.hide()
        match event:
            case events.RunStarted():
                self._started(event)
            case events.TaskStarted():
                resumed = f" (resumed: {event.resumed})" if event.resumed else ""
                if self.live:
                    self.live.print("", "")
                self._say(f"task: {plain.line(event.task, 160)}{resumed}", "bold")
            case events.StageStarted():
                mode = ", to split the task" if event.mode == "decompose" else ""
                self.beat = 0.0
                self._say(f"{self.progress.work}{self.progress.how}{mode}", "blue")
            case events.Acted():
                if self.verbose:
                    for call in event.act.calls:
                        self._tell(f"debug: {plain.line(call, 600)}", "dim")
            case events.StageFinished():
                self._finished(event)
            case events.StageFailed() | events.QuestionNoted() | events.ProbeStarted():
                pass  # what follows is said: another try, the question, what failed, the run's end
            case events.StageRetried():
                self._recorded(event, "yellow")
            case events.AttemptNoted():
                self.attempts.append(event)
                self._recorded(event, "yellow")
            case events.GateStarted():
                self._gate_started(event)
            case events.GateEnded():
                self._gate(event.result)
            case events.LimitReset():
                until = time.strftime("%a %H:%M", time.localtime(event.until))
                self._say(plain.line(event.text), "yellow")
                self._say(f"waiting until {until} (Ctrl-C ends; kern goes on from here)", "yellow")
            case events.Steered():
                self.beat = 0
                said = control.announced(event.asked, event.at_once, self.progress.work)
                self._say(said, "yellow")
            case events.TaskSettled():
                self._settled(event)
            case events.Planned():
                self._recorded(event, "bold green" if event.done else "cyan")
            case events.Learned():
                self._recorded(event)
            case events.Warned():
                self._tell(f"warning: {plain.line(event.text, 600)}", "yellow")
            case events.Traced():
                if self.verbose:
                    self._tell(f"debug: {plain.line(event.text, 600)}", "dim")
            case events.Waiting():
                self._say(f"next task in {event.seconds:g} s (Ctrl-C ends; kern goes on from here)")
            case events.RunEnded():
                self._summary(event)
            case _ as never:
                assert_never(never)

    def tick(self, seconds: float, silent: float) -> None:
        """The stage or gate is at work since so many seconds, the last of them without a sign."""
        if self.live:
            self.live.show(progress.lines(self.progress, seconds, silent))
        elif seconds - self.beat >= _HEARTBEAT_S:
            self.beat = seconds
            self._say(progress.beat(self.progress, seconds, silent))

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset."""
        if self.live:
            self.live.show([f"usage limit: again in {progress.clock(seconds)}"])
        elif seconds // _LIMIT_HEARTBEAT_S != self.beat and seconds > _LIMIT_HEARTBEAT_S:
            self.beat = seconds // _LIMIT_HEARTBEAT_S
            self._say(f"usage limit: again in {plain.span(seconds)}")

    def paused(self, seconds: float) -> None:
        """Since so long, until a person goes on."""
        if self.live:
            self.live.show([f"paused for {progress.clock(seconds)}  (kern resume, kern stop)"])
        elif seconds // _LIMIT_HEARTBEAT_S != self.beat:
            self.beat = seconds // _LIMIT_HEARTBEAT_S
            self._say(f"paused for {plain.span(seconds)}")

    def close(self) -> None:
        if self.live:
            self.live.hide()

    def _started(self, event: events.RunStarted) -> None:
        tasks = plain.count(event.open_tasks, "open task")
        self._say(f"kern in {event.root}, branch {event.branch}: {tasks}")
        self._say(f"run files: {event.folder}")
        if event.payer:
            self._say(f"billing: {plain.line(event.payer)}")
        if event.models:
            self._say(f"models: {plain.line(models.told(event.models))}")
        if event.forecast:
            self._say(f"forecast: {event.forecast}")
        for command in event.commands:
            self._say(plain.line(command, 160))

    def _recorded(self, event: Event, style: str = "") -> None:
        """As `kern log` will say it."""
        for row in record.of(event):
            first, *more = words.said(row)
            self._say(first, style)
            for line in more:
                self._say(line)

    def _finished(self, event: events.StageFinished) -> None:
        (row,) = record.of(event)
        first, *refused = words.said(row)
        self._say(first)
        for line in plain.block(event.text).strip().splitlines():
            self._say(f"  {line}", "dim")
        for line in refused:
            self._say(line, "yellow")

    def _gate_started(self, event: events.GateStarted) -> None:
        self.beat = 0.0
        when = ", before the task" if event.before else ""
        shown = "" if event.command in event.name else f": {plain.line(event.command, 120)}"
        self._say(f"{self.progress.work}{when}{shown}", "blue")

    def _gate(self, result: Result) -> None:
        colour = ("red" if result.blocks else "yellow") if result.red else "green"
        self._say(f"  {words.gate(result)}", colour)
        if result.red:
            for line in plain.block(result.output).strip().splitlines()[-_SHOWN_OF_A_GATE:]:
                self._say(f"    {line}", "dim")
            if result.log:
                self._say(f"    full output: {_logs(Path(result.log))}", "dim")

    def _settled(self, event: events.TaskSettled) -> None:
        """Green only with something behind it."""
        unproven = event.outcome is Outcome.DONE and unverified(event.proved)
        style = "bold yellow" if unproven else _STYLES[event.outcome]
        self._say(words.settled(event.outcome, event.detail, event.proved), style)

    def _summary(self, event: events.RunEnded) -> None:
        for text, style in summary.lines(event, self.attempts):
            self._print(text, style, self.out, stamped=False)

    def _say(self, text: str, style: str = "") -> None:
        self._print(text, style, self.out)

    def _tell(self, text: str, style: str) -> None:
        """Beside what the command is for."""
        self._print(text, style, self.err)

    def _print(self, text: str, style: str, stream: TextIO, *, stamped: bool = True) -> None:
        text = plain.block(text)  # names of folders and branches, too
        # A reader that is gone is no reason to stop paid work.
        with contextlib.suppress(OSError, ValueError):
            if self.live and stream.isatty():
                self.live.print(text, style)
            else:
                stamp = time.strftime("[%Y-%m-%d %H:%M:%S] ") if stamped else ""
                print(f"{stamp}{text}", file=stream, flush=True)


class _Live:
    """A few lines at the bottom that are redrawn; everything else scrolls above them."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console as Terminal

        self.terminal = Terminal(file=stream, highlight=False)
        self.display: Any = None
        self.shown: Sequence[str] = ()
        self.drawn = 0.0

    def print(self, text: str, style: str) -> None:
        self.terminal.print(text, style=style or None, markup=False, emoji=False)

    def show(self, lines: Sequence[str]) -> None:
        """The last of them is advice. Redrawn when they change, not more often than is seen."""
        from rich.live import Live
        from rich.text import Text

        now = time.monotonic()
        if lines == self.shown or now - self.drawn < _REDRAW_S:
            return
        self.shown, self.drawn = lines, now
        if self.display is None:
            # Drawn here alone: a thread of its own would draw four times a second for nothing.
            self.display = Live(
                console=self.terminal,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.display.start()
        text = Text("\n", no_wrap=True, overflow="ellipsis").join(
            Text(line, style="dim" if at else "bold") for at, line in enumerate(lines)
        )
        self.display.update(text, refresh=True)

    def hide(self) -> None:
        if self.display is not None:
            self.display.stop()
            self.display = None
            self.shown = ()


def _logs(log: Path) -> str:
    """Where a gate's log is now, and where it will be: it moves with the run files."""
    if not log.name.startswith("gate-"):
        return str(log)
    every = f"*{log.name}"
    return f"{log.parent / every}; once the task has ended, {log.parent / 'last' / every}"


def page(text: str) -> None:
    """A page of Markdown laid out on standard output, in the terminal's own colours."""
    from rich.console import Console as Terminal
    from rich.markdown import Markdown

    terminal = Terminal(highlight=False)
    terminal.width = min(terminal.width, _WIDEST)
    terminal.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
