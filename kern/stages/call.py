"""One stage as a call: prompt in, answer out. What passes is tried again, another agent stands in
for one that cannot, and what all of it costs is counted.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kern import events, plain
from kern.agents.protocol import AgentError, Answer, Call, Ended, Failed, Program
from kern.checks.result import repeats
from kern.config import Bounds, Gate, Settings
from kern.errors import BudgetReached, Interrupted, KernError, LimitReached, Outage, TransientFault
from kern.events import Record, Sink
from kern.git import environment
from kern.model import Cost, Role, Stage
from kern.models import Choice
from kern.sandbox import closed
from kern.sandbox.confine import Confined, Hold, unheld
from kern.sandbox.wall import Kind, Room
from kern.stages import output
from kern.stages.output import RAISE, Output, Watch
from kern.stages.prompts import Prompt, announced
from kern.system import process, waits, workspace
from kern.system.workspace import Scope

NOTHING: Mapping[str, str] = {}
CUT_OFF = "cut off before it answered"
REST_S = 900.0  # for an agent that says no time: then it is asked again
TRIES = 3
_CONTRACT = "contract.md"
_SILENT_S = 60  # more than the longest gate: without a sign of life for so long, an agent is ended
_FOR_EVER = 7 * 24 * 3600.0  # seconds, for who knows no bound
# What git would start in the background would outlive the stage, or be ended in mid-work by the
# sweep.
_FOREGROUND = (("gc.auto", "0"), ("maintenance.auto", "false"), ("core.fsmonitor", "false"))

Run = Callable[[], tuple[process.Ran, Confined, Output]]  # one process of an agent


@dataclass(frozen=True, slots=True)
class Said:
    """A stage's end: the reply, and the fault where the stage itself ended badly."""

    reply: Answer
    fault: str = ""
    acted: bool = True  # so far as is known, a call of its can have changed a file
    doubt: str = ""  # why it is not to be believed, although it was asked once more


