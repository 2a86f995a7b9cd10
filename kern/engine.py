"""The loop: look at what is true, ask the pipeline what is next, have the walk do it, tell the
sinks.
"""

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kern import (
    bundle,
    choice,
    credential,
    journal,
    lock,
    process,
    ready,
    summary,
    workspace,
)
from kern.agents import claude
from kern.documents import SPEC
from kern.errors import Interrupted, KernError, LimitReached
from kern.events import (
    LimitReset,
    RunStarted,
    Sink,
    TaskSettled,
    TaskStarted,
    Traced,
    Waiting,
    Warned,
)
from kern.observe import Situation
from kern.pipeline import Do, Outcome, resume
from kern.spec import Key, Marker
from kern.stages import Caller
from kern.summary import Settled
from kern.walk import Walk

MOST_SELECTED = 2  # in one iteration: a task, and another where a person took that one away
_NOTHING = (Outcome.SKIPPED, Outcome.BLOCKED)
UNKNOWN_WAIT_S = 900.0  # where a limit does not say when it ends
RESET_MARGIN_S = 5.0
# Of one walk; the table's longest is far below, so more means a fault of kern's own.
MOST_STEPS = 200


@dataclass(slots=True)
class Options:
    iterations: int = 5
    delay: float = 10.0
    command: str = claude.COMMAND
    wait: bool = True  # for a usage limit's reset
    max_cost: float = 0.0  # US dollars; 0: what kern.toml says
    max_minutes: float = 0.0
    sleep: Callable[[float], None] = time.sleep
    tick: process.Tick = process.unwatched
    countdown: Callable[[float], None] = lambda seconds: None
    clock: Callable[[], float] = time.time


def run(folder: Path, options: Options, sink: Sink) -> int:
    """One run of kern; the exit code. Raises KernError for what a person must settle."""
    found, _, parsed, settings = ready.prepare(folder)
    ready.to_work(found)
    templates = bundle.templates(found.root)
    ready.agent(options.command)
    scope = workspace.scope(found.root, found.head().name)
    run_id = secrets.token_hex(8)
    sink = journal.beside(sink, found, run_id)
    bounds = settings.budget.within(options.max_cost, options.max_minutes)
    settings = replace(settings, budget=bounds)
    caller = Caller(
        found.root, scope, run_id, sink, options.command, settings, options.sleep, options.tick
    )
    caller.earlier = journal.costs(journal.place(found))
    payer = credential.payer(found.root, options.command)
    with process.signals(), lock.hold(scope, found.git_dir):
        workspace.empty(found.scratch)
        loop = Loop(Walk(found, scope, caller, templates, sink), options, sink)
        for notice in filter(None, (scope.notice, payer.warning)):
            sink(Warned(notice))
        sink(
            RunStarted(
                run_id,
                str(found.root),
                found.head().name,
                str(scope.folder),
                ready.commands(parsed, settings),
                payer.who,
                sum(task.marker is not Marker.DONE for task in parsed.tasks),
                options.iterations,
            )
        )
        try:
            return loop.run()
        except Interrupted:
            process.sweep(caller.mark)
            raise
        finally:
            caller.early.end()


