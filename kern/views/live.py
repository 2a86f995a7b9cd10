"""What a run says while it goes on: a sentence for each event, as `kern log` has it, on standard
output; warnings and debug lines on standard error. On a terminal rich draws below them what is
under way, by the journal's own fold: a line for each worker.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console as Terminal
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kern import events, models, plain
from kern.events import Event, Record
from kern.journal import sentences, store
from kern.journal.history import History, Run, Worker, moment
from kern.journal.totals import NEEDY
from kern.model import Outcome, unverified
from kern.views import summary
from kern.views.log import Repeats
from kern.views.summary import BAD, GOOD, HEAD, NOTICE

STOP = "Ctrl-C ends it now, kern stop after this stage; kern goes on from there"
_SILENT_S = 120  # from here on silence is said
_REDRAW_S = 0.25
_HEARTBEAT_S, _LIMIT_HEARTBEAT_S = 60, 600  # between signs of life on a pipe; while a limit holds
_CALLS = 4  # of an agent, the last ones
_OF_A_GATE = 12  # lines of what a red one printed
# By what follows: another try, how the task ends, the worker's line, what is drawn; and what an
# API that is away makes kern tell again and again.
_SHOWN_LATER = events.StageFailed | events.QuestionNoted | events.Sent
_RETOLD = events.Outage | events.StageStarted | events.StageFinished | events.GateEnded
# Of a worker's. How its task or its kern ended without a commit, the run itself says.
_TOLD = ("attempt", "retry", "stand-in", "limit", "work", "task start", "stage end")
_CUT: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}


class Console:
    """A sink. Where standard output goes elsewhere nothing is drawn: `kern | tee FILE` shows its
    lines on that very terminal.
    """

    stamp = "[%Y-%m-%d %H:%M:%S] "  # of what happens, where it goes to no terminal

    def __init__(
        self, *, verbose: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.out, self.err, self.verbose = out or sys.stdout, err or sys.stderr, verbose
        draws = self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        own = Terminal(file=self.out, highlight=False, markup=False, emoji=False)
        self.terminal = own if draws else None
        self.below: Live | None = None
        self.drawn = self.beat = self.began = time.monotonic()
        self.past, self.now, self.many = History(), Run(), False
        self.tasks, self.max_cost, self.stops = 0, 0.0, ""
        self.calls: list[str] = []  # of the stage's agent
        self.stays, self.repeats = self.watched, Repeats()  # the person, until a stage has answered

    @property
    def watched(self) -> bool:
        """Whether a person looks at it: `kern | tee FILE` counts as such."""
        return self.out.isatty() or self.err.isatty()

    def print(self, text: str, style: str = "", stream: TextIO | None = None, at: str = "") -> None:
        """`at`: the time, for a stream that is no terminal."""
        text, stream = plain.block(text), stream or self.out  # names of folders and branches, too
        with contextlib.suppress(OSError, ValueError):  # a reader that is gone stops no paid work
            if self.terminal and stream.isatty():
                self.close()
                self.terminal.print(text, style=style or None)
            else:
                print(f"{at}{text}", file=stream, flush=True)

    def say(self, text: str, style: str = "", stream: TextIO | None = None) -> None:
        self.print(text, style, stream, time.strftime(self.stamp))

    # ------------------------------------------------------------ what happens

    def __call__(self, event: Event) -> None:
        self.see(event)
        gate = isinstance(event, events.GateStarted) and self.repeats.away
        if gate or (isinstance(event, _RETOLD) and self.repeats({"run": "", **event.records()[0]})):
            return
        match event:
            case events.RunStarted():
                for line in _begun(event):
                    self.say(line, NOTICE if line == event.yours else "")
            case events.Acted() | events.Traced() | events.Recalled():
                for line in _traced(event) if self.verbose else ():
                    self.say(f"debug: {plain.line(line, 2000)}", "", self.err)
            case events.Warned():
                self.say(f"warning: {plain.line(event.text, 600)}", NOTICE, self.err)
            case events.GateStarted():
                when = ", before the task" if event.before else ""
                what = "" if event.command in event.name else f": {plain.line(event.command, 120)}"
                self.say(f"{'landing: ' * self.many}{plain.line(event.name)}{when}{what}", HEAD)
            case events.Steered():
                why = "the time of --until has come" if event.late else "asked to stop (kern stop)"
                work = "the stages in progress" if self.many else _doing(self.now.worker(0))
                self.say(f"{why}: ends {'here' if event.at_once else f'after {work}'}", NOTICE)
            case events.Waiting():
                self.say(f"next task in {event.seconds:g} s (Ctrl-C ends; kern goes on from here)")
            case events.RunEnded():
                for text, style in summary.lines(event):
                    self.print(text, style)
            case _ if not isinstance(event, _SHOWN_LATER):
                self._sentence(event)

    def see(self, event: Event) -> None:
        """What is under way from now on."""
        if isinstance(event, events.Acted):
            self.calls += [plain.line(call, 200) for call in event.act.calls]
            return
        self.close()
        self.beat = time.monotonic()
        head = {"time": store.now(), "run": self.now.run}
        match event:
            case events.RunStarted():
                self.began, self.max_cost = self.beat, event.max_cost
                self.tasks = min(event.iterations, event.open_tasks)
            case events.GateStarted():
                own, self.calls = self.now.worker(0), []
                task = own.task or ("" if self.many else event.command)
                own.begin(plain.line(event.name, 60), {**head, "task": task})
            case events.GateEnded() if self.many:
                self.now.worker(0).rest()
            case events.Steered():
                self.stops = "stops after this stage"
        for row in event.records():
            self.now, self.calls = self.past.add({**head, **row}), []

    def _sentence(self, event: Event) -> None:
        if self.terminal and isinstance(event, events.TaskStarted):
            self.print("")
        record = event.records()[0]  # a commit is named in how its task ended
        first, *more = sentences.format_record(record)
        about = _of(record) if self.many and not isinstance(event, events.GateEnded) else ""
        self.say(f"{first}{about}", style_of(event))
        for line in (*_below(event), *more):
            self.say(line)
        if isinstance(event, events.StageFinished):
            self._let_go()
        elif isinstance(event, events.LimitReset):
            until = time.strftime("%a %H:%M", time.localtime(event.until))
            self.say(f"waiting until {until} (Ctrl-C ends; kern goes on from here)", NOTICE)

    def _let_go(self) -> None:
        if self.stays:
            self.stays = False
            self.say("the first stage has answered: you may leave", GOOD)

    def of_worker(self, record: Record) -> None:
        """Of many at once, as it comes."""
        self.now, self.many = self.past.add(record), True
        kind = f"{record['kind']} {record.get('did')}"
        noted = record.get("commit") or record["kind"] != "work"
        doubt = record["kind"] == "gate" and (record.get("flaky") or record.get("red"))
        if (kind.startswith(_TOLD) and noted) or (doubt and record.get("task")):
            begins = kind == "task start"
            text = sentences.format_record(record)[0].strip() + ("" if begins else _of(record))
            self.say(f"{record.get('worker')}  {text}", HEAD * begins)
        if kind == "stage end":
            self._let_go()

    # ------------------------------------------------------------ while something is at work

    def tick(self, seconds: float, silent: float) -> None:
        """The stage or gate is at work, since `silent` seconds without a sign."""
        if self.terminal:
            self._draw(self.picture(silent))
        elif self._is_due(_HEARTBEAT_S):
            for worker in self.now.workers.values():
                if worker.doing:
                    head = f"{worker.number}  " * self.many + _doing(worker)
                    since = clock(time.time() - moment(worker.since))
                    self.say(", ".join(filter(None, (f"{head} for {since}", _quiet(silent)))))

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset, or until an API that is away is asked again."""
        why = "the API is away" if self.repeats.away else "usage limit"
        if self.terminal:
            self._draw(f"{why}: again in {clock(seconds)}")
        elif self._is_due(_LIMIT_HEARTBEAT_S):
            self.say(f"{why}: again in {plain.span(seconds)}")

    def _is_due(self, every: float) -> bool:
        """A sign of life, where nothing is drawn."""
        due = time.monotonic() - self.beat >= every
        self.beat = time.monotonic() if due else self.beat
        return due

    def _draw(self, picture: RenderableType) -> None:
        """Not more often than is seen."""
        if self.below and time.monotonic() - self.drawn < _REDRAW_S:
            return
        self.drawn = time.monotonic()
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

    def picture(self, silent: float) -> RenderableType:
        return Group(self.under_way(time.time()), Text(self.figures(silent)), Text(STOP))

    def under_way(self, at: float) -> RenderableType:
        """A line for each worker, and what waits to land. `at`: epoch seconds."""
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(**_CUT, style="bold")
        table.add_column(min_width=4, no_wrap=True)
        table.add_column(**_CUT, min_width=12, ratio=1)
        for number, worker in sorted(self.now.workers.items()):
            if number or worker.doing:
                since = clock(at - moment(worker.since)) if worker.doing else ""
                doing = f"{number}  " * bool(number) + (_doing(worker) or "idle")
                table.add_row(Text(doing), since, Text(plain.line(worker.task)))
        below = [f"  {call}" for call in self.calls[-_CALLS:]]
        if queue := self.past.finished:
            rest = plain.line("; ".join(queue), 600)
            below.append(f"{plain.count(len(queue), 'finished task')} to land: {rest}")
        return Group(table, *(Text(line, **_CUT) for line in below))

    def figures(self, silent: float = 0.0) -> str:
        """What matters most comes first. `silent`: seconds without a sign of the agent."""
        ends, spent = self.now.ends, self.now.spent
        needs, tokens = sum(ends[one] for one in NEEDY), spent.sums[1]
        most = f" of ${self.max_cost:.2f}" if self.max_cost else ""
        unknown = spent.unpriced and not spent.cost_usd
        cost = "cost unknown" if unknown else f"${spent.sums[0]:.2f}{most}"
        parts = (
            self.stops,
            _quiet(silent),
            cost if self.max_cost or spent.stages else "",
            f"{needs} need you" if needs else "",
            f"{ends['done']} of {max(self.tasks, ends['done'])} done" if self.tasks else "",
            clock(time.monotonic() - self.began),
            f"{sentences.short(tokens)} tokens" if tokens else "",
        )
        return " · ".join(filter(None, parts))


