"""Many at once: hand out what is ready, take in what came, land it, one commit after the other. It
alone writes the branch, the person's working tree, SPEC.md and LEARNINGS.md.

Each task is an ordinary kern in a worktree of its own. Refs and worktrees tell what was done, so a
killed run needs no memory: the next one lands what is finished and hands out the rest.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from kern import errors, many, plain
from kern.config import Spent
from kern.errors import Exit, KernError
from kern.events import LimitReset, Outage, Sent
from kern.fleet import land, work, worker, worktree
from kern.fleet.land import Lander
from kern.fleet.work import Carry, End, Job, Landing, Work
from kern.fleet.worktree import Yard
from kern.git import history
from kern.journal import history as journal
from kern.journal import store
from kern.model import Key, Marker, Outcome
from kern.pipeline import isolation, loop, preflight, steps, summary
from kern.pipeline.site import Site
from kern.pipeline.table import Do, Settled, resume
from kern.pipeline.waits import RESET_MARGIN_S
from kern.spec import edit, order
from kern.spec.parse import is_experiment
from kern.stages.call import RAISE
from kern.system import process

TRIES = 3  # of one task whose kern was ended by something else
_TURN_S = 0.2  # between two looks, where nothing ends
_AGAIN_S = 2.0  # between two tries at what a person's edits keep from landing
_TOLD_AGAIN_S = 60.0  # a limit that is put off by more
_GRACE_S = 5.0  # an agent is ended by its own kern

# How many workers for the jobs that were asked for and the tasks that are there, and what each is
# called with.
Hire = Callable[[Yard, str, int], tuple[int, Carry]]
Tell = Callable[[journal.Record], None]  # a worker's record, as it comes


def here(yard: Yard, jobs: str, tasks: int) -> tuple[int, Carry]:
    """Kerns on this machine."""
    return many.workers(jobs, *process.machine(), tasks), lambda job: worker.carry_out(yard, job)


def run(site: Site, jobs: str, tell: Tell, hire: Hire | None = None) -> int:
    """The exit code."""
    options, fleet = site.options, Fleet(site)
    fleet.finish()  # what is in progress in the person's own tree
    tasks = min(order.ahead(site.papers.spec()[1]), options.iterations) or 1
    fleet.count, fleet.carry = (hire or here)(fleet.yard, jobs, tasks)
    fleet.tell, fleet.afar = tell, hire is not None
    first = summary.begun(site)
    where = many.told(str(fleet.count), options.scheduler)
    asked = (*fleet.yard.many.asks, *first.commands)
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
        fleet.take_up(resume=False)
        fleet.land()
    worker.tidy(site, fleet.yard, told=False)


def yard(site: Site) -> Yard:
    """Raises UsageError where a worktree cannot get what it is to have."""
    wanted = site.caller.settings.fleet
    if site.sandbox and isolation.rooms(site.sandbox, site.repo, site.caller.settings):
        return worktree.yard(site.repo, site.scope, replace(wanted, copy=(), setup=""))
    worktree.check(site.repo, wanted)
    return worktree.yard(site.repo, site.scope, wanted, site.repo)


class Fleet(loop.Loop):
    """One run of many at once."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.caller, self.repo, self.yard = site.caller, site.repo, yard(site)
        self.count, self.carry = here(self.yard, "1", 1)
        self.afar = False
        self.tell: Tell = lambda record: None
        self.drawn = site.options.tick
        self.journal = store.Follower(store.place(self.repo.common_dir), self.caller.run)
        self.ends: dict[str, journal.Record] = {}  # by a work branch: it begins, it ended so
        self.spent, self.away = journal.Spent(), False  # of the workers
        self.lander = Lander(site, self.yard)
        self.pool = ThreadPoolExecutor(1000, "kern-worker")  # each waits for a child process
        self.busy: dict[Future[Work], Job] = {}
        self.again, self.left = list[Job](), list[Job]()  # resumed by this run, by the next one
        self.back: dict[Key, Landing] = {}  # what collided, with the next attempt's start
        self.queue: list[Work] = []  # finished
        self.lying: dict[str, str] = {}  # by the work branch: why it cannot land
        self.paused = False  # by a merge or a rebase that is under way, or was at the last try
        # When a worker's usage limit ends, epoch seconds; when landing was tried; tasks handed out.
        self.limit, self.tried, self.handed = 0.0, 0.0, 0
        self.stopping, self.taken = False, set[Key]()  # tasks handed out, and not settled yet
        self.tries = Counter[Key]()
        self.fault: KernError | None = None  # ends the run, when all have come home

    def _iterations(self) -> None:
        self.due = Do.SELECT
        self.caller.tick = self.site.gates.tick = self.options.tick = self._tick
        self.caller.heed = lambda: None  # a person is heeded between two turns
        self.take_up(resume=True)
        while self._turn():
            wait(self.busy, _TURN_S, FIRST_COMPLETED)
            if not self.busy:
                self.options.sleep(_TURN_S)
        if self.fault:
            raise self.fault
        if self.queue:
            raise KernError(
                f"not landed: {self.queue[0].text}: {next(iter(self.lying.values()))}",
                hint="commit or stash what is yours, then run kern again: it lands then",
            )
        self.site.steered.heed()

    def take_up(self, *, resume: bool) -> None:
        """What an earlier run has left."""
        process.sweep((process.OF, str(self.repo.root)), _GRACE_S)
        for number in worktree.numbers(self.yard):
            process.sweep(("KERN_ROOT", str(self.yard.place(number))))
        for found in worker.left(self.site, self.yard):
            if found.commit:
                self.queue.append(found)
            elif resume:
                self.again.append(worker.job(self.site, found.job))
            else:
                worker.drop(self.site, self.yard, found)
            self.taken.add(found.job.key)

    # ------------------------------------------------------------ one turn

    def _turn(self) -> bool:
        """Whether anything is left to wait for. Raises KernError where HEAD names another branch,
        and waits for a person in the middle of a rebase or a merge.
        """
        self._heed()
        merging = history.begun(self.repo)
        if not merging and (head := self.repo.head()).branch != self.branch:
            raise loop.switched(self.branch, head.name)
        for future in [one for one in self.busy if one.done()]:
            job = self.busy.pop(future)
            self._follow()  # what it wrote before it ended
            try:
                self._come_home(future.result())
            except KernError as exc:
                self.fault = self.fault or exc
                self.left.append(job)
        if self._may_land():
            self.land()
        self._hand_out()
        paused = merging or self.paused
        waits = not self.stopping and ((self.options.clock() < self.limit) or paused)
        return bool(self.busy or self._may_land() or (waits and (self.queue or self._next())))

    def _tick(self, seconds: float, silent: float) -> None:
        """While the gates of what lands are at work: the workers go on."""
        self._heed()
        self._hand_out()

    def _heed(self) -> None:
        """What holds for all: a request, the budget."""
        self._follow()
        self.drawn(0.0, 0.0)
        cost = (self.spent.cost + self.caller.cost).usd or 0.0
        tokens = sum(self.spent.tokens.values()) + self.caller.tokens
        asked = self.site.steered.look()
        why = self.caller.settings.budget.reached(Spent(cost, 0.0, tokens))
        if why and not (asked or self.fault):
            self.fault = errors.BudgetReached(why, hint=RAISE.format(self.options.called))
        self.stopping = asked or self.fault is not None
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
                case "task" | "work":
                    self.ends[str(record.get("branch"))] = record
                case "stage" if did != "start":
                    self.spent.pay(record)
                case "limit" if until := record.get("until"):
                    before, self.limit = self.limit, max(self.limit, until + RESET_MARGIN_S)
                    if self.limit > before + _TOLD_AGAIN_S and self.options.wait:
                        seconds = max(until - self.options.clock(), 0.0)
                        self.sink(LimitReset(str(record["text"]), seconds, until))
            self.tell(record)

    # ------------------------------------------------------------ handing out

    def _hand_out(self) -> None:
        while not (
            self.stopping or (self.options.clock() < self.limit) or history.begun(self.repo)
        ):
            if len(self.busy) >= self.count or not (job := self._next()):
                return
            self.again = [one for one in self.again if one is not job]
            self.back.pop(job.key, None)
            self.taken.add(job.key)
            self.handed += 1
            self.busy[self.pool.submit(self.carry, job)] = job
            if self.afar:
                self.sink(Sent(job.key.text, job.worker))

    def _next(self) -> Job | None:
        if self.handed >= self.options.iterations:
            return None
        if self.again:
            return self.again[0]
        text, parsed = self.site.papers.spec()
        found = work.choose(parsed, self.taken, self.passed_over, self.wanted)
        if not found:
            return None
        number, task = found
        back = self.back.get(task.key, Landing(End.SENT_BACK))
        # What is in progress in the person's tree is nothing that a worker would go on with.
        spec = edit.mark_all(text, [(one, Marker.PENDING) for one in parsed.active])
        spec = edit.mark(spec, task, Marker.ACTIVE) if back.failed else spec
        branch, head = work.branch(self.branch, task.key), self.repo.head().commit
        one = Job(task.key, number, head, branch, self._free(), kept=back.commit)
        one = replace(one, papers=worker.papers(self.site, spec), failed=back.failed)
        return worker.job(self.site, one)

    def _free(self) -> int:
        """A worker's number whose worktree nobody needs."""
        used = {job.worker for job in (*self.busy.values(), *self.again, *self.left)}
        return next(one for one in range(1, 10_000) if one not in used)

    # ------------------------------------------------------------ what came home

    def _come_home(self, came: Work) -> None:
        job, ended = came.job, self.ends.get(came.job.branch, {})
        if not came.under_way:
            worker.keep_runs(self.yard, job, self.site.scope)
        if came.commit:
            # No word of another machine's, and none of a kern that was killed, is proof.
            proved = "" if came.code or self.afar else ended.get("proved")
            self.queue.append(replace(came, proved=str(proved or "")))
        elif came.under_way or (came.fault and came.unfit):
            self._failed(came)
        else:
            # Split, skipped, asked: what it noted is all that came of it.
            self.site.papers.edit(lambda text, _: work.split(text, job.key, came.spec))
            self._release(job)
            if ended or not self.stopping:  # else it had not begun when it was asked to end
                ends = {str(one): one for one in Outcome if one is not Outcome.DONE}
                end = ends.get(str(ended.get("did")), Outcome.SKIPPED)
                why = str(ended.get("detail") or came.fault or "its kern told nothing of it")
                self._settle(Settled(came.text, end, why, job.key))

    def _failed(self, came: Work) -> None:
        """Its kern could not work, was killed, or left the task in progress: that goes on at once,
        or with the next run.
        """
        job, again = came.job, False
        tries = self.tries[job.key] = self.tries[job.key] + 1
        # In kern's own words, and before any has begun or once more: the others would meet it, too.
        met = came.hint and (tries > 1 if came.under_way else not self.ends)
        if not self.stopping:
            if came.code == Exit.LIMIT or met:
                self.fault = self._cause(came)
            elif again := bool(came.fault) and tries < TRIES:
                goes = "is resumed" if came.under_way else "begins anew"
                text = plain.line(came.text, 160)
                self.site.warn(f"worker {job.worker}: {came.fault}; its task {goes}: {text}")
                self.handed -= 1
            else:
                often = f" {plain.count(tries, 'time')} in a row (out of memory?)" * (tries > 1)
                log = f"tail {self.yard.log(job.worker)}"
                why = f"{came.fault}{often}: {self.options.called} resumes it; {log}"
                self._settle(Settled(came.text, Outcome.SKIPPED, why, job.key))
        if came.under_way:
            (self.again if again else self.left).append(replace(job, again=True))
        else:
            self._release(job)

    def _settle(self, one: Settled) -> None:
        super()._settle(one)
        self.fault = self.fault or loop.fruitless(self.settled)

    def _release(self, job: Job) -> None:
        """The task may be handed out again."""
        worker.forget(self.repo, job.branch)
        self.taken.discard(job.key)
        self.ends.pop(job.branch, None)

    def _cause(self, came: Work) -> KernError:
        """Of a run that ends, by one worker's fault."""
        fault, hint = came.fault or "a worker has reached a usage limit", came.hint
        if came.code == Exit.LIMIT:
            return errors.LimitReached(fault, resets_at=self.limit or None, hint=hint)
        return (errors.UsageError if came.code == Exit.USAGE else KernError)(fault, hint=hint)

    # ------------------------------------------------------------ landing

    def _may_land(self) -> bool:
        """Whether it is worth a try."""
        fresh = any(one.job.branch not in self.lying for one in self.queue)
        late = time.monotonic() - self.tried > _AGAIN_S
        return fresh or (bool(self.queue) and late and bool(self.busy or self.paused))

    def land(self) -> None:
        self.tried, self.paused = time.monotonic(), False
        for one in list(self.queue):
            branch, landed = one.job.branch, self.lander.land(one)
            if landed.end in (End.WAITING, End.PAUSED):
                self.paused = self.paused or landed.end is End.PAUSED
                if branch not in self.lying:
                    self.site.warn(f"finished, and waits to land: {one.text}: {landed.why}")
                self.lying[branch] = landed.why
                continue
            self.queue.remove(one)
            self.lying.pop(branch, None)
            self._release(one.job)
            if landed.end is End.SENT_BACK:
                self.back[one.job.key] = landed
                self.handed -= 1  # the same task, once more
            elif landed.end is End.LANDED:
                # An experiment that did not work changes the two documents alone.
                failed = is_experiment(one.text) and not land.changes(self.repo, one)
                end, proof = (Outcome.CONCLUDED, "") if failed else (Outcome.DONE, landed.proved)
                made = history.commit(self.repo, landed.commit)
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
        if count := worker.tidy(self.site, self.yard, told=self.fault is not None):
            stopped = stopped and f"{plain.count(count, 'task')} in progress"
            told = f"{plain.count(count, 'task')} in progress: {self.options.called} goes on"
            if isinstance(error, errors.Interrupted):
                error.note = told
            elif error:
                self.site.warn(told)
        return super()._end(error, stopped)
