"""One stage as a call: prompt in, answer out. What passes is tried again, another agent stands in
for one that cannot, and what all of it costs is counted.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from kern import events, plain
from kern.agents.protocol import AgentError, Answer, Call, Ended, Failed, OverBudget, Program
from kern.checks.result import repeats
from kern.config import Gate, Settings, Spent
from kern.errors import BudgetReached, Interrupted, KernError, LimitReached, Outage, TransientFault
from kern.events import Sink, StageEnded, StageStarted
from kern.git import environment
from kern.model import Cost, Role, Stage
from kern.models import Choice
from kern.sandbox import closed
from kern.sandbox.confine import Confined, Hold, unheld
from kern.sandbox.wall import Kind, Room
from kern.stages import output
from kern.stages.output import Output, Watch
from kern.stages.prompts import Prompt, announced
from kern.system import process, waits, workspace
from kern.system.workspace import Scope

RAISE = "raise it ([max_cost], [max_tokens] in kern.toml; --max-cost) and run {}: it resumes"
CUT_OFF = "cut off before it answered"
REST_S = 900.0  # for an agent that says no time: then it is asked again
TRIES = 3
_CONTRACT = "contract.md"
_FOR_EVER = 7 * 24 * 3600.0  # seconds, for who knows no bound
# What git would start in the background would outlive the stage, or be ended in mid-work by the
# sweep.
_FOREGROUND = (("gc.auto", "0"), ("maintenance.auto", "false"), ("core.fsmonitor", "false"))


Run = Callable[[Prompt, str], tuple[process.Ran, Confined]]  # of a task's text


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
    laid: set[Path] = field(default_factory=set)  # what was put there for agents
    cost: Cost = field(default_factory=lambda: Cost(0.0))
    tokens: int = 0
    away: float = 0.0  # since when the API gives no answer (epoch seconds); 0: it gives one
    # Agents at their limit, or without an answer, and until when: in this run.
    _rest: dict[str, float] = field(default_factory=dict)
    _tasks: dict[str, tuple[float, int]] = field(default_factory=dict)  # what each took, so far

    @property
    def mark(self) -> tuple[str, str]:
        return "KERN_RUN_ID", self.run

    def call(
        self,
        prompt: Prompt,
        *,
        task: str,
        attempt: int,
        env: Mapping[str, str] | None = None,
        config: Sequence[tuple[str, str]] = (),
        gates: Sequence[Gate] = (),
        again: Callable[[], object] = lambda: None,
        room: Room | None = None,
    ) -> Said:
        """`gates`: those that send the agent back where it would end and they are red. `again`
        prepares a retry.
        """
        self._check_may_begin(task)
        for event in announced(prompt, task):
            self.sink(event)
        runners = awake(prompt.runners, self._rest, self.clock())
        run = partial(self._run, env=env or {}, config=config, gates=gates, room=room)
        for by, after in zip(runners, (*runners[1:], None), strict=True):
            began = StageStarted(prompt.stage, task, by.model, attempt, by.agent, prompt.mode)
            self.sink(began)
            try:
                return self._tried(began, replace(prompt, runners=(by,)), run, again)
            except (LimitReached, TransientFault) as exc:
                resets_at = exc.resets_at if isinstance(exc, LimitReached) else None
                if after is None and isinstance(exc, LimitReached):
                    others = (self._rest.get(one.agent) for one in prompt.runners if one != by)
                    exc.resets_at = min(filter(None, (*others, resets_at)), default=None)
                if after is None:
                    raise
                self._rest[by.agent] = resets_at or self.clock() + REST_S
                self.sink(events.StoodIn(prompt.stage, after.agent, by.agent, str(exc)))
                again()
                self._check_may_begin(task)
        raise AssertionError("the last one returns or raises")

    def _tried(
        self, began: StageStarted, prompt: Prompt, run: Run, again: Callable[[], object]
    ) -> Said:
        """By one agent, again and again while the fault is one that passes."""
        import tenacity  # with asyncio and more, which a look does without

        awaited = bool(self.away)  # of an outage that is waited for, one try after each pause

        def passes(fault: BaseException) -> bool:
            return isinstance(fault, TransientFault) and not (awaited and isinstance(fault, Outage))

        def prepare(state: tenacity.RetryCallState) -> None:
            fault = state.outcome and state.outcome.exception()
            tries, wait = state.attempt_number, state.upcoming_sleep
            self.sink(events.StageRetried(prompt.stage, str(fault), tries, round(wait, 1)))
            again()

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(passes),
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_exponential(multiplier=2, max=60) + tenacity.wait_random(0, 1),
            sleep=self.sleep,
            before_sleep=prepare,
            reraise=True,
        )(self._once, began, prompt, run)

    def _once(self, began: StageStarted, prompt: Prompt, run: Run) -> Said:
        """One process: what it answered, counted and told."""
        stage, task, at = prompt.stage, began.task, time.monotonic()
        agent = self.programs[prompt.by.agent].agent
        try:
            ran, outcome = run(prompt, task)
        except (Interrupted, BudgetReached):
            self.cut_off(began, seconds=time.monotonic() - at)
            raise
        except AgentError as exc:
            self.cut_off(began, exc.message, time.monotonic() - at)
            raise self._error(stage, exc) from None
        self.sink(events.Traced(f"{stage}: exit {ran.code} after {ran.seconds:.1f} s"))
        end = Ended(ran.code, ran.stderr, ran.overflow, ran.timed_out)
        result = output.read(agent, self.scope.transcript(stage), stage, end)
        fault = output.timed_out(stage, end, acted=bool(result.acts)) or result.error
        hidden, why = plain.secrets(os.environ), ""
        if fault:
            shut = closed.sentences(f"{ran.stderr}\n{fault.message}", outcome)
            why = fault.message = plain.masked("; ".join((fault.message, *shut)), hidden)
        broke = isinstance(fault, OverBudget) and bool(self._left(task))
        self._count(result, task)
        if fault and (broke or not isinstance(fault, Failed)):
            self._tell_failed(began, why, ran.seconds, result)
            if broke:
                broken = f"{stage} stage: the agent used up what it may cost: "
                raise BudgetReached(f"{broken}${result.cost or 0:.2f}", hint=RAISE.format("kern"))
            raise self._error(stage, fault)
        self.away = 0.0
        if fault:
            advice = f"; {fault.hint}" if fault.hint else ""
            self.sink(events.Warned(f"{stage} stage: {why}{advice}"))
        reply = result.answer or Answer()
        denied = tuple(plain.masked(call, hidden) for call in reply.denied)
        reply = reply._replace(text=plain.masked(reply.text, hidden), denied=denied)
        self.sink(
            StageEnded(
                *(stage, task, reply.text or why, ran.seconds, reply.cost_usd, reply.denied),
                *(began.attempt, began.model, reply.turns, result.tokens),
                *(prompt.by.effort, reply.sent_back, began.agent),
            )
        )
        if stage is Stage.RESEARCH and not (why or reply.text.strip()):
            raise TransientFault(f"{stage} stage: the answer is empty")
        return Said(reply, why, not result.only_reads(agent))

    def _run(
        self,
        prompt: Prompt,
        task: str,
        env: Mapping[str, str],
        config: Sequence[tuple[str, str]],
        gates: Sequence[Gate],
        room: Room | None,
    ) -> tuple[process.Ran, Confined]:
        """And what it saw of the machine, where a sandbox held it. What is laid into the scratch
        folder stays: until the answer is saved, nothing else is to happen.
        """
        stage, settings, program = prompt.stage, self.settings, self.programs[prompt.by.agent]
        agent, works = program.agent, stage is Stage.IMPLEMENT
        most = settings.budget.left_tokens(self._spent(task))
        idle = waits.scaled(settings.idle)
        checking = 2 * sum(gate.timeout or _FOR_EVER for gate in gates)  # seconds
        longest = settings.patience or settings.total(stage) or _FOR_EVER  # a gate that it runs
        base, folder = process.surroundings(), self.named(str(self.scratch))
        contract = {_CONTRACT: prompt.contract} if agent.contract and prompt.contract else {}
        call = Call(
            *(program.command, stage, prompt.by.model, prompt.by.effort),
            contract=f"{folder}/{_CONTRACT}" if contract else "",
            folder=folder,
            budget=self._left(task),
            patience=longest if works else 0.0,
            given=base,
            root=self.named(str(self.root)),
            obeyed=[name for name in agent.obeys if (self.root / name).exists()],
            nests=self.nests,
            gates=[(one.label, one.command, one.timeout, repeats(one)) for one in gates],
        )
        start = agent.start(call)
        for name, text in {**start.files, **contract}.items():
            self.laid.add(self.scratch / name)
            workspace.lay(self.scratch / name, plain.encode(text))
        git = environment.added(base, (*_FOREGROUND, *config))
        own = {**dict.fromkeys(("KERN_ROOT", "PWD"), str(self.root)), **env}
        kind, env = Kind.WORKER if works else Kind.READER, {**base, **git, **start.env, **own}
        confined = self.hold(kind, start.argv, env, agent=agent.name, room=room)
        place = self.scope.transcript(stage)
        watch = Watch(agent, stage, place, self.sink, self.tick, most)
        ran = process.run(
            confined.argv,
            cwd=self.root,
            env=confined.env,
            status=confined.status,
            stdin=prompt.text if agent.contract else prompt.whole,
            stdout=place,
            mark=self.mark,
            tick=watch,
            joined=agent.joined,
            total=settings.total(stage),
            idle=idle and max(idle, checking),
        )
        watch.end()
        return ran, confined

    def runs_gates(self, prompt: Prompt) -> bool:
        """Whether its agent is sent back by red gates where it would end."""
        return self.programs[prompt.by.agent].agent.gates

    # ------------------------------------------------------------ what came to nothing

    def _error(self, stage: Role, fault: AgentError) -> KernError:
        """What is to be raised."""
        why = output.error(stage, fault, self.scope.transcript(stage))
        self.away = (self.away or self.clock()) if isinstance(why, Outage) else 0.0
        return why

    def cut_off(self, began: StageStarted, why: str = CUT_OFF, seconds: float = 0.0) -> None:
        """A call without an answer cost something as well: what its transcript tells."""
        program, place = self.programs.get(began.agent), self.scope.transcript(began.stage)
        result = Output()
        if program:
            result = output.read(program.agent, place, began.stage, Ended(-1))
        self._count(result, began.task)
        self._tell_failed(began, why, seconds, result)

    def _tell_failed(self, began: StageStarted, why: str, seconds: float, result: Output) -> None:
        call = began.stage, began.task, "", seconds, result.cost, (), began.attempt, began.model
        self.sink(StageEnded(*call, tokens=result.tokens, agent=began.agent, reason=why))

    # ------------------------------------------------------------ what it costs

    def _count(self, result: Output, task: str) -> None:
        self.cost += Cost.of([result.cost])
        used = sum(result.tokens.values())
        usd, tokens = self._tasks.get(task, (0.0, 0))
        self._tasks[task] = usd + (result.cost or 0.0), tokens + used
        self.tokens += used

    def _spent(self, task: str) -> Spent:
        budget, nothing = self.settings.budget, (0.0, 0)
        before = self.earlier(task) if task and (budget.task or budget.task_tokens) else nothing
        beside = self.beside() if budget.run or budget.run_tokens else nothing
        now = self._tasks.get(task, nothing) if task else nothing  # a planner has none
        return Spent(
            *((self.cost.usd or 0.0) + beside[0], before[0] + now[0]),
            *(self.tokens + beside[1], before[1] + now[1]),
        )

    def _left(self, task: str) -> float:
        return self.settings.budget.left(self._spent(task))

    def _check_may_begin(self, task: str) -> None:
        if why := self.settings.budget.reached(self._spent(task)):
            raise BudgetReached(why, hint=RAISE.format("kern"))
        self.check_requests()


def awake(choices: Sequence[Choice], rest: Mapping[str, float], now: float) -> list[Choice]:
    """Who is asked, one after the other: who rests is passed over; where all do, the one that wakes
    first is asked.
    """
    wakes = {one: rest.get(one.agent, 0.0) for one in choices}
    return [one for one in choices if wakes[one] <= now] or [min(choices, key=wakes.__getitem__)]