def _doing(worker: Worker) -> str:
    again = f", attempt {worker.attempt}" if worker.attempt > 1 else ""
    return f"{sentences.format_stage(worker.doing)}{again}"


def _begun(event: events.RunStarted) -> Iterator[str]:
    tasks = plain.count(event.open_tasks, "open task")
    yield f"kern in {event.root}, branch {event.branch}: {tasks}"
    yield from filter(None, [event.lands])
    until = time.strftime("%a %d %b %H:%M", time.localtime(event.until)) if event.until else ""
    facts = {
        "run files": event.folder,
        "sandbox": event.sandbox,
        "awake": event.awake and f"the machine does not sleep while this run is on ({event.awake})",
        "billing": event.payer,
        "models": models.told(event.models) if event.models else "",
        "forecast": event.forecast,
        "until": until and f"no task and no stage is begun after {until}",
    }
    yield from (f"{name}: {plain.line(text)}" for name, text in facts.items() if text)
    yield from (plain.line(command, 160) for command in event.commands)
    yield from filter(None, [event.yours])


def _traced(event: events.Acted | events.Traced | events.Recalled) -> list[str]:
    match event:
        case events.Acted(act=act):
            return [*act.calls]
        case events.Traced(text=text):
            return [text]
    return sentences.format_record(event.records()[0])


