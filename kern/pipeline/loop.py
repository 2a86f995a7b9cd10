"""The loop: look at what is true, ask the table what is next, have it done, tell the sinks."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kern.errors import Asked, Interrupted, KernError
from kern.events import Sink, TaskSettled, TaskStarted, Traced, Waiting, Warned
from kern.git import refs
from kern.git.landing import waiting_refs
from kern.model import SPEC, Key, Outcome
from kern.pipeline import (
    facts,
    landing,
    preflight,
    project,
    session,
    steps,
    summary,
)
from kern.pipeline.facts import Situation
from kern.pipeline.review import Reviews
from kern.pipeline.site import Options, Site
from kern.pipeline.table import Do, Settled, resume
from kern.pipeline.waits import Waits
from kern.spec import order
from kern.system import process

MOST_BEGUN = 4  # in one iteration: a task, and another where a person took that one away
FRUITLESS = 3  # tasks in a row
MOST_STEPS = 200  # of one iteration; the table's longest is far below: more means a fault of kern's
# What begins something long: a request of a person is looked for before it. The other steps are
# short, and settle what was begun.
_LONG = (Do.SELECT, Do.RESEARCH, Do.IMPLEMENT, Do.PROVE, Do.COMMIT)
_BEGINS = (Do.SELECT, Do.RESEARCH, Do.IMPLEMENT)
# The tree holds no agent's work then: the gates tell how things stand before the first task.
_UNTOUCHED = (Do.SELECT, Do.RESEARCH)


def run(folder: Path, options: Options, sink: Sink) -> int:
    """One run of kern; the exit code. Raises KernError for what a person must settle."""
    with session.begin(folder, options, sink, empty=options.until_done, lands=True) as site:
        site.repo.signs = options.sign
        session.look_ahead(site)
        if (code := options.instead(site)) is not None:
            return code
        loop = Loop(site)
        loop.make_ready()
        site.sink(summary.begun(site))
        return loop.run()


class Loop:
    """Iterations: each carries one task to an outcome."""

    def __init__(self, site: Site) -> None:
        self.site, self.options, self.sink = site, site.options, site.sink
        self.reviews, self.waits = Reviews(site), Waits(site)
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
        do = resume(at.facts)
        if site.rooms.place and not at.start and do in _BEGINS and self._pays(do):
            preflight.require_clean(site.rooms.place.changed())
        if site.rooms.mounted and process.FLEET not in os.environ:
            site.repo.ahead = waiting_refs(site.repo)

    def run(self) -> int:
        if self.site.repo.ignored(SPEC):
            how = "commits leave it out and name the task in a Kern-Task trailer"
            self.sink(Warned(f"git ignores {SPEC}: {how}"))
        error: BaseException | None = None
        stopped = ""
        try:
            self._iterations()
            landing.check(self.site)
        except Asked:
            stopped = "the next task" if self.due is Do.SELECT else self.due
            stopped = "; ".join(filter(None, (stopped, self._unfinished())))
        except BaseException as exc:
            error = exc
            if isinstance(exc, Interrupted):
                exc.note = self._unfinished()
            raise
        finally:
            code = self._end(error, stopped)
        return code

    def finish(self) -> list[Settled]:
        """Carry the task in progress to its outcome, where one is."""
        while resume(steps.look(self.site).facts) is not Do.SELECT:
            self._iterate(1)
        landing.land(self.site)
        return self.settled

    def _iterations(self) -> None:
        """Those that were asked for, as far as there is something to do."""
        if self.options.until_done:
            self.reviews.goal()
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
            self.sink(Waiting(self.options.delay))
            self.site.steered.sleep(self.options.delay)

    def _iterate(self, number: int) -> bool:
        """One task to its outcome; False where nothing is ready."""
        announced, count = False, 0
        for step in range(MOST_STEPS + 1):
            at = self._look()
            do = self.due = resume(at.facts)
            if do in _LONG:
                self.site.steered.check_requests()
            self.sink(Traced(f"next: {do}"))
            count += do in (Do.SELECT, Do.ABANDON)
            if count > MOST_BEGUN:
                break
            if at.key and not announced and do not in (Do.SELECT, Do.ABANDON):
                self.sink(TaskStarted(at.key.text, number, "" if step else do))
                announced = True
            if do is Do.SELECT:
                landing.land(self.site)
            if do in _UNTOUCHED and not self.site.memory.checked and self._pays(do):
                with self.waits.patience():
                    project.check(self.site)
                continue  # it may have taken long
            if do is Do.SELECT:
                if not steps.take_next(self.site, self.passed_over, self.wanted):
                    return False
                continue
            settled = None
            with self.waits.patience():
                settled = steps.STEPS[do](self.site, at)
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
        at = steps.look(self.site)
        if at.head.branch != self.branch:
            raise switched(self.branch, at.head.name)
        return at

    def _pays(self, do: Do) -> bool:
        """Whether an agent is about to be paid."""
        if do is not Do.SELECT or self.options.until_done:
            return True
        return order.select(self.site.documents.spec()[1], self.passed_over) is not None

    def _settle(self, one: Settled) -> None:
        self.settled.append(one)
        if one.outcome not in (Outcome.DONE, Outcome.ASKED):
            self.passed_over.add(one.key)
        self.sink(TaskSettled(one.task, one.outcome, one.detail, one.commit, one.proved))

    def _planned(self) -> bool:
        """Whether a review finds more to do, however long limits last."""
        while True:
            with self.waits.patience():
                return self.reviews.more()

    def _unfinished(self) -> str:
        """In place, what a person should know of the tree where the run is interrupted."""
        site = self.site
        if site.rooms.mounted or not refs.start(site.repo, site.repo.head().name):
            return ""
        return (
            "the task's unfinished work is in your working tree: the next run goes on with it, or "
            "saves it to a ref and restores the tree"
        )

    def _end(self, error: BaseException | None, stopped: str) -> int:
        """The summary, whatever ended the run."""
        parsed, caller = None, self.site.caller
        with contextlib.suppress(KernError):
            parsed = self.site.documents.spec()[1]
        end = summary.of(
            *(self.settled, parsed, error),
            seconds=time.monotonic() - self.began,
            cost=caller.cost,
            tokens=caller.tokens,
            stopped=stopped,
            until=bool(stopped) and self.site.steered.late,
        )
        summary.name_unsigned(self.site, self.settled)
        if error is None:
            with contextlib.suppress(KernError):  # the next run's end tries again
                session.drop_old(self.site)
        self.sink(replace(end, called=self.options.called))
        return end.exit_code


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
