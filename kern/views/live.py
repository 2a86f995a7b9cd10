"""What a run says while it goes on: a sentence for each event, as `kern log` has it, on standard
output; warnings and debug lines on standard error. On a terminal rich draws below them what is
under way: one renderer for one task and for many.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TextIO

from rich.console import Console as Terminal
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from kern import events, models, plain
from kern.events import Event, Record
from kern.fleet import lanes
from kern.fleet.lanes import Lane, Picture
from kern.journal import sentences
from kern.model import Cost, Outcome, unverified
from kern.views import summary
from kern.views.summary import BAD, GOOD, HEAD, NOTICE

STOP = "Ctrl-C ends it now, kern stop after this stage; kern goes on from there"
STOPS = "stops after this stage"
_SILENT_S = 120  # from here on silence is said
_REDRAW_S = 0.25
_HEARTBEAT_S = 60  # between signs of life on a pipe
_LIMIT_HEARTBEAT_S = 600  # while a limit holds
_CALLS = 4  # of an agent, the last ones
_OF_A_GATE = 12  # lines of what a red one printed
_WIDEST = 100  # columns of a page; longer lines are hard to read
_FOR_YOU = (Outcome.SKIPPED, Outcome.BLOCKED, Outcome.ASKED)
# By what follows: another try, how the task ends, the worker's line, what is drawn.
_SHOWN_LATER = events.StageFailed | events.QuestionNoted | events.Sent


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
        self.now, self.many = Picture(), False
        # The person, until a stage has answered; the API, which is not told again and again.
        self.stays, self.away = self.watched, False

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

    def debug(self, *texts: str) -> None:
        for text in texts if self.verbose else ():
            self.say(f"debug: {plain.line(text, 2000)}", "", self.err)

    # ------------------------------------------------------------ what happens

    def __call__(self, event: Event) -> None:
        self.see(event)
        if self._repeats(event):
            return
        match event:
            case events.RunStarted():
                self.began = time.monotonic()
                for line in _begun(event):
                    self.say(line, NOTICE if line == event.yours else "")
            case events.Acted(act=act):
                self.debug(*act.calls)
            case events.Traced(text=text):
                self.debug(text)
            case events.Recalled():
                self.debug(*sentences.format_record(*event.records()))
            case events.Warned():
                self.say(f"warning: {plain.line(event.text, 600)}", NOTICE, self.err)
            case events.GateStarted():
                when = ", before the task" if event.before else ""
                shown = "" if event.command in event.name else f": {plain.line(event.command, 120)}"
                self.say(f"{'landing: ' * self.many}{plain.line(event.name)}{when}{shown}", HEAD)
            case events.Steered():
                why = "the time of --until has come" if event.late else "asked to stop (kern stop)"
                work = "the stages in progress" if self.many else self.now.lane(1).doing
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
        if not isinstance(event, events.Acted):
            self.close()
            self.beat = time.monotonic()
        if not self.many:
            self.now = after(self.now, event, time.time())

    def _repeats(self, event: Event) -> bool:
        """Whether it only tells that an API that is away is asked again."""
        if isinstance(event, events.Outage):
            self.away = event.number > 0
            return event.number > 1
        self.away &= not isinstance(event, events.Acted | events.StageFinished)
        begun = events.StageStarted | events.GateStarted | events.GateEnded
        return self.away and isinstance(event, begun)

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
        if _is_told(record):
            task = "" if record["kind"] == "task" else _of(record)
            text = f"{record.get('worker')}  {sentences.format_record(record)[0].strip()}{task}"
            self.say(text, HEAD if record["kind"] == "task" else "")
        if (record["kind"], record.get("did")) == ("stage", "end"):
            self._let_go()

    def _draw(self, silent: float = 0.0) -> None:
        if self.terminal:
            self.draw(self.picture(silent))
        elif self.is_due(_HEARTBEAT_S):
            for lane in self.now.lanes:
                if lane.doing:
                    self.say(_beat(self.now, lane, silent))

    def picture(self, silent: float) -> RenderableType:
        ran = time.monotonic() - self.began
        return Group(
            under_way(self.now, time.time()), Text(figures(self.now, ran, silent)), Text(STOP)
        )

    def countdown(self, seconds: float) -> None:
        """So long until a usage limit's reset, or until an API that is away is asked again."""
        why = "the API is away" if self.away else "usage limit"
        if self.terminal:
            self.draw(f"{why}: again in {clock(seconds)}")
        elif self.is_due(_LIMIT_HEARTBEAT_S):
            self.say(f"{why}: again in {plain.span(seconds)}")

    def is_due(self, every: float) -> bool:
        """A sign of life, where nothing is drawn."""
        due = time.monotonic() - self.beat >= every
        self.beat = time.monotonic() if due else self.beat
        return due

    def draw(self, shown: RenderableType) -> None:
        """Not more often than is seen."""
        if self.below and time.monotonic() - self.drawn < _REDRAW_S:
            return
        self.drawn = time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            if not self.below:
                self.below = Live(console=self.terminal, transient=True, auto_refresh=False)
                self.below.start()
            self.below.update(shown, refresh=True)

    def close(self) -> None:
        below, self.below = self.below, None
        if below:
            with contextlib.suppress(OSError, ValueError):
                below.stop()


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


def _below(event: Event) -> list[str]:
    """An agent's answer, or the end of what a red gate printed."""
    match event:
        case events.StageFinished(text=text):
            return [f"  {line}" for line in plain.block(text).strip().splitlines()]
        case events.GateEnded(result=ended) if ended.red:
            shown = plain.block(ended.output).strip().splitlines()[-_OF_A_GATE:]
            return [
                f"    {line}" for line in (*shown, *[f"full output: {ended.log}"] * bool(ended.log))
            ]
    return []