@dataclass(slots=True)
class Caller:
    """Runs stages for one run of kern and adds up what they cost."""

    root: Path
    scope: Scope
    run: str  # id
    sink: Sink
    programs: Mapping[str, Program] = field(default_factory=dict)  # by the agent's name
    settings: Settings = field(default_factory=Settings)
    sleep: Callable[[float], None] = waits.sleep
    clock: Callable[[], float] = time.time
    tick: process.Tick = process.unwatched
    check_requests: Callable[[], None] = lambda: None  # raises Asked where nothing more is to begin
    scratch: Path = Path("/nonexistent")  # where an agent can read what kern puts there
    # What a task took in earlier runs, and others so far of the same budget: US dollars, tokens.
    earlier: Callable[[str], tuple[float, int]] = lambda task: (0.0, 0)
    beside: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
    hold: Hold = unheld
    named: Callable[[str], str] = str  # a text, by the paths that what is held sees
    nests: bool = True  # within what holds it, an agent can make a sandbox of its own
    cost: Cost = field(default_factory=Cost)
    tokens: int = 0
    away: float = 0.0  # since when the API gives no answer (epoch seconds); 0: it gives one
    # Agents at their limit, or without an answer, and until when: in this run.
    _rest: dict[str, float] = field(default_factory=dict)
    # What each task took, so far.
    _usd: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _tokens: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def call(
        self,
        prompt: Prompt,
        *,
        task: str,
        attempt: int,
        again: Callable[[], object] = lambda: None,
        **how: Any,
    ) -> Said:
        """`again` prepares a retry; `how`: see `_run`."""
        self._check_may_begin(task)
        for event in announced(prompt, task):
            self.sink(event)
        now = self.clock()  # those that rest come last
        runners = sorted(prompt.runners, key=lambda by: max(self._rest.get(by.agent, 0.0), now))
        for by, after in zip(runners, (*runners[1:], None), strict=True):
            who = {"agent": by.agent, "model": by.model, "effort": by.effort}
            about = {"stage": prompt.stage, "task": task, "attempt": attempt, **who}
            self.sink(events.new("stage", "start", mode=prompt.mode, **about))
            try:
                return self._tried(about, partial(self._run, prompt, by, task, **how), again)
            except (LimitReached, TransientFault) as exc:
                limit = exc if isinstance(exc, LimitReached) else LimitReached("")
                self._rest[by.agent] = limit.resets_at or self.clock() + REST_S
                if after is None:
                    limit.resets_at = min(self._rest[one.agent] for one in prompt.runners)
                    raise
                who = {"agent": after.agent, "instead_of": by.agent}
                self.sink(events.new("stand-in", stage=prompt.stage, reason=str(exc), **who))
                again()
                self._check_may_begin(task)
        raise AssertionError("the last one returns or raises")

    def _tried(self, about: Record, run: Run, again: Callable[[], object]) -> Said:
        """By one agent, again and again while the fault is one that passes."""
        import tenacity  # with asyncio and more, which a look does without

        awaited = bool(self.away)  # of an outage that is waited for, one try after each pause

        def passes(fault: BaseException) -> bool:
            return isinstance(fault, TransientFault) and not (awaited and isinstance(fault, Outage))

        def prepare(state: tenacity.RetryCallState) -> None:
            fault = state.outcome and state.outcome.exception()
            tries, wait = state.attempt_number, state.upcoming_sleep
            facts = {"stage": about["stage"], "reason": str(fault), "wait": round(wait, 1)}
            self.sink(events.new("retry", **facts, **{"try": tries}))
            again()

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(passes),
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_exponential(multiplier=2, max=60) + tenacity.wait_random(0, 1),
            sleep=self.sleep,
            before_sleep=prepare,
            reraise=True,
        )(self._once, about, run)

    def _once(self, about: Record, run: Run) -> Said:
        """One process: what it answered, counted and told. `about`: what is said of it."""
        stage, at = about["stage"], time.monotonic()
        try:
            ran, confined, result = run()
        except (Interrupted, BudgetReached):
            self.cut_off(about, seconds=time.monotonic() - at)
            raise
        except AgentError as exc:
            self.cut_off(about, exc.message, time.monotonic() - at)
            raise self._error(stage, exc) from None
        self.sink(events.live("debug", text=f"{stage}: exit {ran.code} after {ran.seconds:.1f} s"))
        fault, why = result.error, ""
        if fault:
            shut = closed.sentences(f"{ran.stderr}\n{fault.message}", confined)
            why = fault.message = _masked("; ".join((fault.message, *shut)))
        if fault and not isinstance(fault, Failed):
            self._end(about, result, ran.seconds, why)
            raise self._error(stage, fault)
        reply = self._end(about, result, ran.seconds)
        self.away = 0.0
        if fault:
            advice = f"; {fault.hint}" if fault.hint else ""
            self.sink(events.warning(f"{stage} stage: {why}{advice}"))
        return Said(reply, why, result.acted)

    def _run(
        self,
        prompt: Prompt,
        by: Choice,
        task: str,
        env: Mapping[str, str] = NOTHING,
        config: Sequence[tuple[str, str]] = (),
        gates: Sequence[Gate] = (),
        room: Room | None = None,
    ) -> tuple[process.Ran, Confined, Output]:
        """And what it saw of the machine, where a sandbox held it. `gates`: those that send the
        agent back where it would end and they are red.
        """
        stage, settings, program = prompt.stage, self.settings, self.programs[by.agent]
        agent, works = program.agent, stage is Stage.IMPLEMENT
        dollars, tokens = self._spent(task)
        longest = settings.patience or settings.total(stage) or _FOR_EVER  # a gate that it runs
        base, folder = process.surroundings(), self.named(str(self.scratch))
        contract = {_CONTRACT: prompt.contract} if agent.contract and prompt.contract else {}
        call = Call(
            *(program.command, stage, by.model, by.effort),
            contract=f"{folder}/{_CONTRACT}" if contract else "",
            folder=folder,
            budget=settings.max_cost.left(dollars),
            patience=longest if works else 0.0,
            given=base,
            root=self.named(str(self.root)),
            obeyed=[name for name in agent.obeys if (self.root / name).exists()],
            nests=self.nests,
            gates=[(one.label, one.command, one.timeout, repeats(one)) for one in gates],
        )
        start = agent.start(call)
        for name, text in {**start.files, **contract}.items():
            workspace.replace(self.scratch / name, plain.encode(text))
        git = environment.added(base, (*_FOREGROUND, *config))
        own = {**dict.fromkeys(("KERN_ROOT", "PWD"), str(self.root)), **env}
        kind, env = Kind.WORKER if works else Kind.READER, {**base, **git, **start.env, **own}
        confined = self.hold(kind, start.argv, env, agent=agent.name, room=room)
        place = self.scope.transcript(stage)
        most = settings.max_tokens.left(tokens)
        watch = Watch(agent, stage, place, self.sink, self.tick, most)
        idle = waits.scaled(settings.patience and settings.patience + _SILENT_S)
        checking = 2 * sum(gate.timeout or _FOR_EVER for gate in gates)  # seconds
        ran = process.run(
            confined.argv,
            cwd=self.root,
            env=confined.env,
            status=confined.status,
            stdin=prompt.text if agent.contract else prompt.whole,
            stdout=place,
            tick=watch,
            joined=agent.joined,
            total=settings.total(stage),
            idle=idle and max(idle, checking),
        )
        end = Ended(ran.code, ran.stderr, ran.overflow, ran.timed_out)
        return ran, confined, watch.read(end)

    # ------------------------------------------------------------ how it ends, what it costs

    def _error(self, stage: Role, fault: AgentError) -> KernError:
        """What is to be raised."""
        why = output.error(stage, fault, self.scope.transcript(stage))
        self.away = (self.away or self.clock()) if isinstance(why, Outage) else 0.0
        return why

    def cut_off(self, about: Record, why: str = CUT_OFF, seconds: float = 0.0) -> None:
        """A call without an answer cost something as well: what its transcript tells."""
        program, result = self.programs.get(about["agent"]), Output()
        if program:
            place = self.scope.transcript(about["stage"])
            result = Watch(program.agent, about["stage"], place).read(Ended(-1))
        self._end(about, result, seconds, why)

    def _end(self, about: Record, result: Output, seconds: float, reason: str = "") -> Answer:
        """However it ended: counted and told, without secrets. `reason`: why it came to nothing."""
        reply, used, task = result.answer, sum(result.tokens.values()), about["task"]
        self.cost += Cost.of(reply.cost_usd)
        self.tokens += used
        if task:  # a planner has none
            self._usd[task] += reply.cost_usd or 0.0
            self._tokens[task] += used
        denied = tuple(map(_masked, reply.denied))
        reply = reply._replace(text=_masked(reply.text), denied=denied)
        told = result.error.message if result.error else ""
        took = {"seconds": seconds, "cost_usd": reply.cost_usd, "tokens": result.tokens}
        how = {"turns": reply.turns, "sent_back": reply.sent_back, "reason": reason}
        did = "failed" if reason else "end"
        record = events.row("stage", did, **about, denied=denied, **took, **how)
        lines = plain.block(reply.text or told).strip().splitlines()
        self.sink(events.Event(record, [f"  {line}" for line in lines]))
        return reply

    def _spent(self, task: str) -> tuple[Bounds, Bounds]:
        """US dollars and tokens."""
        usd, tokens, nothing = self.settings.max_cost, self.settings.max_tokens, (0.0, 0)
        before = self.earlier(task) if task and (usd.task or tokens.task) else nothing
        beside = self.beside() if usd.run or tokens.run else nothing
        return (
            Bounds(self.cost.usd + beside[0], before[0] + self._usd[task]),
            Bounds(self.tokens + beside[1], before[1] + self._tokens[task]),
        )

    def _check_may_begin(self, task: str) -> None:
        if why := self.settings.reached(*self._spent(task)):
            raise BudgetReached(why, hint=RAISE)
        self.check_requests()


def _masked(text: str) -> str:
    return plain.masked(text, plain.secrets(os.environ))
