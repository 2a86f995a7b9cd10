"""A sink that prints what happens: a sentence each, as `kern log` says it, on standard output;
warnings and debug lines on standard error. On a terminal a live view stands below.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from kern import events, models, plain
from kern.events import Event
from kern.fleet.lanes import Picture
from kern.journal import words
from kern.journal.history import Record
from kern.model import Outcome, Result, unverified
from kern.views import progress, summary
from kern.views.summary import BAD, GOOD, HEAD, NOTICE

_SHOWN_OF_A_GATE = 12  # lines of what a red one printed
_HEARTBEAT_S = 60  # between signs of life on a pipe
_LIMIT_HEARTBEAT_S = 600  # while a limit holds
_WIDEST = 100  # columns of a page; longer lines are hard to read


class Console:
    """Where standard output goes elsewhere nothing is drawn: `kern | tee FILE` shows its lines on
    that very terminal.
    """

    def __init__(
        self, *, verbose: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.out, self.err, self.verbose = out or sys.stdout, err or sys.stderr, verbose
        self.screen = None
        if self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            from kern.views.live import Screen

            self.screen = Screen(self.out)
        self.now, self.many = Picture(), False
        self.stays = self.watched  # the person: until a stage has answered
        self.away = False  # the API: that it is asked again and again is not told
        self.began = self.beat = time.monotonic()

    @property
    def watched(self) -> bool:
        """Whether a person looks at it: `kern | tee FILE` counts as such."""
        return self.out.isatty() or self.err.isatty()

    def __call__(self, event: Event) -> None:
        if not isinstance(event, events.Acted):
            self.close()
            self.beat = time.monotonic()
        if not self.many:
            self.now = progress.after(self.now, event, time.time())
        if not self._repeats(event):
            self._tell(event)

    def _repeats(self, event: Event) -> bool:
        """Whether it only tells that an API that is away is asked again."""
        if isinstance(event, events.Outage):
            self.away = event.number > 0
            return event.number > 1
        if isinstance(event, events.Acted | events.StageFinished):
            self.away = False
        begun = events.StageStarted | events.GateStarted | events.GateEnded
        return self.away and isinstance(event, begun)

    def _tell(self, event: Event) -> None:
        match event:
            case events.RunStarted():
                self.began = time.monotonic()
                for line in _begun(event):
                    self._say(line, NOTICE if line == event.yours else "")
            case events.Acted() | events.Traced() | events.Recalled():
                for line in _traced(event) if self.verbose else ():
                    self._aside(f"debug: {line}")
            case events.Warned():
                self._aside(f"warning: {plain.line(event.text, 600)}", NOTICE)
            case events.GateStarted():
                when = ", before the task" if event.before else ""
                shown = "" if event.command in event.name else f": {plain.line(event.command, 120)}"
                self._say(f"{'landing: ' * self.many}{plain.line(event.name)}{when}{shown}", HEAD)
            case events.GateEnded():
                self._gate(event.result)
            case events.Steered():
                why = "the time of --until has come" if event.late else "asked to stop (kern stop)"
                work = "the stages in progress" if self.many else self.now.lane(1).doing
                self._say(f"{why}: ends {'here' if event.at_once else f'after {work}'}", NOTICE)
            case events.Waiting():
                self._say(f"next task in {event.seconds:g} s (Ctrl-C ends; kern goes on from here)")
            case events.RunEnded():
                self._end(event)
            case events.StageFailed() | events.QuestionNoted() | events.Sent():
                pass  # what follows says it: another try, how the task ends, the worker's line
            case _:
                if self.screen and isinstance(event, events.TaskStarted):
                    self.screen.print("")
                self._sentence(event)

    def _sentence(self, event: Event) -> None:
        for record in words.of(event):
            if record["kind"] == "commit":  # named in how the task ended
                continue
            first, *more = words.said(record)
            task = _of(record) if self.many else ""
            self._say(f"{first}{task}", _style(event))
            if isinstance(event, events.StageFinished):
                for line in plain.block(event.text).strip().splitlines():
                    self._say(f"  {line}")
            for line in more:
                self._say(line, NOTICE)
        if isinstance(event, events.StageFinished):
            self._let_go()
        elif isinstance(event, events.LimitReset):
            until = time.strftime("%a %H:%M", time.localtime(event.until))
            self._say(f"waiting until {until} (Ctrl-C ends; kern goes on from here)", NOTICE)

    def _let_go(self) -> None:
        if self.stays:
            self.stays = False
            self._say("the first stage has answered: you may leave", GOOD)

    def _gate(self, result: Result) -> None:
        colour = (BAD if result.blocks else NOTICE) if result.red else GOOD
        self._say(f"  {words.gate(result)}", NOTICE if result.flaky else colour)
        if result.red:
            for line in plain.block(result.output).strip().splitlines()[-_SHOWN_OF_A_GATE:]:
                self._say(f"    {line}")
            if result.log:
                self._say(f"    full output: {_logs(Path(result.log))}")

    def _end(self, event: events.RunEnded) -> None:
        for text, style in summary.lines(event):
            self._print(text, style, self.out, stamped=False)

    # ------------------------------------------------------------ while something is at work

    def tick(self, seconds: float, silent: float) -> None:
        """The stage or gate is at work, since `silent` seconds without a sign."""
        self._draw(silent)

    def lanes(self, now: Picture) -> None:
        """Of many at once, again and again."""
        self.now, self.many = now, True
        self._draw()

    def of_worker(self, record: Record) -> None:
        """As it comes."""
        if progress.tells(record):
            task = "" if record["kind"] == "task" else _of(record)
            said = f"{record.get('worker')}  {words.said(record)[0].strip()}{task}"
            self._say(said, HEAD if record["kind"] == "task" else "")
        if (record["kind"], record.get("did")) == ("stage", "end"):
            self._let_go()

    def _draw(self, silent: float = 0.0) -> None:
        if self.screen:
            from kern.views import live

            ran = time.monotonic() - self.began
            self.screen.show(live.drawn(self.now, time.time(), ran, silent))
        elif self._is_due(_HEARTBEAT_S):
            for line in progress.beats(self.now, time.time(), silent):
                self._say(line)

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset, or until an API that is away is asked again."""
        why = "the API is away" if self.away else "usage limit"
        if self.screen:
            self.screen.show(f"{why}: again in {progress.clock(seconds)}")
        elif self._is_due(_LIMIT_HEARTBEAT_S):
            self._say(f"{why}: again in {plain.span(seconds)}")

    def _is_due(self, every: float) -> bool:
        due = time.monotonic() - self.beat >= every
        self.beat = time.monotonic() if due else self.beat
        return due

    def close(self) -> None:
        if self.screen:
            self.screen.hide()

    # ------------------------------------------------------------ lines

    def _say(self, text: str, style: str = "") -> None:
        self._print(text, style, self.out)

    def _aside(self, text: str, style: str = "") -> None:
        """Beside what the command is for."""
        self._print(text, style, self.err)

    def _print(self, text: str, style: str, stream: TextIO, *, stamped: bool = True) -> None:
        text = plain.block(text)  # names of folders and branches, too
        # A reader that is gone is no reason to stop paid work.
        with contextlib.suppress(OSError, ValueError):
            if self.screen and stream.isatty():
                self.screen.print(text, style)
            else:
                stamp = time.strftime("[%Y-%m-%d %H:%M:%S] ") if stamped else ""
                print(f"{stamp}{text}", file=stream, flush=True)


