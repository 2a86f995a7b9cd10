"""The loop: look at what is true, ask the table what is next, have it done, tell the sinks.

Two rules hold throughout: HEAD has the task before `[x]` is on the disk, and work is saved, then
the tree restored, then the attempt noted.
"""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from kern import events
from kern.config import ROUNDS
from kern.errors import Asked, KernError
from kern.events import Sink
from kern.git.landing import waiting_refs
from kern.model import SPEC, Key, Marker, Outcome, Saved
from kern.pipeline import (
    commit,
    facts,
    implement,
    landing,
    preflight,
    project,
    session,
    settle,
    summary,
    verify,
)
from kern.pipeline.facts import Situation
from kern.pipeline.site import CLOSE, Options, Site
from kern.pipeline.table import Do, Settled, resume
from kern.pipeline.waits import Waits
from kern.spec import edit, order
from kern.spec.parse import Spec
from kern.stages import record
from kern.stages.plan import Mode, Planner, goal_of
from kern.system import process

MOST_BEGUN = 4  # in one iteration: a task, and another where a person took that one away
FRUITLESS = 3  # tasks in a row
MOST_STEPS = 200  # of one iteration; the table's longest is far below: more means a fault of kern's
# What begins something long: a request of a person is looked for before it. The other steps are
# short, and settle what was begun.
_LONG = (Do.SELECT, Do.RESEARCH, Do.IMPLEMENT, Do.PROVE, Do.COMMIT)


def run(folder: Path, options: Options, sink: Sink) -> int:
    """One run of kern; the exit code. Raises KernError for what a person must settle."""
    with session.begin(folder, options, sink, lands=True) as site:
        site.repo.signs = options.sign
        session.look_ahead(site)
        if (code := options.instead(site)) is not None:
            return code
        loop = Loop(site)
        loop.make_ready()
        site.sink(summary.begun(site))
        return loop.run()


# What each row of the resume table does; SELECT is the loop's. Each returns how the task's
# iteration ended, where it did.
STEPS: dict[Do, Callable[[Site, Situation], Settled | None]] = {
    Do.FINISH: settle.finish,
    Do.ABANDON: settle.undo,
    Do.BOOK: settle.book,
    Do.RELEASE: settle.release,
    Do.COMMIT: commit.commit,
    Do.PROVE: verify.prove,
    Do.UNDO: settle.undo,
    Do.CONCLUDE: commit.conclude,
    Do.RESEARCH: implement.research,
    Do.IMPLEMENT: implement.implement,
}


def look(site: Site) -> Situation:
    """What is true, the markers set right first."""
    _, parsed = site.documents.spec()
    if parsed.unclosed:
        raise KernError(parsed.unclosed.said, hint=CLOSE)
    at = facts.look(site, proved=site.memory.proved)
    task, verdict = at.task, at.facts.saved not in (Saved.NONE, Saved.OPEN)
    if at.start and not at.facts.done and task and task.marker is Marker.DONE and not verdict:
        # An agent or a gate that was at work when kern was killed can have ticked it as well.
        site.documents.edit_task(task.key, lambda text, _, now: edit.mark(text, now, Marker.ACTIVE))
        site.warn(f"ticked before kern had come to a verdict: back to [~]: {task.text}")
        return facts.look(site)
    return at


def take_next(site: Site, passed_over: Collection[Key], only: Key | None = None) -> Key | None:
    """Sweep, select, `[~]`. None where nothing is ready. `only`: that one."""
    record.sweep(site.scope)

    def apply(text: str, parsed: Spec) -> tuple[str, Key | None]:
        task = parsed.find(only) if only else order.select(parsed, passed_over)
        return (edit.mark(text, task, Marker.ACTIVE), task.key) if task else (text, None)

    return site.documents.update(apply)


