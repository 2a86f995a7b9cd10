"""Many at once: hand out what is ready, take in what came, land it, one commit after the other. It
alone writes the branch, the person's working tree, SPEC.md and LEARNINGS.md.

Each task is an ordinary kern in a worktree of its own. Refs and worktrees tell what was done, so a
killed run needs no memory: the next one lands what is finished and hands out the rest.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

from kern import errors, plain
from kern.errors import Exit, KernError
from kern.events import Outage, Sent
from kern.fleet import work, worktree
from kern.fleet.work import Carry, Job, Work
from kern.fleet.worktree import Yard
from kern.git import history
from kern.git.landing import advance, waiting_refs
from kern.git.repository import DOCUMENTS
from kern.journal import history as journal
from kern.journal import store
from kern.memory.changes import merged
from kern.model import LEARNINGS, SPEC, Key, Marker, Outcome
from kern.pipeline import facts, landing, loop, preflight, steps, summary
from kern.pipeline.site import Site
from kern.pipeline.table import Do, Settled, resume
from kern.spec import edit, order
from kern.spec.parse import is_experiment
from kern.system import process

TRIES = 3  # of one task whose kern was ended by something else
_TURN_S = 0.1  # between two looks
_GRACE_S = 5.0  # an agent is ended by its own kern

# For the jobs that were asked for and the tasks that are there: how many workers, what each is
# called with, and what stops those elsewhere, or with `True` ends them.
Hired = tuple[int, Carry, Callable[[bool], None]]
Hire = Callable[[Yard, int, int], Hired]
Tell = Callable[[journal.Record], None]  # a worker's record, as it comes


def here(yard: Yard, jobs: int, tasks: int) -> Hired:
    """Kerns on this machine: as many as were asked for, since tasks may be added meanwhile."""
    return jobs, lambda job: worktree.carry_out(yard, job), lambda now: None


def told(jobs: int, scheduler: str) -> str:
    """How many tasks at once, and where. `scheduler`: of the cluster, if there is one."""
    number = f"tasks at once: {jobs}" if jobs else "as many tasks at once as it can bear"
    where = f"the cluster at {scheduler}" if scheduler else "this machine, each in a worktree"
    return f"{number}, on {where}: kern help guide"


def run(site: Site, jobs: int, tell: Tell, hire: Hire = here) -> int:
    """The exit code."""
    options, fleet = site.options, Fleet(site)
    fleet.finish()  # what is in progress in the person's own tree
    tasks = min(order.ahead(site.documents.spec()[1]), options.iterations) or 1
    fleet.count, fleet.carry, fleet.halt = hire(fleet.yard, jobs, tasks)
    fleet.tell, fleet.afar = tell, hire is not here
    first = summary.begun(site)
    where = told(fleet.count, options.scheduler)
    asks = (*site.caller.settings.worktree.asks, *first.commands)
    yours = preflight.yours(site.repo, "workers")
    site.sink(replace(first, commands=asks, lands=f"{first.lands}; {where}", yours=yours))
    return fleet.run()


def settle(site: Site) -> None:
    """For a run that goes on by itself: finished work of an earlier one lands, half-done work is
    saved as a ref. What a killed agent has left is saved before gates use its room.
    """
    at = steps.look(site)
    if resume(at.facts) in (Do.UNDO, Do.ABANDON):
        steps.undo(site, at)
    fleet = Fleet(site)
    with fleet.stack:
        fleet.take_up()
        for one in fleet.again:
            worktree.drop(site, fleet.yard, one)
        while fleet.queue:
            fleet.land()
    worktree.tidy(site, fleet.yard, told=False)


class Fleet(loop.Loop):
    """One run of many at once."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.caller, self.repo, self.yard = site.caller, site.repo, worktree.yard(site)
        self.count, self.carry, self.halt = here(self.yard, 1, 1)
        self.afar, words = False, self.options.words
        # Of each job.
        self.same: dict[str, Any] = {"run": self.caller.run, "onto": self.branch, "options": words}
        self.tell: Tell = lambda record: None
        self.drawn = site.options.tick
        self.journal = store.Follower(store.place(self.repo.common_dir), self.caller.run)
        self.ends: dict[str, journal.Record] = {}  # by a work branch: how its kern settled the task
        self.spent, self.away = journal.Spent(), 0.0  # of the workers; since when their API is
        self.stack = contextlib.ExitStack()
        self.where = cache(
            lambda: self.stack.enter_context(worktree.fresh(site, self.yard))
        )  # gates look at what lands
        self.pool = ThreadPoolExecutor(1000, "kern-worker")  # each waits for a child process
        self.open: dict[Key, Job] = {}  # handed out or taken up, and not settled yet
        self.busy: dict[Future[Work], Job] = {}
        self.again = list[Job]()  # to be handed out once more
        self.back: dict[Key, dict[str, Any]] = {}  # what collided: see `Job`
        self.queue: list[Work] = []  # finished
        self.merging = ""  # a merge or a rebase of the person's that is under way
        self.stopping, self.handed = False, 0
        self.tries = Counter[Key]()
        self.fault: KernError | None = None  # ends the run, when all have come home

    def _iterations(self) -> None:
        self.due = Do.SELECT
        self.caller.tick = self.site.gates.tick = self.options.tick = self._tick
        self.caller.check_requests = lambda: None  # a person is heeded between two turns
        self.take_up()
        while self._turn():
            self.options.sleep(_TURN_S)
        if self.fault:
            raise self.fault
        self.site.steered.check_requests()

    def take_up(self) -> None:
        """What an earlier run has left."""
        self.repo.ahead = waiting_refs(self.repo)
        process.sweep((process.OF, str(self.repo.root)), _GRACE_S)
        for work_left in worktree.left(self.site, self.yard):
            job = self.open[work_left.job.key] = replace(work_left.job, **self.same)
            if work_left.commit:
                self.queue.append(work_left)
            else:
                self.again.append(job)
                self.handed += 1

    # ------------------------------------------------------------ one turn

    def _turn(self) -> bool:
        """Whether anything is left to wait for. Raises KernError where HEAD names another branch,
        and waits for a person in the middle of a rebase or a merge.
        """
        self._heed()
        before, self.merging = self.merging, history.begun(self.repo)
        if self.merging and not before:
            self.site.warn(f"{self.merging}: until it ends nothing lands, and nothing begins")
        if not self.merging and (head := self.repo.head()).branch != self.branch:
            raise loop.switched(self.branch, head.name)
        for future in [one for one in self.busy if one.done()]:
            job = self.busy.pop(future)
            self._follow()  # what it wrote before it ended
            self._come_home(job, future.result())
        if not self.merging:
            self.land()
        self._hand_out()
        waits = self.queue or (self.merging and self._next())
        return bool(self.busy or (waits and not (self.merging and self.stopping)))

    def _tick(self, seconds: float, silent: float) -> None:
        """While the gates of what lands are at work: the workers go on."""
        self._heed()
        self._hand_out()

    def _heed(self) -> None:
        """What holds for all: a request, a fault."""
        self._follow()
        self.drawn(0.0, 0.0)
        self.fault = self.fault or loop.fruitless(self.settled)
        self.stopping = self.site.steered.look() or self.fault is not None
        if self.stopping and not self.yard.stopping:
            self.yard.stopping = True
            self.halt(False)

    def _follow(self) -> None:
        """What the workers have told since."""
        for record in self.journal.new():
            did = record.get("did")
            match record["kind"]:
                case "outage" if bool(self.away) == (did == "over"):  # each worker waits by itself
                    self.away = self.away or record["since"]
                    span = self.away, record["until"], record["seconds"]
                    self.sink(Outage(record["text"], *span, int(did != "over")))
                    self.away *= did != "over"
                case "work":
                    self.ends[str(record.get("branch"))] = record
                case "stage" if did != "start":
                    self.spent.pay(record)
            self.tell(record)

    # ------------------------------------------------------------ handing out

    def _hand_out(self) -> None:
        while len(self.busy) < self.count and not (self.stopping or self.merging):
            if not (job := self._next()):
                return
            if job in self.again:
                self.again.remove(job)
            else:
                self.handed += 1
                self.back.pop(job.key, None)
            self.open[job.key] = job
            self.busy[self.pool.submit(self.carry, job)] = job
            if self.afar:
                self.sink(Sent(job.key.text, job.worker))

    def _next(self) -> Job | None:
        if self.again:
            return self.again[0]
        text, parsed = self.site.documents.spec()
        found = work.choose(parsed, self.open, self.passed_over, self.wanted)
        if not found or self.handed >= self.options.iterations:
            return None
        number, task = found
        back = self.back.get(task.key, {})
        # What is in progress in the person's tree is nothing that a worker would go on with.
        spec = edit.mark_all(text, [(one, Marker.PENDING) for one in parsed.active])
        spec = edit.mark(spec, task, Marker.ACTIVE) if back else spec
        branch, head = work.branch(self.branch, task.key), self.repo.head().commit
        used = {job.worker for job in self.open.values()}
        free = next(one for one in count(1) if one not in used)  # its worktree nobody needs
        lent = worktree.documents(self.site, spec)
        return Job(task.key, number, head, branch, free, documents=lent, **self.same, **back)

    # ------------------------------------------------------------ what came home

    def _come_home(self, job: Job, finished: Work) -> None:
        ended = self.ends.pop(job.branch, {})
        if finished.commit:
            # No word of another machine's, and none of a kern that was killed, is proof.
            proved = "" if finished.code or self.afar else ended.get("proved")
            self.queue.append(replace(finished, proved=str(proved or "")))
        elif finished.under_way or not ended:
            if not self.stopping:  # else it is resumed by the next run
                self._failed(finished)
        else:
            # Split, skipped, asked: what it noted is all that came of it.
            self.site.documents.edit(lambda text, _: work.noted(text, job.key, finished.spec))
            self._release(job)
            ends = {str(one): one for one in Outcome if one is not Outcome.DONE}
            end = ends.get(str(ended["did"]), Outcome.SKIPPED)
            self._settle(Settled(finished.text, end, str(ended.get("detail")), job.key))

    def _failed(self, finished: Work) -> None:
        """Its kern could not work, was killed, or left the task in progress: that goes on at once,
        or with the next run.
        """
        job, fault = finished.job, finished.fault or "its kern has ended early"
        tries = self.tries[job.key] = self.tries[job.key] + 1
        if finished.code == Exit.LIMIT or (
            finished.hint and tries > 1
        ):  # the others would meet it, too
            kinds: dict[int, type[KernError]] = {
                Exit.LIMIT: errors.LimitReached,
                Exit.USAGE: errors.UsageError,
            }
            hint = finished.hint.replace("run kern", f"run {self.options.called}")
            self.fault = kinds.get(finished.code, KernError)(fault, hint=hint)
        elif tries < TRIES:
            text = plain.line(finished.text, 160)
            self.site.warn(f"worker {job.worker}: {fault}; its task is tried again: {text}")
            self.again.append(replace(job, again=finished.under_way))
        else:
            often = f"{fault} {plain.count(tries, 'time')} in a row (out of memory?)"
            why = f"{often}: {self.options.called} resumes it; tail {self.yard.log(job.worker)}"
            self._settle(Settled(finished.text, Outcome.SKIPPED, why, job.key))

    def _release(self, job: Job) -> None:
        """The task may be handed out again."""
        self.repo.run("update-ref", "-d", f"refs/heads/{job.branch}")
        self.open.pop(job.key, None)

    # ------------------------------------------------------------ landing

    def land(self) -> None:
        """One commit of the branch for each, proven on the tree on which it lands. The work branch
        goes last: until then a killed landing goes on, and a commit of the branch that says and
        ticks the same tells that it is there already.
        """
        if self.queue:
            landing.land(self.site)
        for one in list(self.queue):
            if not self._land(one):  # the branch has moved meanwhile
                return
            self.queue.remove(one)
            self._release(one.job)

    def _land(self, done: Work) -> bool:
        """Whether it is durable what became of it. Raises KernError where a person is needed: then
        it is as before.
        """
        site, repo, key = self.site, self.repo, done.job.key
        head, own = repo.head(), history.commit(repo, done.commit)
        for one in history.since(repo, done.job.base, head.commit) or ():
            if one.message == own.message and facts.ticks(repo, one, key):
                self._finish(done)
                return True
        task = site.documents.spec()[1].find(key)
        if task is None or task.marker is Marker.DONE:
            ref = site.keep(key, "finished", own.tree, head.commit)
            what = f"no open task of {SPEC} any more: {plain.line(done.text, 200)}"
            site.warn(f"{what}: what was finished is saved as {ref}")
            return True
        texts = self._documents(done)
        try:
            new, proved = landing.on_top(
                *(site, own, head.commit, task), texts=texts, proof=done.proved, where=self.where
            )
        except landing.Refused as exc:
            site.documents.edit(lambda text, _: work.noted(text, key, done.spec))
            failed = landing.give_back(site, key, own, exc, head.commit).written
            commit = repo.commit_object(exc.tree, (head.commit,), "to be mended\n")
            self.back[key] = {"kept": commit, "failed": failed}
            self.handed -= 1  # the same task, once more
            return True
        waits = landing.waits(site, head.commit, new)
        if not (waits or advance(repo, head, new, own.subject)):
            return False
        self._finish(done)
        # An experiment that did not work changes the two documents alone.
        changed = {*repo.changed(done.job.base, done.commit)} - {*DOCUMENTS}
        end = Outcome.DONE
        if is_experiment(done.text) and not changed:
            end, proved = Outcome.CONCLUDED, ""
        self._settle(Settled(done.text, end, f"{new[:7]} {own.subject}", key, proved, new))
        return True

    def _finish(self, done: Work) -> None:
        """Files, index and documents follow the branch; twice is once."""
        documents = self.site.documents
        landing.follow(self.repo, documents)
        documents.edit(lambda text, _: work.ticked(text, done.job.key, done.spec))
        if after := self._documents(done)[LEARNINGS]:
            documents.write(LEARNINGS, after)

    def _documents(self, done: Work) -> dict[str, str | None]:
        """The two as they stand on the disk, with what the task does to them."""
        documents = self.site.documents
        before = plain.decode(self.repo.content(done.job.base, LEARNINGS) or b"")
        lessons = merged(documents.read(LEARNINGS) or "", before, done.learnings)
        return {
            SPEC: work.ticked(documents.spec_text(), done.job.key, done.spec),
            LEARNINGS: lessons,
        }

    def _end(self, error: BaseException | None, stopped: str) -> int:
        """No child, no worktree and no branch is left but those of tasks that are to be resumed."""
        self.yard.ended = True
        self.halt(True)
        self.pool.shutdown(wait=True, cancel_futures=True)
        self._follow()
        self.stack.close()
        self.caller.cost += self.spent.cost
        self.caller.tokens += sum(self.spent.tokens.values())
        unfinished = worktree.tidy(self.site, self.yard, told=self.fault is not None)
        tasks = f"{plain.count(unfinished, 'task')} in progress"
        if error and unfinished:
            self.site.warn(f"{tasks}: {self.options.called} goes on")
        return super()._end(error, tasks if stopped and unfinished else stopped)