def _begun(event: events.RunStarted) -> Iterator[str]:
    tasks = plain.count(event.open_tasks, "open task")
    yield f"kern in {event.root}, branch {event.branch}: {tasks}"
    yield from filter(None, [event.lands])
    until = time.strftime("%a %d %b %H:%M", time.localtime(event.until)) if event.until else ""
    named = {
        "run files": event.folder,
        "sandbox": event.sandbox,
        "awake": event.awake and f"the machine does not sleep while this run is on ({event.awake})",
        "billing": event.payer,
        "models": models.told(event.models) if event.models else "",
        "forecast": event.forecast,
        "until": until and f"no task and no stage is begun after {until}",
    }
    yield from (f"{name}: {plain.line(text)}" for name, text in named.items() if text)
    yield from (plain.line(command, 160) for command in event.commands)
    yield from filter(None, [event.yours])


def _of(record: Record) -> str:
    """Where several are under way: which task is meant."""
    task = plain.line(str(record.get("task") or ""), 40)
    return f"  ({task})" if task else ""


def _traced(event: events.Acted | events.Traced | events.Recalled) -> list[str]:
    match event:
        case events.Acted():
            return [plain.line(call, 600) for call in event.act.calls]
        case events.Traced():
            return [plain.line(event.text, 2000)]
    return [words.recalled(*words.of(event))]


def _style(event: Event) -> str:
    match event:
        case events.TaskSettled(outcome=Outcome.DONE):
            return NOTICE if unverified(event.proved) else GOOD
        case events.TaskSettled(outcome=Outcome.SKIPPED | Outcome.BLOCKED):
            return BAD
        case events.TaskStarted() | events.StageStarted():
            return HEAD
        case events.Planned() | events.Learned() | events.Voted() | events.StageFinished():
            return ""
    return NOTICE


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
