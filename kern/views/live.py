"""What a run says while it goes on: a sentence for each event, as `kern log` has it, on standard
output; warnings and debug lines on standard error. On a terminal rich draws below them what is
under way, by the journal's own fold: a line for each worker.
"""

import contextlib
import os
import sys
import time
from typing import Any, TextIO

from rich.console import Console as Terminal
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kern import events, plain
from kern.events import Event, Record
from kern.journal import sentences, store
from kern.journal.history import Doing, History, Run
from kern.journal.totals import NEEDY
from kern.model import Outcome, unverified
from kern.views import summary
from kern.views.summary import BAD, GOOD, HEAD, NOTICE

STOP = "Ctrl-C ends it now, kern stop after this stage; kern goes on from there"
_SILENT_S = 120  # from here on silence is said
_REDRAW_S = 0.25
_HEARTBEAT_S = 300  # between signs of life, where nothing is drawn
_CALLS = 4  # of an agent, the last ones
_OF_A_GATE = 12  # lines of what a red one printed
# Of a worker's. How its task or its kern ended without a commit, the run itself says.
_TOLD = ("attempt", "retry", "stand-in", "limit", "work", "task start", "stage end")
_CUT: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}


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
        self.past, self.now, self.many = History(), Run(), False
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
                self.terminal.print(text, style=style or None)
            else:
                at = time.strftime("[%Y-%m-%d %H:%M:%S] ") if dated else ""
                print(f"{at}{text}", file=stream, flush=True)

    # ------------------------------------------------------------ what happens

    def __call__(self, event: Event) -> None:
        if isinstance(event, events.Acted):
            self.calls += [plain.line(call, 200) for call in event.act.calls]
            self._debug(*event.act.calls)
            return
        self.close()
        self.beat = time.monotonic()
        rows = [{"time": store.now(), "run": self.now.run, **row} for row in event.records()]
        for row in rows:
            self.now, self.calls = self.past.add(row), []
        if not any(map(self.now.repeats, rows)):
            self._tell(event, rows)

    def _tell(self, event: Event, rows: list[dict[str, Any]]) -> None:
        match event:
            case events.RunStarted():
                self._begin(event)
            case events.Traced(text=text):
                (self.say if event.plain else self._debug)(text)
            case events.Recalled():
                self._debug(*sentences.format_record(rows[0]))
            case events.Warned():
                self.say(f"warning: {plain.line(event.text, 600)}", NOTICE, self.err)
            case events.GateStarted() if not self.now.away:
                self._begin_gate(event)
            case events.Steered():
                why = "the time of --until has come" if event.late else "asked to stop (kern stop)"
                end = "here" if event.at_once else "after the stage in progress"
                self.say(f"{why}: ends {end}", NOTICE)
            case events.RunEnded():
                for text, style in summary.lines(event):
                    self.say(text, style, dated=False)
            case events.StageEnded() if event.reason:
                pass  # what follows of it is said
            case events.GateStarted():
                pass
            case _:
                self._sentence(event, rows[0])

    def _debug(self, *texts: str) -> None:
        for text in texts if self.verbose else ():
            self.say(f"debug: {plain.line(text, 2000)}", "", self.err)

    def _begin(self, event: events.RunStarted) -> None:
        self.began, self.max_cost = self.beat, event.max_cost
        self.tasks = min(event.iterations, event.open_tasks)
        tasks = plain.count(event.open_tasks, "open task")
        self.say(f"kern in {event.root}, branch {event.branch}: {tasks}")
        for name, text in event.facts.items():
            if text:
                self.say(f"{name}: {plain.line(text)}" if name else text)
        for command in event.lines:
            self.say(plain.line(command, 160))
        if event.yours:
            self.say(event.yours, NOTICE)

    def _begin_gate(self, event: events.GateStarted) -> None:
        doing = Doing(plain.line(event.name, 60), event.command, store.now(), 1)
        self.now.workers[0], self.calls = doing, []
        when = ", before the task" if event.before else ""
        what = "" if event.command in event.name else f": {plain.line(event.command, 120)}"
        self.say(f"{'landing: ' * self.many}{plain.line(event.name)}{when}{what}", HEAD)

    def _sentence(self, event: Event, record: Record) -> None:
        first, *more = sentences.format_record(record)
        self.say(first + _of(record) * self.many, style_of(record))
        for line in (*_below(event), *more):
            self.say(line)
        if isinstance(event, events.GateEnded):
            self.now.workers.pop(0, None)
        self._let_go(record)

    def _let_go(self, record: Record) -> None:
        if self.stays and (record["kind"], record.get("did")) == ("stage", "end"):
            self.stays = False
            self.say("the first stage has answered: you may leave", GOOD)

    def of_worker(self, record: Record) -> None:
        """Of many at once, as it comes."""
        self.now, self.many = self.past.add(record), True
        kind = f"{record['kind']} {record.get('did')}"
        if kind.startswith(_TOLD) and record.get("commit", "none yet"):
            text = sentences.format_record(record)[0] + _of(record) * (kind != "task start")
            self.say(f"{record.get('worker')}  {text}", style_of(record))
        self._let_go(record)

    # ------------------------------------------------------------ while something is at work

    def tick(self, seconds: float, silent: float) -> None:
        """The stage or gate is at work, since `silent` seconds without a sign."""
        at, doing = time.time(), list[str]()
        for number, one in sorted(self.now.workers.items()):
            head = sentences.format_doing(number, one)
            doing.append(f"{head} for {one.lasts(at)}{_quiet(silent)}")
        self._show(Group(self.under_way(at), self.figures(silent), STOP), *doing)

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset, or until an API that is away is asked again."""
        why = "the API is away" if self.now.away else "usage limit"
        text = f"{why}: again in {plain.span(round(seconds))}"
        self._show(text, text)

    def _show(self, picture: RenderableType, *lines: str) -> None:
        """Not more often than is seen; the lines, where nothing is drawn, as a sign of life."""
        now, pause = time.monotonic(), _REDRAW_S if self.terminal else _HEARTBEAT_S
        if now - self.beat < pause:
            return
        self.beat = now
        if not self.terminal:
            for line in lines:
                self.say(line)
            return
        with contextlib.suppress(OSError, ValueError):
            if not self.below:
                self.below = Live(console=self.terminal, transient=True, auto_refresh=False)
                self.below.start()
            self.below.update(picture, refresh=True)

    def close(self) -> None:
        below, self.below = self.below, None
        if below:
            with contextlib.suppress(OSError, ValueError):
                below.stop()

    def under_way(self, at: float) -> RenderableType:
        """A line for each worker. `at`: epoch seconds."""
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(**_CUT, style="bold")
        table.add_column(min_width=9, no_wrap=True)
        table.add_column(**_CUT, min_width=12, ratio=1)
        for number, one in sorted(self.now.workers.items()):
            doing = sentences.format_doing(number, one)
            table.add_row(Text(doing), one.lasts(at), Text(plain.line(one.task)))
        return Group(table, *(Text(f"  {call}", **_CUT) for call in self.calls[-_CALLS:]))

    def figures(self, silent: float = 0.0) -> Text:
        """What matters most comes first. `silent`: seconds without a sign of the agent."""
        ends, spent = self.now.ends, self.now.spent
        needs, tokens = sum(ends[one] for one in NEEDY), spent.sums[1]
        most = f" of ${self.max_cost:.2f}" if self.max_cost else ""
        parts = (
            _quiet(silent).removeprefix(", "),
            f"{spent.cost}{most}" if self.max_cost or spent.stages else "",
            f"{needs} need you" if needs else "",
            f"{ends['done']} of {max(self.tasks, ends['done'])} done" if self.tasks else "",
            plain.span(round(time.monotonic() - self.began)),
            f"{sentences.short(tokens)} tokens" if tokens else "",
        )
        return Text(" · ".join(filter(None, parts)))


def _of(record: Record) -> str:
    """Where several are under way: which task is meant."""
    task = plain.line(str(record.get("task") or ""), 40)
    return f"  ({task})" if task else ""


def _below(event: Event) -> list[str]:
    """An agent's answer, or the end of what a red gate printed."""
    match event:
        case events.StageEnded(text=text):
            return [f"  {line}" for line in plain.block(text).strip().splitlines()]
        case events.GateEnded(result=ended) if ended.red:
            lines = plain.block(ended.output).strip().splitlines()[-_OF_A_GATE:]
            log = [f"full output: {ended.log}"] * bool(ended.log)
            return [f"    {line}" for line in (*lines, *log)]
    return []


def style_of(record: Record) -> str:
    match record["kind"], record.get("did"):
        case _, "start":
            return HEAD
        case "task", Outcome.DONE:
            return NOTICE if unverified(str(record.get("proved"))) else GOOD
        case "gate", _:
            doubtful = record.get("flaky") or record.get("red_before")
            return NOTICE if doubtful else BAD if record.get("red") else GOOD
    return "" if record["kind"] in ("stage", "plan", "learning", "vote") else NOTICE


def _quiet(seconds: float) -> str:
    return f", no sign of life for {plain.span(seconds)}" if seconds >= _SILENT_S else ""
