"""Many at once: hand out what is ready, take in what came, land it, one commit after the other. It
alone writes the branch, the person's working tree, SPEC.md and LEARNINGS.md.

Each task is an ordinary kern in a worktree of its own. Refs and worktrees tell what was done, so a
killed run needs no memory: the next one lands what is finished and hands out the rest.
"""

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from kern import plain
from kern.config import Spent
from kern.errors import Asked, BudgetReached, Exit, Interrupted, KernError
from kern.events import TaskSettled
from kern.fleet import documents, earlier, ends, handout, jobs, land, worktree
from kern.fleet.child import Workshop
from kern.fleet.crew import Crew
from kern.fleet.handout import Hold
from kern.fleet.proving import Proving
from kern.fleet.work import Carry, Job, Landed, Left, Outcome, SentBack, Waiting, Work
from kern.git import operations
from kern.model import LEARNINGS, SPEC, Key
from kern.model import Outcome as End
from kern.pipeline import loop as single
from kern.pipeline import summary
from kern.pipeline.options import Options
from kern.pipeline.session import Session
from kern.pipeline.table import Settled
from kern.spec.parse import is_experiment
from kern.stages.call import RAISE

_TURN_S = 0.2  # between two looks, where nothing ends
_AGAIN_S = 2.0  # between two tries at what a person's edits keep from landing