def style_of(event: Event) -> str:
    match event:
        case events.TaskSettled(outcome=Outcome.DONE):
            return NOTICE if unverified(event.proved) else GOOD
        case events.TaskSettled(outcome=Outcome.SKIPPED | Outcome.BLOCKED):
            return BAD
        case events.TaskStarted() | events.StageStarted():
            return HEAD
        case events.Planned() | events.Learned() | events.Voted() | events.StageFinished():
            return ""
        case events.GateEnded(result=ended):
            doubtful = ended.flaky or ended.known_red or (ended.red and not ended.blocks)
            return NOTICE if doubtful else BAD if ended.red else GOOD
    return NOTICE


def _is_told(record: Record) -> bool:
    """Of a worker's. How its task or its kern ended without a commit, the run itself says."""
    kind, did = record["kind"], record.get("did")
    if kind == "gate":
        return bool(record.get("flaky") or (record.get("red") and record.get("task")))
    always = kind in ("attempt", "retry", "stand-in") or f"{kind} {did}" in (
        "task start",
        "stage end",
    )
    return always or bool(kind == "work" and record.get("commit"))


# ---------------------------------------------------------------- what is under way


def after(now: Picture, event: Event, at: float) -> Picture:
    """Of one task after the other. `at`: epoch seconds."""
    for record in event.records():
        now = lanes.after(now, {**record, "worker": 1}, at)
    lane = now.lane(1)
    match event:
        case events.RunStarted():
            tasks = min(event.iterations, event.open_tasks)
            return Picture(tasks=tasks, max_cost=event.max_cost, expected=event.expected)
        case events.TaskStarted():
            lane = Lane(1, event.task, lanes.BEGINS, at)
        case events.StageStarted():
            lane = replace(lane, task=event.task, calls=(), count=0)
        case events.GateStarted():
            lane = Lane(1, lane.task or event.command, plain.line(event.name, 60), at)
        case events.Acted():
            calls = [plain.line(call, 200) for call in event.act.calls]
            last = (*lane.calls, *calls)[-_CALLS:]
            lane = replace(lane, calls=last, count=lane.count + len(calls))
        case events.TaskSettled():
            done, needs = event.outcome is Outcome.DONE, event.outcome in _FOR_YOU
            now, lane = replace(now, done=now.done + done, needs=now.needs + needs), Lane(1)
        case events.Steered():
            now = replace(now, held=STOPS)
    return now.having(lane) if now.lanes or lane != Lane(1) else now


def under_way(now: Picture, at: float) -> RenderableType:
    """A line for each task, and one for what lands."""
    several = len(now.lanes) > 1
    table = Table.grid(padding=(0, 2), expand=True)
    cut: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
    if several:
        table.add_column()
    table.add_column(**cut, style="bold")
    table.add_column(min_width=4, no_wrap=True)
    table.add_column(**cut, min_width=12, ratio=1)
    for lane in now.lanes:
        since = clock(at - lane.since) if lane.doing else ""
        row = Text(lane.doing or "idle"), since, Text(plain.line(lane.task))
        table.add_row(*[str(lane.worker)] * several, *row)
    below = [f"  {call}" for lane in now.lanes for call in lane.calls]
    if now.landing:
        below.append(f"landing for {clock(at - now.since)}: {plain.line(now.landing)}")
    elif now.queue:
        why = f": {now.lying}" if now.lying else ""
        first = f"{plain.count(len(now.queue), 'finished task')} to land{why}: "
        below.append(plain.line(first + "; ".join(now.queue), 600))
    return Group(table, *(Text(line, **cut) for line in below))


def figures(now: Picture, ran: float, silent: float = 0.0) -> str:
    """What matters most comes first. `ran`: seconds since the run began; `silent`: those without a
    sign of the agent.
    """
    most = f" of ${now.max_cost:.2f}" if now.max_cost else ""
    cost = f"${now.cost.usd or 0:.2f}{most}" if now.cost.known is not None else "cost unknown"
    of = f" of about {plain.span(now.expected)}" if now.expected else ""
    shown = [
        now.held,
        _quiet(silent),
        cost if now.max_cost or now.cost != Cost(0.0) else "",
        f"{now.needs} need you" if now.needs else "",
        f"{now.done} of {max(now.tasks, now.done)} done" if now.tasks else "",
        f"{clock(ran)}{of}",
        f"{sentences.short(now.tokens)} tokens" if now.tokens else "",
    ]
    return " · ".join(filter(None, shown))


def _beat(now: Picture, lane: Lane, silent: float) -> str:
    """For a pipe: it is alive."""
    worker = f"{lane.worker}  " if len(now.lanes) > 1 else ""
    calls = f"{plain.count(lane.count, 'call')}, last: {lane.calls[-1]}" if lane.calls else ""
    head = f"{worker}{lane.doing} for {clock(time.time() - lane.since)}"
    return ", ".join(filter(None, (head, calls, _quiet(silent))))


def _quiet(seconds: float) -> str:
    return f"no sign of life for {clock(seconds)}" if seconds >= _SILENT_S else ""


def clock(seconds: float) -> str:
    """`4:07`, `1:02:03`."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def print_page(text: str) -> None:
    """Markdown laid out on standard output, in the terminal's own colours."""
    terminal = Terminal(highlight=False)
    terminal.width = min(terminal.width, _WIDEST)
    terminal.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
