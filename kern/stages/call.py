"""One stage as a call: prompt in, reply out; transient faults are retried."""

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kern import events, model, plain
from kern.agents.protocol import AgentError, Answer, Call, Ended, Failed, OverBudget, Program
from kern.checks.result import repeats
from kern.config import Gate, Settings, Spent
from kern.errors import BudgetReached, Interrupted, KernError, LimitReached, Outage, TransientFault
from kern.events import Sink
from kern.git import environment
from kern.model import Cost, Role, Stage
from kern.sandbox import closed
from kern.sandbox.confine import Hold, unheld
from kern.sandbox.wall import Kind, Room, Wall
from kern.stages import ending, watch
from kern.stages.ending import Rota
from kern.stages.prompts import Prompt, announced
from kern.stages.watch import Output, Watch
from kern.system import process, waits, workspace
from kern.system.workspace import Scope

RAISE = "raise it ([max_cost], [max_tokens] in kern.toml; --max-cost) and run {}: it resumes"
CUT_OFF = "cut off before it answered"
TRIES = 3
_CONTRACT = "contract.md"
_FOR_EVER = 7 * 24 * 3600.0  # seconds, for who knows no bound
# What git would start in the background would outlive the stage, or be ended in mid-work by the
# sweep.
_FOREGROUND = (("gc.auto", "0"), ("maintenance.auto", "false"), ("core.fsmonitor", "false"))


@dataclass(frozen=True, slots=True)
class Said:
    """A stage's end: the reply, and the fault where the stage itself ended badly."""

    reply: Answer
    fault: str = ""
    idle: bool = False  # by its transcript, none of its calls can have written


