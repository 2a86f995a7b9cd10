"""The loop of many at once: hand out what is ready, take in what came, land it, one at a time. It
alone writes the branch, the person's working tree, SPEC.md and LEARNINGS.md.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from typing import Any

from kern import plain
from kern.config import Spent
from kern.errors import Asked, BudgetReached, Exit, KernError
from kern.events import LimitReset, TaskSettled, Traced
from kern.fleet import ends, handout, landing, lanes, papers, worktrees
from kern.fleet.child import Workshop
from kern.fleet.crew import Crew
from kern.fleet.handout import Hold, Limit
from kern.fleet.lanes import Picture
from kern.fleet.proving import Proving
from kern.fleet.work import Carry, Collided, Job, Landed, Landing, Outcome, Red, Waiting, Work
from kern.git import operations
from kern.journal import store
from kern.model import LEARNINGS, SPEC, Key
from kern.model import Outcome as End
from kern.pipeline import loop as single
from kern.pipeline import summary, waits
from kern.pipeline.options import Options
from kern.pipeline.session import Session
from kern.pipeline.table import Settled
from kern.stages.call import RAISE

_TURN_S = 0.2  # between two looks, where nothing ends
_AGAIN_S = 2.0  # between two tries at what a person's edits keep from landing
_FOR_YOU = (End.SKIPPED, End.BLOCKED, End.ASKED)
Show = Callable[[Picture], None]
Tell = Callable[[Mapping[str, Any]], None]  # a worker's record, as it comes


class Many:
    """One run of many at once."""

    def __init__(
        self, begun: Session, options: Options, shop: Workshop, carry: Carry, count: int
    ) -> None:
        """`carry`: what each of so many workers is called with."""
        self.site, self.options, self.steered = begun.site, options, begun.steered
        self.sink, self.caller = begun.site.sink, begun.site.caller
        self.repo, self.onto = begun.site.repo, begun.site.repo.head().branch
        self.shop = shop
        self.crew = Crew(begun.site, shop, carry, count, self.onto, options)
        self.journal = store.Follower(store.place(self.repo.common_dir), self.caller.run)
        self.check = Proving(shop.yard, self.repo, shop.many, options, self.sink, shop.shown)
        self.show: Show = lambda picture: None
        self.tell: Tell = lambda record: None
        self.queue: list[Work] = []
        self.lying: dict[str, Waiting] = {}  # by the work branch
        self.tried = 0.0  # when landing was, for what a person's edits keep from it
        self.came: list[Outcome] = []
        self.said: dict[str, Mapping[str, Any]] = {}  # by a task's kern: it begins, it ended so
        self.told = False  # whether any worker has written any record
        self.settled: list[Settled] = []
        self.passed_over: set[Key] = set()
        self.failed: dict[int, int] = {}  # how often a worker could not begin
        self.tries: dict[Key, int] = {}
        self.given_up: list[Outcome] = []  # tasks that only the next run resumes
        self.wanted: Key | None = None
        self.limit, self.held = Limit(), Hold.NO
        self.merging, self.stops = "", False  # what a person is in; the workers are to end
        self.fault: KernError | None = None  # ends the run, when all have come home
        self.began = time.monotonic()
        self.picture = Picture()

    def run(self) -> int:
        """The exit code. Raises what ended the run early."""
        error: BaseException | None = None
        stopped = ""
        self.options.tick = self.caller.tick = self.site.gates.tick = self._tick
        try:
            self.queue += ends.take_up(self.crew)
            while self._turn():
                self._wait()
            self._leave()
        except Asked:
            stopped = "the next task"
        except BaseException as exc:
            error = exc
            raise
        finally:
            code = self._end(error, stopped)
        return code

    def settle(self) -> None:
        """Nothing new begins: what is finished lands, half-done work is saved as a ref."""
        try:
            self.queue += ends.take_up(self.crew, resume=False)
            if self.queue:
                self._land()
        finally:
            self.check.close()
            ends.tidy(self.crew)

    # ------------------------------------------------------------ one turn

    def _turn(self) -> bool:
        """Whether anything is left to wait for."""
        self._take_in()
        self._heed()
        if self._disturbed():
            self._draw()
            return bool(self.crew.busy or not (self.fault or self.held is Hold.STOP))
        while self.came:
            self._settle(self.came.pop(0))
        if self.queue and self._may_land():
            self._land()
        self._hand_out()
        self._draw()
        return bool(self.crew.busy or self.came or self._may_land() or self._waits())

    def _waits(self) -> bool:
        """For a limit's reset: there is more to do."""
        return self.held is Hold.LIMIT and not self.fault

    def _wait(self) -> None:
        if self.crew.busy:
            wait(self.crew.busy, _TURN_S, FIRST_COMPLETED)
        else:
            self.options.sleep(_TURN_S)

    def _tick(self, seconds: float, silent: float) -> None:
        """While the gates of what lands are at work: the workers go on."""
        self._take_in()
        self._heed()
        self._hand_out()
        self._draw()

    def _take_in(self) -> None:
        home = self.crew.home()
        now = time.time()
        for record in self.journal.new():
            self.told = True
            before, self.picture = self.picture, lanes.after(self.picture, record, now)
            if record["kind"] in ("task", "work"):
                self.said[str(record.get("branch"))] = record
            elif record["kind"] == "limit" and (until := record.get("until")):
                self._limited(record, float(until))
            if self.picture.away != before.away:  # each worker waits by itself, and it is told once
                self.sink(lanes.outage(record))
            self.tell(record)
        for lane in self.crew.placed():
            self.picture = self.picture.having(lane)
        self.came += home
        for outcome in home:
            self.picture = self.picture.having(lanes.Lane(outcome.job.worker))

    def _limited(self, record: Mapping[str, Any], until: float) -> None:
        """It is announced once, however many meet it."""
        before = self.limit
        self.limit = before.later(until + waits.RESET_MARGIN_S)
        if self.limit.until > before.until + _AGAIN_S * 30 and self.options.wait:  # told once
            self.sink(LimitReset(str(record.get("text")), max(until - time.time(), 0.0), until))

    def _disturbed(self) -> bool:
        """Whether a person is in the middle of a rebase or a merge: it is waited for. Raises
        KernError where HEAD names another branch.
        """
        before, self.merging = self.merging, operations.begun(self.repo)
        if self.merging and not before:
            self.site.warn(f"{self.merging}: no task lands or begins until it has ended")
        head = self.repo.head()
        if head.branch != self.onto and not self.merging:
            raise single.switched(self.onto, head.name)
        return bool(self.merging)

    def _heed(self) -> None:
        """What holds for all: a request, the budget, a limit."""
        cost = (self.picture.cost + self.caller.cost).usd or 0.0
        spent = Spent(cost, 0.0, time.monotonic() - self.began)
        now = self.limit, self.caller.settings.budget, spent, self.options.clock()
        held, why = handout.hold(*now, asked=self.steered.look())
        if held is Hold.BUDGET and not self.fault:
            self.fault = BudgetReached(why, hint=RAISE.format(ends.call(self.options)))
        if self.fault:
            held = Hold.BUDGET
        if held in (Hold.STOP, Hold.BUDGET):
            self.shop.children.stop()
            self.stops = True
        self.held = held

    # ------------------------------------------------------------ handing out

    def _hand_out(self) -> None:
        if self.held or self.fault or operations.begun(self.repo):
            return
        text, parsed = self.site.papers.spec()
        for worker in self.crew.free():
            if self.crew.handed >= self.options.iterations:
                return
            job = self.crew.resumed(worker)
            if job is None:
                touched = self.crew.touched()
                found = handout.choose(parsed, touched, self.passed_over, self.wanted)
                if found is None:
                    return
                if found.shared:
                    self.sink(Traced(f"shares {plain.some(found.shared)}: {found.task.text}"))
                job = self.crew.job(worker, found, text, parsed)
            self.picture = self.picture.having(self.crew.start(job))

    # ------------------------------------------------------------ what came home

    def _settle(self, came: Outcome) -> None:
        job = came.job
        if came.commit:
            papers = came.paper(SPEC) or "", came.paper(LEARNINGS)
            proved = str(self.said.get(job.branch, {}).get("proved") or "")
            whole = (job.key, job.branch, job.base, came.commit, job.worker, *papers, proved)
            self.queue.append(Work(*whole))
        elif came.under_way:
            self._interrupted(came)
        elif came.fault and came.unfit:
            self._unfit(came)
        elif self.stops and job.branch not in self.said:
            self._release(job)  # its kern had not begun the task when it was asked to end
        else:
            self._nothing(came)

    def _interrupted(self, came: Outcome) -> None:
        """The task is in progress in its worktree: resumed at once, or by the next run."""
        job = came.job
        tries = self.tries[job.key] = self.tries.get(job.key, 0) + 1
        if self.held in (Hold.STOP, Hold.BUDGET) or self.fault:
            return
        # In kern's own words, and the same once more: the others would meet it as well.
        if came.code == Exit.LIMIT or (came.hint and tries > 1):
            self.fault = ends.cause(came, self.limit)
        elif came.fault and tries < ends.TRIES:
            task = plain.line(job.key.text, 160)
            self.site.warn(f"worker {job.worker}: {came.fault}; its task is resumed: {task}")
            self.crew.handed -= 1
            self.crew.again.append(replace(job, tree=job.place, again=True))
        else:
            why = came.fault or "it was asked to stop"
            self.site.warn(f"left for the next run: {plain.line(job.key.text, 160)}: {why}")
            self.given_up += [came] if came.fault else []

    def _unfit(self, came: Outcome) -> None:
        """The worker cannot work: it may try once more, and the others go on."""
        job = came.job
        failed = self.failed[job.worker] = self.failed.get(job.worker, 0) + 1
        self.site.warn(ends.unfit(came, begun=job.branch in self.said))
        lasting = came.code == Exit.USAGE
        if failed > 1 or lasting:
            self.crew.retired.add(job.worker)
        self.crew.handed -= 1
        self._release(job)
        # Before any has begun, what keeps one from it keeps all: they are much alike.
        if len(self.crew.retired) == self.crew.count or (lasting and not self.told):
            self.fault = ends.cause(came, self.limit)

    def _nothing(self, came: Outcome) -> None:
        """Split, skipped, asked: what it noted is all that came of it."""
        job, said = came.job, self.said.get(came.job.branch, {})
        before, after = dict(job.papers).get(SPEC, ""), came.paper(SPEC) or ""
        self.site.papers.edit(lambda text, _: papers.carried(text, job.key, before, after))
        self._release(job)
        self._settled(Settled(job.key.text, *ends.came_to(came, said), job.key))

    def _settled(self, one: Settled) -> None:
        self.settled.append(one)
        if one.outcome not in (End.DONE, End.ASKED):
            self.passed_over.add(one.key)
        needs = self.picture.needs + (one.outcome in _FOR_YOU)
        done = self.picture.done + (one.outcome is End.DONE)
        self.picture = replace(self.picture, needs=needs, done=done)
        self.sink(TaskSettled(one.task, one.outcome, one.detail, one.commit, one.proved))
        if why := single.fruitless(self.settled, self.caller.settings.max_failures):
            self.fault = self.fault or why

    def _release(self, job: Job | Work) -> None:
        """The task may be handed out again, and its worktree used for another."""
        tree = self.crew.trees.get(job.branch, 0)
        worktrees.keep_runs(self.shop.yard, tree, job.branch, self.site.scope)
        worktrees.drop(self.repo, job.branch)
        self.crew.released(job.key, job.branch)
        self.said.pop(job.branch, None)

    # ------------------------------------------------------------ landing

    def _may_land(self) -> bool:
        """Whether it is worth a try."""
        fresh = any(work.branch not in self.lying for work in self.queue)
        late = time.monotonic() - self.tried > _AGAIN_S
        return fresh or (bool(self.queue) and late and bool(self.crew.busy))

    def _land(self) -> None:
        self.tried = time.monotonic()
        self.picture = replace(self.picture, landing=self.queue[0].text, since=time.time())
        try:
            for end in landing.land(self.site, list(self.queue), self.check):
                self._landed(end)
        finally:
            self.picture = replace(self.picture, landing="")

    def _landed(self, end: Landing) -> None:
        work = end.work
        if isinstance(end, Waiting):
            if work.branch not in self.lying:
                told = f"finished, and waits to land: {plain.line(work.text)}: {ends.why(end)}"
                self.site.warn(told)
            self.lying[work.branch] = end
            return
        self.queue.remove(work)
        self.lying.pop(work.branch, None)
        self._release(work)
        match end:
            case Landed(_, commit, proved):
                detail = f"{commit[:7]} {self.repo.text('log', '-1', '--format=%s', commit)}"
                came, proof = ends.landed_as(self.repo, work, proved)
                self._settled(Settled(work.text, came, detail, work.key, proof, commit))
            case Collided() | Red():
                self.crew.handed -= 1  # the same task, once more
                self.sink(Traced(f"sent back: {work.text}"))

    # ------------------------------------------------------------ the end

    def _leave(self) -> None:
        """All has come home. What could not land says so."""
        if self.fault:
            raise self.fault
        if self.queue:
            raise ends.unlanded(len(self.queue), self.lying.values())
        if self.held is Hold.STOP:
            raise Asked("a person asked for it")

    def _end(self, error: BaseException | None, stopped: str) -> int:
        """No child, no worktree and no branch is left but those of tasks that are to be resumed."""
        self.crew.dismiss()
        self._take_in()
        self.check.close()
        held = ends.tidy(self.crew)
        ends.note(self.site, error, held, self.options)
        parsed = ends.read(self.site)
        ended = summary.of(
            *(self.settled, parsed, error),
            seconds=time.monotonic() - self.began,
            cost=self.picture.cost + self.caller.cost,
            tokens=self.picture.tokens + self.caller.tokens,
            stopped=stopped,
            until=bool(stopped) and self.steered.late,
        )
        ended = ends.told(ended, self.given_up, parsed, self.crew, held)
        summary.name_unsigned(self.site, self.settled)
        self.sink(ended)
        return ended.exit_code

    def _draw(self) -> None:
        waiting = tuple(work.text for work in self.queue)
        held, lying = str(self.held), ends.why(*self.lying.values())
        self.picture = replace(self.picture, queue=waiting, held=held, lying=lying)
        self.show(self.picture)
