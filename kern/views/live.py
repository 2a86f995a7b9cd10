"""What a run says while it goes on: a sentence for each event, as `kern log` has it, on standard
output; warnings and debug lines on standard error. On a terminal rich draws below them what is
under way, by the journal's own fold: a line for each worker.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from rich.console import Console as Terminal
from rich.console import Group
from rich.live import Live
from rich.text import Text

from kern import plain
from kern.events import Event, Record, RunEnded
from kern.journal import sentences, store
from kern.journal.history import NEEDY, Doing, History, Run
from kern.model import Outcome, unverified
from kern.views import log, summary
from kern.views.summary import BAD, GOOD, HEAD, NOTICE

STOP = "Ctrl-C ends it now, kern stop after this stage; kern goes on from there"
_SILENT_S = 120  # from here on silence is said
_REDRAW_S = 0.25
_HEARTBEAT_S = 300  # between signs of life, where nothing is drawn
_CALLS = 4  # of an agent, the last ones
# Of a worker's. How its task or its kern ended without a commit, the run itself says.
_TOLD = ("attempt", "retry", "stand-in", "limit", "work", "task start", "stage end", "gate red")


class Console:
    """A sink. Where standard output goes elsewhere nothing is drawn: `kern | tee FILE` shows its
    lines on that very terminal.
    """

    def __init__(
        self, *, verbose: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.out, self.err, self.verbose = out or sys.stdout, err or sys.stderr, verbose
        draws = self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        own = Terminal(file=self.out, highlight=False, markup=False, emoji=False)
        self.terminal = own if draws else None
        self.below: Live | None = None
        self.beat = self.began = time.monotonic()
        self.past, self.now = History(), Run()
        self.tasks, self.max_cost = 0, 0.0
        self.calls: list[str] = []  # of the stage's agent
        self.stays = self.watched  # the person, until a stage has answered

    @property
    def watched(self) -> bool:
        """Whether a person looks at it: `kern | tee FILE` counts as such."""
        return self.out.isatty() or self.err.isatty()

    def say(
        self, text: str, style: str = "", stream: TextIO | None = None, *, dated: bool = True
    ) -> None:
        """`dated`: with the time, where it goes to no terminal."""
        text, stream = plain.block(text), stream or self.out  # names of folders and branches, too
        with contextlib.suppress(OSError, ValueError):  # a reader that is gone stops no paid work
            if self.terminal and stream.isatty():
                self.close()
                self.terminal.print(log.wrapped(text, self.terminal.width), style=style or None)
            else:
                at = time.strftime("[%Y-%m-%d %H:%M:%S] ") if dated else ""
                print(f"{at}{text}", file=stream, flush=True)

    # ------------------------------------------------------------ what happens

    def __call__(self, event: Event) -> None:
        record = {"time": store.now(), "run": self.now.run, **event.record}
        if record["kind"] == "act":
            self.calls += [plain.line(call, 200) for call in record["calls"]]
            self._debug(*record["calls"])
            return
        self.close()
        self.beat = time.monotonic()
        if event.kept:
            self.now, self.calls = self.past.add(record), []
        if isinstance(event, RunEnded):
            for text, style in summary.lines(event):
                self.say(text, style, dated=False)
        elif not self.now.repeats(record):
            self._tell(record, event.below)

    def _tell(self, record: Record, below: Sequence[str]) -> None:
        match record["kind"], record.get("did"):
            case "run", "start":
                self._begin(record, below)
            case "debug" | "recall", _:
                self._debug(*sentences.format_record(record))
            case "warning", _:
                self.say(f"warning: {plain.line(record['text'], 600)}", NOTICE, self.err)
            case "gate", "start":
                self._begin_gate(record)
            case ("stage", "failed") | ("error", _):
                pass  # what follows of it is said
            case _:
                self._sentence(record, below)

    def _debug(self, *texts: str) -> None:
        for text in texts if self.verbose else ():
            self.say(f"debug: {plain.line(text, 2000)}", "", self.err)

    def _begin(self, record: Record, below: Sequence[str]) -> None:
        self.began, self.max_cost = self.beat, record["max_cost"]
        self.tasks = min(record["iterations"], record["open"])
        tasks = plain.count(record["open"], "open task")
        self.say(f"kern in {record['root']}, branch {record['branch']}: {tasks}")
        for line in below:
            self.say(line)

    def _begin_gate(self, record: Record) -> None:
        """Said once, also of one that is red and runs again."""
        name, command = plain.line(record["gate"], 60), plain.line(record["command"], 120)
        before = self.now.workers.get(0)
        self.now.workers[0], self.calls = Doing(name, command, record["time"], 1), []
        if before and before.doing == name:
            return
        when = ", before the task" if record["before"] else ""
        what = "" if command in name else f": {command}"
        self.say(f"{'landing: ' * self.now.many}{name}{when}{what}", HEAD)

    def _sentence(self, record: Record, below: Sequence[str] = ()) -> None:
        first, *more = sentences.format_record(record, many=self.now.many)
        self.say(first, style_of(record))
        for line in (*below, *more):
            self.say(line)
        if record["kind"] == "gate" and "worker" not in record:
            self.now.workers.pop(0, None)
        if self.stays and (record["kind"], record.get("did")) == ("stage", "end"):
            self.stays = False
            self.say("the first stage has answered: you may leave", GOOD)

    def of_worker(self, record: Record) -> None:
        """Of many at once, as it comes."""
        self.now = self.past.add(record)
        kind = f"{record['kind']} {'red' if record.get('red') else record.get('did')}"
        if kind.startswith(_TOLD) and not self.now.repeats(record):
            self._sentence(record)

    # ------------------------------------------------------------ while something is at work

    def tick(self, seconds: float, silent: float) -> None:
        """The stage or gate is at work, since `silent` seconds without a sign."""
        calls = [f"  {call}" for call in self.calls[-_CALLS:]]
        self._show(lambda: [*self.doing(time.time()), self.figures(silent)], [*calls, STOP])

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset, or until an API that is away is asked again."""
        why = "the API is away" if self.now.away else "usage limit"
        self._show(lambda: [f"{why}: again in {plain.span(round(seconds))}"])

    def _show(self, lines: Callable[[], list[str]], more: Sequence[str] = ()) -> None:
        """Not more often than is seen. Where nothing is drawn the first lines are signs of life."""
        now, pause = time.monotonic(), _REDRAW_S if self.terminal else _HEARTBEAT_S
        if now - self.beat < pause:
            return
        self.beat = now
        if not self.terminal:
            for line in lines():
                self.say(line)
            return
        with contextlib.suppress(OSError, ValueError):
            if not self.below:
                self.below = Live(console=self.terminal, transient=True, auto_refresh=False)
                self.below.start()
            self.below.update(picture(*lines(), *more), refresh=True)

    def close(self) -> None:
        below, self.below = self.below, None
        if below:
            with contextlib.suppress(OSError, ValueError):
                below.stop()

    def doing(self, at: float) -> list[str]:
        """A line for each worker. `at`: epoch seconds."""
        workers = sorted(self.now.workers.items())
        return [sentences.format_doing(number, one, at) for number, one in workers]

    def figures(self, silent: float) -> str:
        """What matters most comes first. `silent`: seconds without a sign of the agent."""
        ends, tokens = self.now.ends, self.now.sums[1]
        needs = sum(ends[one] for one in NEEDY)
        most = f" of ${self.max_cost:.2f}" if self.max_cost else ""
        parts = (
            f"no sign of life for {plain.span(silent)}" if silent >= _SILENT_S else "",
            f"{self.now.cost}{most}" if self.max_cost or self.now.stages else "",
            f"{needs} need you" if needs else "",
            f"{ends['done']} of {max(self.tasks, ends['done'])} done" if self.tasks else "",
            plain.span(round(time.monotonic() - self.began)),
            f"{sentences.short(tokens)} tokens" if tokens else "",
        )
        return " · ".join(filter(None, parts))


def picture(*lines: str) -> Group:
    """Of a narrow terminal each line loses its end."""
    cut: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
    return Group(*(Text(line, **cut) for line in lines))


def style_of(record: Record) -> str:
    match record["kind"], record.get("did"):
        case _, "start":
            return HEAD
        case "task", Outcome.DONE:
            return NOTICE if unverified(str(record.get("proved"))) else GOOD
        case "gate", _:
            doubtful = record.get("flaky") or record.get("red_before")
            return NOTICE if doubtful else BAD if record.get("red") else GOOD
    return "" if record["kind"] in ("stage", "plan", "learning", "vote", "pause") else NOTICE