class Many:
    """One run of many at once."""

    def __init__(
        self, begun: Session, options: Options, shop: Workshop, carry: Carry, count: int
    ) -> None:
        """`carry`: what each of so many workers is called with."""
        self.site, self.options, self.steered = begun.site, options, begun.steered
        self.sink, self.caller, self.repo = begun.site.sink, begun.site.caller, begun.site.repo
        self.shop, self.carry, self.count = shop, carry, count
        self.crew = Crew(begun.site, wait=options.wait)
        self.check = Proving(begun.site, shop.yard, options)
        self.pool = ThreadPoolExecutor(count, "kern-worker")  # each waits for a child process
        self.busy: dict[Future[Outcome], Job] = {}
        self.again: list[Job] = []  # that are to be resumed
        self.queue: list[Work] = []
        self.taken: set[Key] = set()  # handed out, and not settled yet
        self.trees: dict[str, int] = {}  # worktrees in use, by the work branch
        self.retired: set[int] = set()  # workers that cannot work
        self.failed: dict[int, int] = {}  # how often a worker could not begin
        self.tries: dict[Key, int] = {}
        self.handed = 0
        self.lying: dict[str, Waiting] = {}  # by the work branch
        self.tried = 0.0  # when landing was, for what a person's edits keep from it
        self.settled: list[Settled] = []
        self.passed_over: set[Key] = set()
        self.given_up: list[Outcome] = []  # tasks that only the next run resumes
        self.wanted: Key | None = None
        self.held, self.merging = Hold.NO, ""
        self.fault: KernError | None = None  # ends the run, when all have come home
        self.began = time.monotonic()

    def run(self) -> int:
        """The exit code. Raises what ended the run early."""
        error: BaseException | None = None
        stopped = ""
        self.options.tick = self.caller.tick = self.site.gates.tick = self._tick
        self.caller.heed = lambda: None  # a person is heeded between two turns
        try:
            self._take_up(resume=True)
            while self._turn():
                wait(self.busy, _TURN_S, FIRST_COMPLETED)
                if not self.busy:
                    self.options.sleep(_TURN_S)
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
            self._take_up(resume=False)
            self._land()
        finally:
            self.check.close()
            earlier.tidy(self.site, self.shop.yard, self.trees, keep=False)

    def _take_up(self, *, resume: bool) -> None:
        for found in earlier.take_up(self.site, self.shop.yard, resume=resume):
            self.taken.add(found.key)
            if isinstance(found, Left):
                tree = found.tree or self._free_tree()
                what = found.key, found.number, found.base, found.branch
                made = jobs.made(self.site, self.options, *what, tree, tree)
                self.again.append(replace(made, again=True))
                self.trees[found.branch] = tree
            else:
                self.queue.append(found)

    # ------------------------------------------------------------ one turn

    def _turn(self) -> bool:
        """Whether anything is left to wait for. Raises KernError where HEAD names another branch,
        and waits for a person in the middle of a rebase or a merge.
        """
        self._tick(0, 0, hand_out=False)
        before, self.merging = self.merging, operations.begun(self.repo)
        if self.merging and not before:
            self.site.warn(f"{self.merging}: no task lands or begins until it has ended")
        if self.merging:
            return bool(self.busy or not (self.fault or self.held is Hold.STOP))
        head = self.repo.head()
        if head.branch != self.site.scope.branch:
            raise single.switched(self.site.scope.branch, head.name)
        for came in self._home():
            self._settle(came)
        if self._may_land():
            self._land()
        self._hand_out()
        self._draw()
        due = self.held is Hold.LIMIT and not self.fault
        return bool(self.busy or due or self._may_land())

    def _tick(self, seconds: float, silent: float, *, hand_out: bool = True) -> None:
        """While the gates of what lands are at work: the workers go on."""
        self.crew.follow()
        self._heed()
        if hand_out:
            self._hand_out()
        self._draw()

    def _heed(self) -> None:
        """What holds for all: a request, the budget, a limit."""
        cost = (self.crew.picture.cost + self.caller.cost).usd or 0.0
        spent = Spent(cost, 0.0, self.crew.picture.tokens + self.caller.tokens)
        now = self.crew.limit, self.caller.settings.budget, spent, self.options.clock()
        self.held, why = handout.hold(*now, asked=self.steered.look())
        if self.held is Hold.BUDGET and not self.fault:
            self.fault = BudgetReached(why, hint=RAISE.format(ends.call(self.options)))
        if self.fault:
            self.held = Hold.BUDGET
        if self.held in (Hold.STOP, Hold.BUDGET):
            self.shop.children.stop()

    # ------------------------------------------------------------ handing out

    def _hand_out(self) -> None:
        if self.held or self.fault or operations.begun(self.repo):
            return
        at_work = {job.worker for job in self.busy.values()} | self.retired
        for worker in (one for one in range(1, self.count + 1) if one not in at_work):
            if self.handed >= self.options.iterations:
                return
            if self.again:
                self._start(replace(self.again.pop(0), worker=worker))
                continue
            text, parsed = self.site.papers.spec()
            found = handout.choose(parsed, self.taken, self.passed_over, self.wanted)
            if found is None:
                return
            tree = worker if worker not in self.trees.values() else self._free_tree()
            self._start(jobs.fresh(self.site, self.options, worker, tree, *found, text, parsed))

    def _start(self, job: Job) -> None:
        self.taken.add(job.key)
        self.trees[job.branch] = job.place
        self.handed += 1
        self.busy[self.pool.submit(self.carry, job)] = job
        self.crew.begins(job, elsewhere=self.shop.children.afar is not None)

    def _free_tree(self) -> int:
        return next(one for one in range(1, 10_000) if one not in self.trees.values())

    # ------------------------------------------------------------ what came home

    def _home(self) -> list[Outcome]:
        done = [future for future in self.busy if future.done()]
        found = [(self.busy.pop(future), future.result())[1] for future in done]
        self.crew.follow()  # what it wrote before it ended
        for came in found:
            self.crew.idle(came.job.worker)
        return found

    def _settle(self, came: Outcome) -> None:
        job = came.job
        if came.commit:
            papers = came.paper(SPEC) or "", came.paper(LEARNINGS)
            ended = self.crew.ends.get(job.branch, {})
            # No word of another machine's, and none of a kern that was killed, is proof.
            believed = not came.code and self.shop.children.afar is None
            proved = str(ended.get("proved") or "") if believed else ""
            what = (job.key, job.branch, job.base, came.commit, job.worker, *papers, proved)
            self.queue.append(Work(*what))
        elif came.under_way:
            self._interrupted(came)
        elif came.fault and came.unfit:
            self._unfit(came)
        elif self.held in (Hold.STOP, Hold.BUDGET) and job.branch not in self.crew.ends:
            self._release(job)  # its kern had not begun the task when it was asked to end
        else:
            self._nothing(came)

    def _interrupted(self, came: Outcome) -> None:
        """The task is in progress in its worktree: resumed at once, or by the next run."""
        job, text = came.job, plain.line(came.job.key.text, 160)
        tries = self.tries[job.key] = self.tries.get(job.key, 0) + 1
        if self.held in (Hold.STOP, Hold.BUDGET) or self.fault:
            return
        # In kern's own words, and the same once more: the others would meet it as well.
        if came.code == Exit.LIMIT or (came.hint and tries > 1):
            self.fault = ends.cause(came, self.crew.limit)
        elif came.fault and tries < ends.TRIES:
            self.site.warn(f"worker {job.worker}: {came.fault}; its task is resumed: {text}")
            self.handed -= 1
            self.again.append(replace(job, tree=job.place, again=True))
        else:
            self.site.warn(f"left for the next run: {text}: {came.fault or 'it was asked to stop'}")
            self.given_up += [came] if came.fault else []

    def _unfit(self, came: Outcome) -> None:
        """The worker cannot work: it may try once more, and the others go on."""
        job, begun = came.job, came.job.branch in self.crew.ends
        failed = self.failed[job.worker] = self.failed.get(job.worker, 0) + 1
        how = f"had to leave its task, which begins anew ({plain.line(job.key.text, 160)})"
        self.site.warn(f"worker {job.worker} {how if begun else 'could not begin'}: {came.fault}")
        lasting = came.code == Exit.USAGE
        if failed > 1 or lasting:
            self.retired.add(job.worker)
        self.handed -= 1
        self._release(job)
        # Before any has begun, what keeps one from it keeps all: they are much alike.
        if len(self.retired) == self.count or (lasting and not self.crew.ends):
            self.fault = ends.cause(came, self.crew.limit)

    def _nothing(self, came: Outcome) -> None:
        """Split, skipped, asked: what it noted is all that came of it."""
        job, ended = came.job, self.crew.ends.get(came.job.branch, {})
        before, after = dict(job.papers).get(SPEC, ""), came.paper(SPEC) or ""
        self.site.papers.edit(lambda text, _: documents.carried(text, job.key, before, after))
        self._release(job)
        end = next((one for one in End if one == ended.get("did")), End.SKIPPED)
        why = str(ended.get("detail") or came.fault or "its kern told nothing of it")
        if end is End.DONE:  # where it was carried out, and that is as far as it came
            end, why = End.SKIPPED, came.fault or "its commit is gone"
        self._note(Settled(job.key.text, end, why, job.key))

    def _note(self, one: Settled) -> None:
        self.settled.append(one)
        if one.outcome not in (End.DONE, End.ASKED):
            self.passed_over.add(one.key)
        self.crew.count(one.outcome)
        self.sink(TaskSettled(one.task, one.outcome, one.detail, one.commit, one.proved))
        if why := single.fruitless(self.settled, self.caller.settings.max_failures):
            self.fault = self.fault or why

    def _release(self, job: Job | Work) -> None:
        """The task may be handed out again, and its worktree used for another."""
        tree = self.trees.pop(job.branch, 0)
        worktree.keep_runs(self.shop.yard, tree, job.branch, self.site.scope)
        worktree.drop(self.repo, job.branch)
        self.taken.discard(job.key)
        self.crew.ends.pop(job.branch, None)

    # ------------------------------------------------------------ landing

    def _may_land(self) -> bool:
        """Whether it is worth a try."""
        fresh = any(work.branch not in self.lying for work in self.queue)
        late = time.monotonic() - self.tried > _AGAIN_S
        return fresh or (bool(self.queue) and late and bool(self.busy))

    def _land(self) -> None:
        self.tried = time.monotonic()
        for one in list(self.queue):
            with self.crew.landing(one.text):
                end = land.land(self.site, one, self.check)
            if isinstance(end, Waiting):
                if one.branch not in self.lying:
                    text = plain.line(one.text)
                    self.site.warn(f"finished, and waits to land: {text}: {end.why}")
                self.lying[one.branch] = end
                continue
            self.queue.remove(one)
            self.lying.pop(one.branch, None)
            self._release(one)
            if isinstance(end, SentBack):
                self.handed -= 1  # the same task, once more
            elif isinstance(end, Landed):
                # An experiment that did not work changes the two documents alone.
                failed = is_experiment(one.text) and not land.changes(self.repo, one)
                came, proof = (End.CONCLUDED, "") if failed else (End.DONE, end.proved)
                subject = self.repo.text("log", "-1", "--format=%s", end.commit)
                told = one.text, came, f"{end.commit[:7]} {subject}", one.key
                self._note(Settled(*told, proof, end.commit))

    # ------------------------------------------------------------ the end

    def _leave(self) -> None:
        """All has come home. What could not land says so."""
        if self.fault:
            raise self.fault
        if self.queue:
            raise ends.unlanded(len(self.queue), next(iter(self.lying.values())).why)
        if self.held is Hold.STOP:
            raise Asked("a person asked for it")

    def _end(self, error: BaseException | None, stopped: str) -> int:
        """No child, no worktree and no branch is left but those of tasks that are to be resumed."""
        self.shop.children.end()
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.busy.clear()
        self.crew.follow()
        self.check.close()
        left = earlier.tidy(self.site, self.shop.yard, self.trees, keep=bool(self.retired))
        if left and error:
            told = ends.resumed(self.options, left)
            if isinstance(error, Interrupted):
                error.note = told
            else:
                self.site.warn(told)
        try:
            parsed = self.site.papers.spec()[1]
        except KernError:
            parsed = None
        ended = summary.of(
            *(self.settled, parsed, error),
            seconds=time.monotonic() - self.began,
            cost=self.crew.picture.cost + self.caller.cost,
            tokens=self.crew.picture.tokens + self.caller.tokens,
            stopped=stopped and (f"{plain.count(left, 'task')} in progress" if left else stopped),
            until=bool(stopped) and self.steered.late,
        )
        log = self.shop.yard.log
        needs = tuple(
            ends.need(came, parsed, self.options, self.count, log(came.job.worker))
            for came in self.given_up
        )
        ended = replace(
            ended,
            called=ends.call(self.options),
            needs=(*ended.needs, *needs),
            exit_code=ended.exit_code or (1 if needs else 0),
        )
        summary.name_unsigned(self.site, self.settled)
        self.sink(ended)
        return ended.exit_code

    def _draw(self) -> None:
        lying = next((one.why for one in self.lying.values()), "")
        self.crew.draw((one.text for one in self.queue), str(self.held), lying)
