"""A sink that prints: events on standard output, warnings and debug lines on standard error; plain
lines on a pipe, a live view on a terminal.
"""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TextIO

from kern import events, models, plain
from kern.events import Event
from kern.fleet.lanes import Picture
from kern.journal import words
from kern.journal.history import Record
from kern.model import Outcome, Result, unverified
from kern.views import progress, summary
from kern.views.live import Live
from kern.views.progress import Progress, Seen
from kern.views.summary import BAD, GOOD, HEAD, NOTICE

_SHOWN_OF_A_GATE = 12  # lines of what a red one printed
_HEARTBEAT_S = 60  # between signs of life on a pipe
_LIMIT_HEARTBEAT_S = 600  # while a limit holds
_WIDEST = 100  # columns of a page; longer lines are hard to read
_STYLES = {
    Outcome.DONE: GOOD,
    Outcome.DECOMPOSED: HEAD,
    Outcome.SKIPPED: NOTICE,
    Outcome.BLOCKED: BAD,
    Outcome.CONCLUDED: HEAD,
    Outcome.ASKED: NOTICE,
}


class Console:
    """Prints events. On a terminal it needs rich, which is loaded only there. Where standard output
    goes elsewhere nothing is drawn: `kern | tee FILE` shows its lines on that very terminal.
    """

    def __init__(
        self,
        *,
        verbose: bool = False,
        quiet: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        """`quiet`: only the summary."""
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.verbose = verbose
        drawable = self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.live = Live(self.out) if drawable and not quiet else None
        self.quiet = quiet
        self.began = time.monotonic()
        self.progress = Progress()
        self.stays = self.watched  # the person: until a stage has answered
        self.away = False  # the API: that it is asked again and again is not told
        self.beat = 0.0
        self.many = 0.0  # when the lanes of many at once were shown; 0: there are none

    @property
    def watched(self) -> bool:
        """Whether a person looks at it: `kern | tee FILE` counts as such."""
        return self.out.isatty() or self.err.isatty()

    def __call__(self, event: Event) -> None:
        self.progress = progress.after(self.progress, event)
        if self.live and not isinstance(event, events.Acted):
            self.live.hide()
        if not self._of_an_outage(event):
            self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case events.RunStarted():
                self._started(event)
            case events.TaskStarted():
                resumed = f" (resumed: {event.resumed})" if event.resumed else ""
                if self.live:
                    self.live.print("", "")
                self._say(f"task: {plain.line(event.task, 160)}{resumed}", HEAD)
            case events.StageStarted():
                mode = ", to split the task" if event.mode == "decompose" else ""
                self.beat = 0.0
                self._say(f"{self.progress.work}{self.progress.how}{mode}", HEAD)
            case events.Acted():
                if self.verbose:
                    for call in event.act.calls:
                        self._tell(f"debug: {plain.line(call, 600)}")
            case events.StageFinished():
                self._finished(event)
            case events.StageRetried() | events.StoodIn() | events.Outage() | events.AttemptNoted():
                self._recorded(event, NOTICE)
            case events.GateStarted():
                self._gate_started(event)
            case events.GateEnded():
                self._gate(event.result, before=event.before)
            case events.LimitReset():
                until = time.strftime("%a %H:%M", time.localtime(event.until))
                self._say(plain.line(event.text), NOTICE)
                self._say(f"waiting until {until} (Ctrl-C ends; kern goes on from here)", NOTICE)
            case events.Steered():
                self.beat = 0
                work = "the stages in progress" if self.many else self.progress.work
                late = "the time of --until has come"
                why = late if event.late else "asked to stop (kern stop)"
                self._say(f"{why}: ends {'here' if event.at_once else f'after {work}'}", NOTICE)
            case events.TaskSettled():
                self._settled(event)
            case events.Planned():
                self._recorded(event, GOOD if event.done else "")
            case events.Learned() | events.Voted():
                self._recorded(event)
            case events.Warned():
                self._warned(event)
            case events.Traced() | events.Recalled():
                self._traced(event)
            case events.Waiting():
                self._say(f"next task in {event.seconds:g} s (Ctrl-C ends; kern goes on from here)")
            case events.RunEnded():
                self._summary(event)
            # Of the others, what follows is said: another try, the question, the worker's line.

    def tick(self, seconds: float, silent: float) -> None:
        """The stage or gate is at work since so many seconds, the last of them without a sign."""
        if self.live:
            ran, clock = time.monotonic() - self.began, time.strftime("%H:%M")
            seen = Seen(self.live.width, ran, clock)
            self.live.show(progress.lines(self.progress, seconds, silent, seen))
        elif seconds - self.beat >= _HEARTBEAT_S:
            self.beat = seconds
            self._say(progress.beat(self.progress, seconds, silent))

    def _of_an_outage(self, event: Event) -> bool:
        """Whether it only tells that an API that is away is asked again."""
        if isinstance(event, events.Outage):
            self.away = event.number > 0
            return event.number > 1
        if isinstance(event, events.Acted | events.StageFinished):
            self.away = False
        begun = events.StageStarted | events.GateStarted | events.GateEnded
        return self.away and isinstance(event, begun)

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset, or until an API that is away is asked again."""
        if self.live:
            why = "the API is away" if self.away else "usage limit"
            self.live.show([f"{why}: again in {progress.clock(seconds)}"])
        elif seconds // _LIMIT_HEARTBEAT_S != self.beat and seconds > _LIMIT_HEARTBEAT_S:
            self.beat = seconds // _LIMIT_HEARTBEAT_S
            self._say(f"usage limit: again in {plain.span(seconds)}")

    def lanes(self, now: Picture) -> None:
        """Of many at once, again and again."""
        self.many = self.many or time.monotonic()
        if self.live:
            ran, at = time.monotonic() - self.began, time.strftime("%H:%M")
            seen = Seen(self.live.width, ran, at)
            self.live.show(progress.lanes(now, seen, time.time()))
        elif time.monotonic() - self.many >= _HEARTBEAT_S:
            self.many = time.monotonic()
            for line in progress.lanes(now, Seen(_WIDEST), time.time())[:-1]:
                self._say(line)

    def of_worker(self, record: Record) -> None:
        """As it comes."""
        for line in progress.told(record):
            if self.live:
                self.live.hide()
            self._say(line, HEAD if record["kind"] == "task" else "")
        if (record["kind"], record.get("did")) == ("stage", "end"):
            self._let_go()

    def close(self) -> None:
        if self.live:
            self.live.hide()

    def _started(self, event: events.RunStarted) -> None:
        self.began = time.monotonic()
        tasks = plain.count(event.open_tasks, "open task")
        self._say(f"kern in {event.root}, branch {event.branch}: {tasks}")
        if event.lands:
            self._say(event.lands)
        self._say(f"run files: {event.folder}")
        if event.sandbox:
            self._say(f"sandbox: {event.sandbox}")
        if event.awake:
            self._say(f"awake: the machine does not sleep while this run is on ({event.awake})")
        if event.payer:
            self._say(f"billing: {plain.line(event.payer)}")
        if event.models:
            self._say(f"models: {plain.line(models.told(event.models))}")
        if event.forecast:
            self._say(f"forecast: {event.forecast}")
        if event.until:
            until = time.strftime("%a %d %b %H:%M", time.localtime(event.until))
            self._say(f"until: no task and no stage is begun after {until}")
        for command in event.commands:
            self._say(plain.line(command, 160))
        if event.yours:
            self._say(event.yours, NOTICE)

    def _recorded(self, event: Event, style: str = "") -> None:
        """As `kern log` will say it."""
        for row in words.of(event):
            first, *more = words.said(row)
            self._say(f"{first}{self._of(str(row.get('task') or ''))}", style)
            for line in more:
                self._say(line)

    def _traced(self, event: events.Traced | events.Recalled) -> None:
        if self.verbose:
            said = [event.text] if isinstance(event, events.Traced) else []
            for text in said or map(words.recalled, words.of(event)):
                self._tell(f"debug: {plain.line(text, 2000)}")

    def _finished(self, event: events.StageFinished) -> None:
        (row,) = words.of(event)
        first, *refused = words.said(row)
        self._say(first)
        for line in plain.block(event.text).strip().splitlines():
            self._say(f"  {line}")
        for line in refused:
            self._say(line, NOTICE)
        self._let_go()

    def _let_go(self) -> None:
        if self.stays:
            self.stays = False
            self._say("the first stage has answered: you may leave", GOOD)

    def _warned(self, event: events.Warned) -> None:
        self._tell(f"warning: {plain.line(event.text, 600)}", NOTICE)

    def _gate_started(self, event: events.GateStarted) -> None:
        self.beat = 0.0
        when = ", before the task" if event.before else ""
        shown = "" if event.command in event.name else f": {plain.line(event.command, 120)}"
        landing = "landing: " if self.many else ""  # the workers' own gates are told as they end
        self._say(f"{landing}{self.progress.work}{when}{shown}", HEAD)

    def _gate(self, result: Result, *, before: bool) -> None:
        # A task's own has no name but its command, and the task is there to turn it green.
        awaited = before and result.name.startswith("gate `") and not result.cannot_run
        colour = (BAD if result.blocks else NOTICE) if result.red else GOOD
        self._say(f"  {words.gate(result)}", NOTICE if result.flaky else colour)
        if result.red and awaited:
            last = plain.block(result.output).strip().rpartition("\n")[2]
            kept = f"its output: {_logs(Path(result.log))}" if result.log else last
            shown = f" ({kept})" if kept else ""
            self._say(f"    red, as a task's own gate may be before it{shown}")
        elif result.red:
            for line in plain.block(result.output).strip().splitlines()[-_SHOWN_OF_A_GATE:]:
                self._say(f"    {line}")
            if result.log:
                self._say(f"    full output: {_logs(Path(result.log))}")

    def _settled(self, event: events.TaskSettled) -> None:
        """Green only with something behind it."""
        unproven = event.outcome is Outcome.DONE and unverified(event.proved)
        style = NOTICE if unproven else _STYLES[event.outcome]
        said = words.settled(event.outcome, event.detail, event.proved)
        self._say(f"{said}{self._of(event.task)}", style)

    def _of(self, task: str) -> str:
        """Where several are under way: which is meant."""
        return f"  ({plain.line(task, progress.NAMED)})" if self.many and task else ""

    def _summary(self, event: events.RunEnded) -> None:
        for text, style in summary.lines(event):
            self._print(text, style, self.out, stamped=False)

    def _say(self, text: str, style: str = "") -> None:
        if not self.quiet:
            self._print(text, style, self.out)

    def _tell(self, text: str, style: str = "") -> None:
        """Beside what the command is for."""
        if not self.quiet:
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
