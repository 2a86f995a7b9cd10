"""A sink that prints: talk on stderr, plain lines on a pipe, a live line on a terminal."""

import contextlib
import sys
import time
from typing import Any, TextIO, assert_never

from kern import plain
from kern.events import (
    AttemptNoted,
    Event,
    GateEnded,
    GateStarted,
    Learned,
    LimitReset,
    RunEnded,
    RunStarted,
    StageFailed,
    StageFinished,
    StageRetried,
    StageStarted,
    TaskSettled,
    TaskStarted,
    Traced,
    Waiting,
    Warned,
)
from kern.pipeline import Outcome, Stage
from kern.proof import UNVERIFIED, Result

_MOST_SHOWN = 20  # waiting tasks in the summary
_SHOWN_OF_A_GATE = 12  # lines of what a red one printed
_HEARTBEAT_S = 600  # between signs of life on a pipe while a limit holds
_STYLES = {
    Outcome.DONE: "bold green",
    Outcome.DECOMPOSED: "cyan",
    Outcome.SKIPPED: "yellow",
    Outcome.BLOCKED: "bold red",
}


class Console:
    """Prints events. On a terminal it needs rich, which is loaded only there."""

    def __init__(self, *, verbose: bool = False, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.verbose = verbose
        self.live = _Live(self.stream) if self.stream.isatty() else None
        self.stage = ""
        self.task = ""
        self.beat = -1.0

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._started(event)
            case TaskStarted():
                self.task = event.task
                resumed = f" (resumed: {event.resumed})" if event.resumed else ""
                if self.live:
                    self.live.print("", "")
                self._say(f"task: {plain.line(event.task, 160)}{resumed}", "bold")
            case StageStarted():
                again = f", attempt {event.attempt}" if event.attempt > 1 else ""
                mode = ", to decompose" if event.mode == "decompose" else ""
                self.stage = str(event.stage)
                if isinstance(event.stage, Stage):
                    self.stage = f"stage {event.stage.number}/3 {event.stage}"
                self._say(f"{self.stage} ({plain.line(event.model, 40)}{again}{mode})", "blue")
            case StageFinished():
                self._finished(event)
            case StageFailed():
                pass  # what follows is said: another try, or the end of the run
            case StageRetried():
                self._say(
                    f"{plain.line(event.reason)}: again in {event.wait_seconds:.0f} s",
                    "yellow",
                )
            case AttemptNoted():
                self._say(f"attempt {event.number} failed: {plain.line(event.reason)}", "yellow")
                self._say(f"  its work: git show {event.ref}")
            case GateStarted():
                self.stage = plain.line(event.name, 60)
                when = ", before the task" if event.before else ""
                shown = "" if event.command in event.name else f": {plain.line(event.command, 120)}"
                self._say(f"{self.stage}{when}{shown}", "blue")
            case GateEnded():
                self._gate(event.result)
            case LimitReset():
                until = time.strftime("%a %H:%M", time.localtime(event.until))
                self._say(plain.line(event.text), "yellow")
                self._say(f"waiting until {until} (Ctrl-C ends; kern goes on from here)", "yellow")
            case TaskSettled():
                detail = f": {plain.line(event.detail)}" if event.detail else ""
                self._say(f"{event.outcome}{detail}", _STYLES[event.outcome])
            case Learned():
                self._say(f"learned: {plain.line(event.text, 160)}")
            case Warned():
                self._say(f"warning: {plain.line(event.text, 600)}", "yellow")
            case Traced():
                if self.verbose:
                    self._say(f"debug: {plain.line(event.text, 600)}", "dim")
            case Waiting():
                self._say(f"next task in {event.seconds:g} s (Ctrl-C ends; kern goes on from here)")
            case RunEnded():
                self._summary(event)
            case _ as never:
                assert_never(never)

    def tick(self, seconds: float) -> None:
        """The agent is at work since so many seconds."""
        if self.live:
            minutes, rest = divmod(int(seconds), 60)
            self.live.show(f"{self.stage}  {minutes}:{rest:02d}  {plain.line(self.task, 60)}")

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset."""
        if self.live:
            minutes, rest = divmod(int(seconds), 60)
            hours, minutes = divmod(minutes, 60)
            self.live.show(f"usage limit: again in {hours}:{minutes:02d}:{rest:02d}")
        elif seconds // _HEARTBEAT_S != self.beat and seconds > _HEARTBEAT_S:
            self.beat = seconds // _HEARTBEAT_S
            self._say(f"usage limit: again in {_span(seconds)}")

    def close(self) -> None:
        if self.live:
            self.live.hide()

    def _started(self, event: RunStarted) -> None:
        self._say(f"kern in {event.root}, branch {event.branch}: {event.open_tasks} open task(s)")
        self._say(f"stage files: {event.folder}")
        if event.payer:
            self._say(f"pays: {plain.line(event.payer)}")
        if event.forecast:
            self._say(f"forecast: {event.forecast}")
        for gate in event.gates:
            self._say(f"gate {plain.line(gate, 160)}")

    def _finished(self, event: StageFinished) -> None:
        cost = f", ${event.cost_usd:.4f}" if event.cost_usd is not None else ""
        self._say(f"{event.stage} took {event.seconds:.1f} s{cost}")
        for line in plain.block(event.text).strip().splitlines():
            self._say(f"  {line}", "dim")
        for tool in event.denied:
            self._say(f"  refused: {plain.line(tool, 160)}", "yellow")

    def _gate(self, result: Result) -> None:
        took = f", {result.seconds:.1f} s" if result.seconds else ""
        before = ", as it was before the task" if result.red and result.red_before else ""
        colour = ("red" if result.blocks else "yellow") if result.red else "green"
        said = f"red ({result.how}{took}){before}" if result.red else f"green{took}"
        self._say(f"  {plain.line(result.name)}: {said}", colour)
        if result.red:
            for line in plain.block(result.output).strip().splitlines()[-_SHOWN_OF_A_GATE:]:
                self._say(f"    {line}", "dim")
            if result.log:
                self._say(f"    all of it: {result.log}", "dim")

    def _summary(self, event: RunEnded) -> None:
        left = "SPEC.md unreadable" if event.open_tasks is None else f"{event.open_tasks} open"
        counts = f"{len(event.done)} done, {left}"
        self._say(f"{counts}, {_span(event.seconds)}, {_cost(event)}")
        for task, commit, proved in event.done:
            self._say(f"  [x] {plain.line(task, 100)}  ({plain.line(commit, 100)})", "green")
            self._say(f"      {plain.line(proved) or UNVERIFIED}")
        for task, done in event.decomposed:
            box, how = ("[x]", "by its subtasks") if done else ("[ ]", "split into subtasks")
            self._say(f"  {box} {plain.line(task, 100)}  ({how})", "cyan")
        for task, why in event.needs_help:
            self._say(f"  needs help: {plain.line(task, 100)}: {plain.line(why)}", "yellow")
        if event.stuck:
            self._say("open tasks remain, but none is ready:", "yellow")
            for task, why in event.stuck[:_MOST_SHOWN]:
                self._say(f"  {plain.line(task, 100)}: {plain.line(why)}", "yellow")
            if (more := len(event.stuck) - _MOST_SHOWN) > 0:
                self._say(f"  and {more} more: kern status", "yellow")
        if any(not proved for _, _, proved in event.done):
            self._say("unverified: kern ran no checks of its own; [gates] in kern.toml names them")
        if not event.interrupted:
            self._say(_next(event))

    def _say(self, text: str, style: str = "") -> None:
        text = plain.block(text)  # names of folders and branches, too
        with contextlib.suppress(
            OSError, ValueError
        ):  # a lost reader is no reason to stop paid work
            if self.live:
                self.live.print(text, style)
            else:
                print(f"[{time.strftime('%H:%M:%S')}] {text}", file=self.stream, flush=True)


class _Live:
    """One line at the bottom that is redrawn; everything else scrolls above it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console as Terminal

        self.terminal = Terminal(file=stream, highlight=False)
        self.status: Any = None
        self.shown = ""

    def print(self, text: str, style: str) -> None:
        self.hide()
        self.terminal.print(text, style=style or None, markup=False, emoji=False)

    def show(self, text: str) -> None:
        from rich.text import Text

        if text == self.shown:
            return
        self.shown = text
        if self.status is None:
            self.status = self.terminal.status(Text(text), refresh_per_second=4)
            self.status.start()
        else:
            self.status.update(Text(text))

    def hide(self) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None
            self.shown = ""


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0 s"


def _cost(event: RunEnded) -> str:
    if event.unpriced and not event.cost_usd:
        return "cost unknown"
    more = f" and {event.unpriced} stage(s) of unknown cost" if event.unpriced else ""
    return f"${event.cost_usd:.2f}{more}"


def _next(event: RunEnded) -> str:
    if event.needs_help or event.stuck:
        return "next: read the notes in SPEC.md, mend the task (delete a Blocked note), then: kern"
    if event.open_tasks:
        return f"next: kern {event.open_tasks} takes the other open tasks"
    return "all tasks are done: git log shows them"