def _of(record: Record) -> str:
    """Where several are under way: which task is meant."""
    task = plain.line(str(record.get("task") or ""), 40)
    return f"  ({task})" if task else ""


def _below(event: Event) -> list[str]:
    """An agent's answer, or the end of what a red gate printed."""
    match event:
        case events.StageFinished(text=text):
            return [f"  {line}" for line in plain.block(text).strip().splitlines()]
        case events.GateEnded(result=ended) if ended.red:
            lines = plain.block(ended.output).strip().splitlines()[-_OF_A_GATE:]
            log = [f"full output: {ended.log}"] * bool(ended.log)
            return [f"    {line}" for line in (*lines, *log)]
    return []


def style_of(event: Event) -> str:
    match event:
        case events.TaskSettled(outcome=Outcome.DONE):
            return NOTICE if unverified(event.proved) else GOOD
        case events.GateEnded(result=ended):
            doubtful = ended.flaky or ended.known_red or (ended.red and not ended.blocks)
            return NOTICE if doubtful else BAD if ended.red else GOOD
        case events.TaskStarted() | events.StageStarted():
            return HEAD
        case events.Planned() | events.Learned() | events.Voted() | events.StageFinished():
            return ""
    return NOTICE


def _quiet(seconds: float) -> str:
    return f"no sign of life for {clock(seconds)}" if seconds >= _SILENT_S else ""


def clock(seconds: float) -> str:
    """`4:07`, `1:02:03`."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