class Loop:
    """Iterations: each carries one task to an outcome."""

    def __init__(self, walk: Walk, options: Options, sink: Sink) -> None:
        self.walk = walk
        self.options = options
        self.sink = sink
        self.branch = walk.repo.head().branch
        self.taken: Key | None = None
        self.settled: list[Settled] = []
        self.passed_over: set[Key] = set()
        self.waits, self.waited = 0, 0.0  # for one limit
        self.then: set[Key] | None = None  # `passed_over`, where an iteration follows at once
        self.began = time.monotonic()

    def run(self) -> int:
        # Step 0: an agent that outlived a killed kern would go on editing the tree.
        if ended := process.sweep(("KERN_ROOT", str(self.walk.repo.root))):
            self.sink(Warned(f"ended {ended} process(es) that an earlier run left behind"))
        if note := self._ignored():
            self.sink(Warned(note))
        error: BaseException | None = None
        try:
            for number in range(1, self.options.iterations + 1):
                if number > 1:
                    self._pause()
                at_once = number < self.options.iterations and not self.options.delay
                self.then = self.passed_over if at_once else None
                if not self._iterate(number):
                    break
                self._give_up()
        except BaseException as exc:
            error = exc
            raise
        finally:
            code = self._end(error)
        return code

    def _give_up(self) -> None:
        """Stop where task after task comes to nothing: the fault is hardly theirs."""
        most = self.walk.caller.settings.max_failures
        last = self.settled[-most:] if most else []
        if len(last) < most or not all(one.outcome in _NOTHING for one in last) or not last:
            return
        raise KernError(
            f"{most} tasks in a row came to nothing: stopped, before more is spent",
            hint="read their notes in SPEC.md; max_failures in kern.toml sets the bound",
        )

    def _ignored(self) -> str:
        if self.walk.repo.ignored(SPEC):
            return (
                f"git ignores {SPEC}: commits leave it out and name the task in a Kern-Task trailer"
            )
        return ""

    def _pause(self) -> None:
        _, parsed = self.walk.papers.spec()
        if self.options.delay and (parsed.active or choice.select(parsed, self.passed_over)):
            self.walk.caller.early.end()
            self.sink(Waiting(self.options.delay))
            self.options.sleep(self.options.delay)

    def _iterate(self, number: int) -> bool:
        """One task to its outcome; False where nothing is ready."""
        told = False
        selected = 0
        for step in range(MOST_STEPS):
            at = self.walk.look()
            if at.head.branch != self.branch:
                raise KernError(
                    f"the branch was switched under the run: {self.branch} to {at.head.name}",
                    hint=f"git switch {self.branch}, then run kern again: it resumes",
                )
            # What this run selected is not in progress elsewhere, whatever refs another branch has.
            facts = replace(at.facts, elsewhere=at.facts.elsewhere and at.key != self.taken)
            do = resume(facts)
            self.sink(Traced(f"next: {str(do).partition(': ')[2]}"))
            if not told and do is not Do.SELECT and at.key is not None and do is not Do.ABANDON:
                self.sink(
                    TaskStarted(at.key.text, number, "" if step else str(do).partition(": ")[2])
                )
                told = True
            if do is Do.SELECT:
                selected += 1
                if selected > MOST_SELECTED:
                    raise KernError(
                        "the task is taken out of progress again and again: does a hook stash?",
                        hint="git status, git stash list; then run kern again",
                    )
                task = self.walk.take_next(self.passed_over)
                if task is None:
                    return False
                self.taken = task.key
                self.sink(TaskStarted(task.text, number))
                told = True
            elif settled := self._performed(do, at):
                self.settled.append(settled)
                if settled.outcome is not Outcome.DONE:
                    self.passed_over.add(settled.key)
                self.sink(
                    TaskSettled(
                        *(settled.task, settled.outcome, settled.detail),
                        *(settled.commit, settled.proved),
                    )
                )
                return True
        raise KernError(
            f"no end after {MOST_STEPS} steps: this is a fault in kern",
            hint="kern -v shows the steps",
        )

    def _performed(self, do: Do, at: Situation) -> Settled | None:
        """The step, or the wait for a usage limit's reset: then the same step is due again."""
        try:
            settled = self._perform(do, at)
        except LimitReached as limit:
            self._wait_for(limit)
            return None
        self.waits, self.waited = 0, 0.0
        return settled

    def _wait_for(self, limit: LimitReached) -> None:
        """Until the reset, with a countdown; where it is not known, a while (R33)."""
        self.walk.caller.early.end()
        now = self.options.clock()
        seconds = UNKNOWN_WAIT_S
        if limit.resets_at is not None:
            # It may hold longer than it said, and the next answer say the same again.
            seconds = max(limit.resets_at - now, 0) + RESET_MARGIN_S * 4 ** min(self.waits, 4)
        self.waits += 1
        self.waited += seconds
        most = self.walk.caller.settings.max_wait
        if not self.options.wait or self.waited > most:
            longer = f"longer than max_wait, {process.span(most)}, in kern.toml"
            why = longer if self.options.wait else "--no-wait"
            raise LimitReached(f"{limit}; not waited for: {why}", hint=limit.hint)
        self.sink(LimitReset(str(limit), seconds, now + seconds))
        left = seconds
        while left > 0:
            self.options.countdown(left)
            step = min(left, 1.0)
            self.options.sleep(step)
            left = min(left - step, now + seconds - self.options.clock())

    def _perform(self, do: Do, at: Situation) -> Settled | None:
        walk = self.walk
        match do:
            case Do.STOP:
                text = at.key.text if at.key else ""
                raise KernError(
                    f"the task in progress was begun on branch {at.other_branch}: {text}",
                    hint=f"{_back(at.other_branch)}, or set its marker in SPEC.md to [ ] here",
                )
            case Do.UNDO_COMMIT:
                walk.recovery.undo_commit(at)
            case Do.FINISH:
                return walk.settling.finish(at)
            case Do.TAKE_OVER:
                walk.recovery.take_over(at)
            case Do.REMARK:
                walk.recovery.remark(at)
            case Do.ABANDON:
                walk.recovery.abandon(at)
            case Do.BOOK:
                walk.settling.book(at)
            case Do.RELEASE | Do.SKIP_UNFIT:
                return walk.settling.release(at)
            case Do.SKIP:
                return walk.settling.release(at, exhausted=True)
            case Do.COMMIT | Do.COMMIT_SELF:
                walk.commit(at, ask=do is Do.COMMIT, then=self.then)
            case Do.REJECT:
                walk.prover.reject(at)
            case Do.REPROVE:
                walk.prover.reprove(at)
            case Do.PROVE:
                walk.prover.prove(at)
            case Do.UNDO:
                walk.recovery.undo(at)
            case Do.NOTE_RESEARCH:
                walk.note_research(at)
            case Do.IMPLEMENT | Do.DECOMPOSE:
                walk.implement(at)
            case Do.RESEARCH:
                walk.research(at)
            case Do.SELECT:
                raise AssertionError("handled by the caller")
        return None

    def _end(self, error: BaseException | None) -> int:
        """The summary, whatever ended the run."""
        try:
            parsed = self.walk.papers.spec()[1]
        except KernError:
            parsed = None
        caller = self.walk.caller
        ended = summary.of(
            self.settled,
            parsed,
            error,
            seconds=time.monotonic() - self.began,
            cost_usd=caller.cost_usd,
            unpriced=caller.unpriced,
            tokens=caller.tokens,
        )
        self.sink(ended)
        return ended.exit_code


def _back(branch: str) -> str:
    """The command that goes back to where a walk was begun."""
    detached = re.fullmatch(r"HEAD-([0-9a-f]{7})", branch)
    return f"git checkout --detach {detached[1]}" if detached else f"git switch {branch}"
