"""Many at once: hand out what is ready, take in what came, land it, one commit after the other. It
alone writes the branch, the person's working tree, SPEC.md and LEARNINGS.md.

Each task is an ordinary kern in a worktree of its own. Refs and worktrees tell what was done, so a
killed run needs no memory: the next one lands what is finished and hands out the rest.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import count

from kern import errors, many, plain
from kern.errors import Exit, KernError
from kern.events import Outage, Sent
from kern.fleet import work, worker, worktree
from kern.fleet.land import Lander, Landing
from kern.fleet.work import Carry, Job, Work
from kern.fleet.worktree import Yard
from kern.git import history
from kern.git.landing import waiting_refs
from kern.git.repository import DOCUMENTS
from kern.journal import history as journal
from kern.journal import store
from kern.model import Key, Marker, Outcome
from kern.pipeline import landing, loop, preflight, steps, summary
from kern.pipeline.site import Site
from kern.pipeline.table import Do, Settled, resume
from kern.spec import edit, order
from kern.spec.parse import is_experiment
from kern.stages.call import RAISE
from kern.system import process

TRIES = 3  # of one task whose kern was ended by something else
_TURN_S = 0.2  # between two looks, where nothing ends
_GRACE_S = 5.0  # an agent is ended by its own kern

# How many workers for the jobs that were asked for and the tasks that are there, and what each is
# called with.
Hire = Callable[[Yard, str, int], tuple[int, Carry]]
Tell = Callable[[journal.Record], None]  # a worker's record, as it comes


def here(yard: Yard, jobs: str, tasks: int) -> tuple[int, Carry]:
    """Kerns on this machine."""
    return many.workers(jobs, *process.machine(), tasks), lambda job: worker.carry_out(yard, job)


def run(site: Site, jobs: str, tell: Tell, hire: Hire = here) -> int:
    """The exit code."""
    options, fleet = site.options, Fleet(site)
    fleet.finish()  # what is in progress in the person's own tree
    tasks = min(order.ahead(site.papers.spec()[1]), options.iterations) or 1
    fleet.count, fleet.carry = hire(fleet.yard, jobs, tasks)
    fleet.tell, fleet.afar = tell, hire is not here
    first = summary.begun(site)
    where = many.told(str(fleet.count), options.scheduler)
    asked = (*site.caller.settings.fleet.asks, *first.commands)
    yours = preflight.yours(site.repo, "workers")
    site.sink(replace(first, commands=asked, lands=f"{first.lands}; {where}", yours=yours))
    return fleet.run()


def settle(site: Site) -> None:
    """For a run that goes on by itself: finished work of an earlier one lands, half-done work is
    saved as a ref. What a killed agent has left is saved before gates use its room.
    """
    at = steps.look(site)
    if resume(at.facts) in (Do.UNDO, Do.ABANDON):
        steps.undo(site, at)
    fleet = Fleet(site)
    with contextlib.closing(fleet.lander):
        fleet.take_up()
        for one in fleet.again:
            worker.drop(site, fleet.yard, one)
        while fleet.queue:
            fleet.land()
    worker.tidy(site, fleet.yard, told=False)


class Fleet(loop.Loop):
    """One run of many at once."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.caller, self.repo, self.yard = site.caller, site.repo, worktree.yard(site)
        self.count, self.carry = here(self.yard, "1", 1)
        self.afar = False
        self.tell: Tell = lambda record: None
        self.drawn = site.options.tick
        self.journal = store.Follower(store.place(self.repo.common_dir), self.caller.run)
        self.ends: dict[str, journal.Record] = {}  # by a work branch: how its kern settled the task
        self.spent, self.away = journal.Spent(), False  # of the workers
        self.lander = Lander(site, self.yard)
        self.pool = ThreadPoolExecutor(1000, "kern-worker")  # each waits for a child process
        self.open: dict[Key, Job] = {}  # handed out or taken up, and not settled yet
        self.busy: dict[Future[Work], Job] = {}
        self.again = list[Job]()  # to be handed out once more
        self.back: dict[Key, Landing] = {}  # what collided, with the next attempt's start
        self.queue: list[Work] = []  # finished
        self.merging = ""  # a merge or a rebase of the person's that is under way
        self.stopping, self.handed = False, 0
        self.tries = Counter[Key]()
        self.fault: KernError | None = None  # ends the run, when all have come home

    def _iterations(self) -> None:
        self.due = Do.SELECT
        self.caller.tick = self.site.gates.tick = self.options.tick = self._tick
        self.caller.heed = lambda: None  # a person is heeded between two turns
        self.take_up()
        while self._turn():
            wait(self.busy, _TURN_S, FIRST_COMPLETED)
            if not self.busy:
                self.options.sleep(_TURN_S)
        if self.fault:
            raise self.fault
        self.site.steered.heed()

    def take_up(self) -> None:
        """What an earlier run has left."""
        self.repo.ahead = waiting_refs(self.repo)
        process.sweep((process.OF, str(self.repo.root)), _GRACE_S)
        for number in worktree.numbers(self.yard):
            process.sweep(("KERN_ROOT", str(self.yard.place(number))))
        for found in worker.left(self.site, self.yard):
            job = self.open[found.job.key] = self._equipped(found.job)
            if found.commit:
                self.queue.append(found)
            else:
                self.again.append(job)
                self.handed += 1

    def _equipped(self, job: Job) -> Job:
        """With what is the same for all of the run."""
        options = worker.options(self.site)
        return replace(job, run=self.caller.run, onto=self.branch, options=options)

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
            try:
                self._come_home(job, future.result())
            except KernError as exc:
                self.fault = self.fault or exc
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
        self.stopping = self.site.steered.look() or self.fault is not None
        if self.stopping:
            self.yard.stop()

    def _follow(self) -> None:
        """What the workers have told since."""
        for record in self.journal.new():
            did = record.get("did")
            match record["kind"]:
                case "outage" if self.away != (did != "over"):
                    self.away = did != "over"  # each worker waits by itself
                    told = record["since"], record["until"], record["seconds"]
                    self.sink(Outage(record["text"], *told, int(self.away)))
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
        text, parsed = self.site.papers.spec()
        found = work.choose(parsed, self.open, self.passed_over, self.wanted)
        if not found or self.handed >= self.options.iterations:
            return None
        number, task = found
        back = self.back.get(task.key, Landing())
        # What is in progress in the person's tree is nothing that a worker would go on with.
        spec = edit.mark_all(text, [(one, Marker.PENDING) for one in parsed.active])
        spec = edit.mark(spec, task, Marker.ACTIVE) if back.failed else spec
        branch, head = work.branch(self.branch, task.key), self.repo.head().commit
        used = {job.worker for job in self.open.values()}
        free = next(one for one in count(1) if one not in used)  # its worktree nobody needs
        one = Job(task.key, number, head, branch, free, kept=back.back, failed=back.failed)
        return self._equipped(replace(one, papers=worktree.papers(self.site, spec)))

    # ------------------------------------------------------------ what came home

    def _come_home(self, job: Job, came: Work) -> None:
        ended = self.ends.pop(job.branch, {})
        if not came.under_way:
            worker.keep_runs(self.yard, job, self.site.scope)
        if came.commit:
            # No word of another machine's, and none of a kern that was killed, is proof.
            proved = "" if came.code or self.afar else ended.get("proved")
            self.queue.append(replace(came, proved=str(proved or "")))
        elif came.under_way or not ended:
            if not self.stopping:  # else it is resumed by the next run
                self._failed(came)
        else:
            # Split, skipped, asked: what it noted is all that came of it.
            self.site.papers.edit(lambda text, _: work.noted(text, job.key, came.spec))
            self._release(job)
            ends = {str(one): one for one in Outcome if one is not Outcome.DONE}
            end = ends.get(str(ended["did"]), Outcome.SKIPPED)
            self._settle(Settled(came.text, end, str(ended.get("detail")), job.key))

    def _failed(self, came: Work) -> None:
        """Its kern could not work, was killed, or left the task in progress: that goes on at once,
        or with the next run.
        """
        job, fault = came.job, came.fault or "its kern has ended early"
        tries = self.tries[job.key] = self.tries[job.key] + 1
        if came.code == Exit.LIMIT:
            hint = RAISE.format(self.options.called) if "budget" in fault else came.hint
            self.fault = errors.LimitReached(fault, hint=hint)
        elif came.hint and tries > 1:  # in kern's own words, and twice: the others would meet it
            kind = errors.UsageError if came.code == Exit.USAGE else KernError
            self.fault = kind(fault, hint=came.hint)
        elif tries < TRIES:
            text = plain.line(came.text, 160)
            self.site.warn(f"worker {job.worker}: {fault}; its task is tried again: {text}")
            self.again.append(replace(job, again=came.under_way))
        else:
            often = f"{fault} {plain.count(tries, 'time')} in a row (out of memory?)"
            why = f"{often}: {self.options.called} resumes it; tail {self.yard.log(job.worker)}"
            self._settle(Settled(came.text, Outcome.SKIPPED, why, job.key))

    def _settle(self, one: Settled) -> None:
        super()._settle(one)
        self.fault = self.fault or loop.fruitless(self.settled)

    def _release(self, job: Job) -> None:
        """The task may be handed out again."""
        worker.forget(self.repo, job.branch)
        self.open.pop(job.key, None)

    # ------------------------------------------------------------ landing

    def land(self) -> None:
        if self.queue:
            landing.land(self.site)
        for one in list(self.queue):
            if (landed := self.lander.land(one)) is None:
                return
            self.queue.remove(one)
            self._release(one.job)
            if landed.back:
                self.back[one.job.key] = landed
                self.handed -= 1  # the same task, once more
            elif landed.landed:
                # An experiment that did not work changes the two documents alone.
                changed = {*self.repo.changed(one.job.base, one.commit)} - {*DOCUMENTS}
                failed = is_experiment(one.text) and not changed
                end, proof = (Outcome.CONCLUDED, "") if failed else (Outcome.DONE, landed.proved)
                made = history.commit(self.repo, landed.landed)
                told = f"{made.sha[:7]} {made.subject}"
                self._settle(Settled(one.text, end, told, one.job.key, proof, made.sha))

    def _end(self, error: BaseException | None, stopped: str) -> int:
        """No child, no worktree and no branch is left but those of tasks that are to be resumed."""
        self.yard.end()
        self.pool.shutdown(wait=True, cancel_futures=True)
        self._follow()
        self.lander.close()
        self.caller.cost += self.spent.cost
        self.caller.tokens += sum(self.spent.tokens.values())
        if left := worker.tidy(self.site, self.yard, told=self.fault is not None):
            tasks = f"{plain.count(left, 'task')} in progress"
            stopped = stopped and tasks
            told = f"{tasks}: {self.options.called} goes on"
            if isinstance(error, errors.Interrupted):
                error.note = told
            elif error:
                self.site.warn(told)
        return super()._end(error, stopped)