class Loop:
    """Iterations: each carries one task to an outcome."""

    def __init__(self, site: Site) -> None:
        self.site, self.options, self.sink = site, site.options, site.sink
        self.waits, self.reviews = Waits(site), 0
        self.branch = self.site.repo.head().branch
        self.due = Do.SELECT
        at = facts.look(site)
        self.wanted: Key | None = None  # no other task is to be taken
        if self.options.task:
            self.wanted = at.wanted(site.documents.spec()[1], self.options.task)
        self.settled: list[Settled] = []
        self.passed_over: set[Key] = set()
        self.began = time.monotonic()

    def make_ready(self) -> None:
        """In the person's tree, which must be clean: what changes from then on is saved and undone.
        Else from commits that wait to land, as from those that have; a worker's all land.
        """
        site, at = self.site, facts.look(self.site)
        if site.rooms.place and (at.facts.active or self._pays()):
            preflight.yours(site.repo, apart=False)
        if site.rooms.mounted and process.FLEET not in os.environ:
            site.repo.ahead = waiting_refs(site.repo)

    def run(self) -> int:
        if self.site.repo.ignored(SPEC):
            how = "commits leave it out and name the task in a Kern-Task trailer"
            self.sink(events.warning(f"git ignores {SPEC}: {how}"))
        error: BaseException | None = None
        stopped = ""
        try:
            self._iterations()
            if in_the_way := landing.land(self.site):
                raise in_the_way
        except Asked:
            stopped = "the next task" if self.due is Do.SELECT else str(self.due)
        except BaseException as exc:
            error = exc
            raise
        finally:
            code = self._end(error, stopped)
        return code

    def finish(self) -> list[Settled]:
        """Carry the task in progress to its outcome, where one is."""
        while resume(look(self.site).facts) is not Do.SELECT:
            self._iterate(1)
        landing.land(self.site)
        return self.settled

    def _iterations(self) -> None:
        """Those that were asked for, as far as there is something to do."""
        if self.options.until_done:
            goal_of(self.site.repo.root, self.site.documents.spec_text())
        number = 1
        while number <= self.options.iterations:
            if number > 1:
                self._delay()
            if self._iterate(number):
                number += 1
                if fault := fruitless(self.settled):
                    raise fault
            elif not (self.options.until_done and self._planned()):
                return

    def _delay(self) -> None:
        _, parsed = self.site.documents.spec()
        if self.options.delay and (parsed.active or order.select(parsed, self.passed_over)):
            self.due = Do.SELECT
            self.site.steered.check_requests()
            how = "(Ctrl-C ends; kern goes on from here)"
            text = f"next task in {self.options.delay:g} s {how}"
            self.sink(events.live("pause", text=text))
            self.site.steered.sleep(self.options.delay)

    def _iterate(self, number: int) -> bool:
        """One task to its outcome; False where nothing is ready."""
        announced, count = False, 0
        for step in range(MOST_STEPS + 1):
            at = self._look()
            do = self.due = resume(at.facts)
            if do in _LONG:
                self.site.steered.check_requests()
            self.sink(events.live("debug", text=f"next: {do}"))
            begins = do in (Do.SELECT, Do.ABANDON)
            count += begins
            if count > MOST_BEGUN:
                break
            if at.key and not (announced or begins):
                how = {"iteration": number, "resumed": "" if step else str(do)}
                self.sink(events.new("task", "start", task=at.key.text, **how))
                announced = True
            if do is Do.SELECT:
                landing.land(self.site)
                if not self.site.memory.checked and self._pays():
                    project.check(self.site)  # it may take long
                elif not take_next(self.site, self.passed_over, self.wanted):
                    return False
                continue
            settled = None
            with self.waits.patience():
                settled = STEPS[do](self.site, at)
            if settled:
                self._settle(settled)
                return True
        raise KernError(
            "the task in progress comes to no end: is it reworded again and again?",
            hint=f"does a hook stash {SPEC}, or an agent write it? git stash list; then run kern "
            "again; kern -v shows the steps",
        )

    def _look(self) -> Situation:
        """What is true. Raises KernError where the branch was switched under the run."""
        at = look(self.site)
        if at.head.branch != self.branch:
            raise switched(self.branch, at.head.name)
        return at

    def _pays(self) -> bool:
        """Whether an agent is to be paid, before there is a task."""
        if self.options.until_done:
            return True
        return order.select(self.site.documents.spec()[1], self.passed_over) is not None

    def _settle(self, one: Settled) -> None:
        self.settled.append(one)
        if one.outcome not in (Outcome.DONE, Outcome.ASKED):
            self.passed_over.add(one.key)
        names = "task", "detail", "proved", "commit"
        facts = {name: getattr(one, name) for name in names}
        self.sink(events.new("task", one.outcome, **facts))

    def _planned(self) -> bool:
        """Whether a review finds more to do, however long limits last."""
        while True:
            with self.waits.patience():
                return self._reviewed()

    def _reviewed(self) -> bool:
        """Whether there are new tasks, where none is open; False where the goal is reached or tasks
        wait.
        """
        site = self.site
        if any(task.marker is not Marker.DONE for task in site.documents.spec()[1].tasks):
            return False
        if self.reviews >= ROUNDS:
            raise KernError(
                f"not done after {self.reviews} reviews",
                hint="look at what they added to SPEC.md; kern --until-done goes on",
            )
        planner = Planner(site.repo, site.documents, site.templates, site.caller)
        plan = planner.ask(Mode.REVIEW, goal_of(site.repo.root, site.documents.spec_text()))
        self.reviews += 1
        planner.take(plan)
        return bool(plan.titles)

    def _end(self, error: BaseException | None, stopped: str) -> int:
        """The summary, whatever ended the run."""
        seconds = time.monotonic() - self.began
        end = summary.ended(self.site, self.settled, error, seconds, stopped)
        summary.name_unsigned(self.site, self.settled)
        if error is None:
            with contextlib.suppress(KernError):  # the next run's end tries again
                session.drop_old(self.site)
        if end.interrupted:
            self.sink(events.new("error", text=end.interrupted))
        self.sink(end)
        return int(end.record["exit"])


def switched(before: str, now: str) -> KernError:
    return KernError(
        f"the branch was switched under the run: {before} to {now}",
        hint=f"git switch {before}, then run kern again: it resumes",
    )


def fruitless(settled: Sequence[Settled]) -> KernError | None:
    """To stop where task after task comes to nothing: the fault is hardly theirs."""
    last = [one.outcome for one in settled if not one.idle][-FRUITLESS:]
    if len(last) < FRUITLESS or not {*last} <= {Outcome.SKIPPED, Outcome.BLOCKED}:
        return None
    return KernError(
        f"{FRUITLESS} tasks in a row ended without a result: stopped, before more is spent",
        hint="read their notes in SPEC.md; then run kern again",
    )