@dataclass(frozen=True, slots=True)
class _Asked:
    """One process of an agent, to be started."""

    prompt: Prompt
    task: str
    attempt: int
    env: Mapping[str, str]
    config: Sequence[tuple[str, str]]  # of git
    gates: Sequence[Gate]
    room: Room | None


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
    heed: Callable[[], None] = lambda: None  # raises Asked where nothing more is to begin
    scratch: Path = Path("/nonexistent")  # where an agent can read what kern puts there
    watched: bool = False  # a person looks at what agents do
    cost: Cost = field(default_factory=lambda: Cost(0.0))
    tokens: int = 0
    # What a task took in earlier runs, and others so far of the same budget: US dollars, tokens.
    earlier: Callable[[str], tuple[float, int]] = lambda task: (0.0, 0)
    beside: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
    hold: Hold = unheld
    named: Callable[[str], str] = str  # a text, by the paths that what is held sees
    nests: bool = True  # within what holds it, an agent can make a sandbox of its own
    rota: Rota = field(default_factory=Rota)
    laid: set[Path] = field(default_factory=set)  # what was put there for agents
    # What each task took in this run.
    _tasks: dict[str, tuple[float, int]] = field(default_factory=dict)

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
        self._afford(task)
        self.heed()
        for event in announced(prompt, task):
            self.sink(event)
        every = (prompt.by, *prompt.stand_ins)
        for by, after in self.rota.order(every, self.clock()):
            began = prompt.stage, task, by.model, attempt, prompt.mode, by.agent
            self.sink(events.StageStarted(*began))
            asked = _Asked(replace(prompt, by=by), task, attempt, env or {}, config, gates, room)
            try:
                return self._tried(asked, again)
            except (LimitReached, TransientFault) as exc:
                if after is None:
                    if isinstance(exc, LimitReached):
                        others = [one for one in every if one != by]
                        exc.resets_at = self.rota.wakes(others, exc.resets_at)
                    raise
                self.sink(self.rota.rest(by, after, exc, prompt.stage, self.clock()))
                again()
                self._afford(task)
                self.heed()
        raise AssertionError("the last one returns or raises")

    def _tried(self, asked: _Asked, again: Callable[[], object]) -> Said:
        """By one agent, again and again while the fault is one that passes."""
        awaited = bool(self.rota.away)

        def passes(fault: BaseException) -> bool:
            """Of an outage that is waited for, one try after each pause."""
            return isinstance(fault, TransientFault) and not (awaited and isinstance(fault, Outage))

        try:
            return self._once(asked)
        except TransientFault as exc:
            if not passes(exc):
                raise
            first = exc
        import tenacity  # with asyncio and more, which most runs do without

        def told(state: tenacity.RetryCallState) -> None:
            fault = state.outcome and state.outcome.exception()
            tries, wait = state.attempt_number, state.upcoming_sleep
            self.sink(events.StageRetried(asked.prompt.stage, str(fault), tries, wait))

        for trial in tenacity.Retrying(
            retry=tenacity.retry_if_exception(passes),
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_exponential(multiplier=2, max=60) + tenacity.wait_random(0, 1),
            sleep=self.sleep,
            before_sleep=told,
            reraise=True,
        ):
            with trial:
                if trial.retry_state.attempt_number == 1:
                    raise first
                again()
                return self._once(asked)
        raise AssertionError("tenacity ends by returning or raising")

    def _once(self, asked: _Asked) -> Said:
        prompt, task, attempt = asked.prompt, asked.task, asked.attempt
        stage, by = prompt.stage, prompt.by
        who, place, began = (by.model, by.agent), self.scope.transcript(stage), time.monotonic()
        agent = self._program(prompt).agent
        try:
            ran, wall = self._ran(asked)
        except (AgentError, Interrupted, BudgetReached) as exc:
            why = exc.message if isinstance(exc, AgentError) else CUT_OFF
            self.cut_off(stage, task, attempt, who, why, time.monotonic() - began)
            if isinstance(exc, AgentError):
                raise self.rota.failed(stage, exc, place, self.clock()) from None
            raise
        self.sink(events.Traced(f"{stage}: exit {ran.code} after {ran.seconds:.1f} s"))
        ended = Ended(ran.code, ran.stderr, ran.overflow, ran.timed_out)
        output = watch.read(agent, place, stage, ended)
        self._count(output, task)
        fault = ending.timed_out(stage, ended, acted=bool(output.acts)) or output.error
        hidden = plain.secrets(os.environ)
        if fault:
            shut = closed.sentences(f"{ran.stderr}\n{fault.message}", wall)
            fault.message = plain.masked("; ".join((fault.message, *shut)), hidden)
        broke = isinstance(fault, OverBudget) and bool(self._left(task))
        if fault and (broke or not isinstance(fault, Failed)):
            ended_by = fault.message, ran.seconds, output.cost, attempt, *who, output.tokens
            self.sink(events.StageFailed(stage, task, *ended_by))
            if broke:
                broken = f"{stage} stage: the agent used up what it may cost: "
                raise BudgetReached(f"{broken}${output.cost or 0:.2f}", hint=RAISE.format("kern"))
            raise self.rota.failed(stage, fault, place, self.clock())
        self.rota.away = 0.0
        said = fault.message if fault else ""
        if fault:
            advice = f"; {fault.hint}" if fault.hint else ""
            self.sink(events.Warned(f"{stage} stage: {said}{advice}"))
        nothing = Answer(result={"type": "result", "is_error": True, "errors": [said]})
        reply = output.answer or nothing
        denied = tuple(plain.masked(call, hidden) for call in reply.denied)
        reply = replace(reply, text=plain.masked(reply.text, hidden), denied=denied)
        ending.new_enough(agent, reply.version)
        self.sink(
            events.StageFinished(
                *(stage, task, reply.text or said, ran.seconds, reply.cost_usd, reply.denied),
                *(attempt, by.model, reply.session, reply.turns, output.tokens, by.effort),
                *(reply.version, reply.sent_back, by.agent),
            )
        )
        if stage is Stage.RESEARCH and not (said or reply.text.strip()):
            raise TransientFault(f"{stage} stage: the answer is empty")
        return Said(reply, said, output.only_reads(agent))

    def _ran(self, asked: _Asked) -> tuple[process.Ran, Wall | None]:
        """And what it saw of the machine, where a sandbox held it. What is laid into the scratch
        folder stays: until the answer is saved, nothing else is to happen.
        """
        prompt, stage, settings = asked.prompt, asked.prompt.stage, self.settings
        program, works = self._program(prompt), stage is Stage.IMPLEMENT
        agent, transcript = program.agent, self.scope.transcript(stage)
        most = settings.budget.tokens.left(self._spent(asked.task))
        # What is silent until its end is not ended in time.
        printed = model.Output.STREAM if self.watched or most else model.Output.JSON
        idle = waits.scaled(settings.idle(printed))
        checking = 2 * sum(gate.timeout or _FOR_EVER for gate in asked.gates)  # seconds
        longest = settings.patience or settings.total(stage) or _FOR_EVER  # a gate that it runs
        given, folder = process.surroundings(), self.named(str(self.scratch))
        contract = prompt.contract if agent.contract else ""
        call = Call(
            program.command,
            stage,
            prompt.by.model,
            effort=prompt.by.effort,
            contract=f"{folder}/{_CONTRACT}" if contract else "",
            budget=self._left(asked.task),
            patience=longest if works else 0.0,
            output=printed,
            mark=secrets.token_hex(8),
            given=given,
            root=self.named(str(self.root)),
            nests=self.nests,
            folder=folder,
            gates=[(one.label, one.command, one.timeout, repeats(one)) for one in asked.gates],
        )
        begun = agent.start(call)
        self._lay({**begun.files, **({_CONTRACT: contract} if contract else {})})
        git = environment.added(given, (*_FOREGROUND, *asked.config))
        own = {**dict.fromkeys(("KERN_ROOT", "PWD"), str(self.root)), **asked.env}
        kind, env = Kind.WORKER if works else Kind.READER, {**given, **git, **begun.env, **own}
        held = self.hold(
            kind,
            begun.argv,
            env,
            agent=agent.name,
            room=asked.room,
        )
        watch = Watch(agent, stage, transcript, self.sink, self.tick, most)
        ran = process.run(
            held.argv,
            cwd=self.root,
            env=held.env,
            status=held.status,
            stdin=prompt.text if agent.contract else prompt.whole,
            stdout=transcript,
            mark=self.mark,
            tick=watch,
            joined=agent.joined,
            total=settings.total(stage),
            idle=idle and max(idle, checking),
        )
        watch.look(ended=True)
        return ran, held.wall

    def _lay(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            self.laid.add(self.scratch / name)
            workspace.lay(self.scratch / name, plain.encode(text))

    def _program(self, prompt: Prompt) -> Program:
        if found := self.programs.get(prompt.by.agent):
            return found
        raise KernError(
            f"{prompt.by.agent} was chosen for the {prompt.stage} stage after the run began",
            hint="run kern again",
        )

    def runs_gates(self, prompt: Prompt) -> bool:
        """Whether its agent is sent back by red gates where it would end."""
        return self._program(prompt).agent.gates

    def cut_off(
        self,
        stage: Role,
        task: str,
        attempt: int,
        who: tuple[str, str],
        why: str = CUT_OFF,
        seconds: float = 0.0,
    ) -> None:
        """A call without an answer cost something as well: what its transcript tells. `who`: model
        and agent.
        """
        program = self.programs.get(who[1])
        found = Output()
        if program:
            found = watch.cut_off(program.agent, self.scope.transcript(stage), stage)
        self._count(found, task)
        self.sink(
            events.StageFailed(stage, task, why, seconds, found.cost, attempt, *who, found.tokens)
        )

    def _count(self, output: Output, task: str) -> None:
        self.cost += Cost.of([output.cost])
        used = sum(output.tokens.values())
        usd, tokens = self._tasks.get(task, (0.0, 0))
        self._tasks[task] = usd + (output.cost or 0.0), tokens + used
        self.tokens += used

    def _spent(self, task: str) -> Spent:
        budget, nothing = self.settings.budget, (0.0, 0)
        before = self.earlier(task) if task and (budget.task or budget.tokens.task) else nothing
        beside = self.beside() if budget.run or budget.tokens.run else nothing
        now = self._tasks.get(task, nothing) if task else nothing  # a planner has none
        return Spent(
            *((self.cost.usd or 0.0) + beside[0], before[0] + now[0]),
            *(self.tokens + beside[1], before[1] + now[1]),
        )

    def _left(self, task: str) -> float:
        return self.settings.budget.left(self._spent(task))

    def _afford(self, task: str) -> None:
        if why := self.settings.budget.reached(self._spent(task)):
            raise BudgetReached(why, hint=RAISE.format("kern"))
