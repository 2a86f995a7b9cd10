"""Many at once: hand out what is ready, take in what came, land it, one commit after the other. It
alone writes the branch, the person's working tree, SPEC.md and LEARNINGS.md.

Each task is an ordinary kern in a worktree of its own. Refs and worktrees tell what was done, so a
killed run needs no memory: the next one lands what is finished and hands out the rest.
"""

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any

from kern import events, plain
from kern.errors import Exit, KernError, LimitReached, UsageError
from kern.fleet import work, worktree
from kern.fleet.work import Job, Work
from kern.git import history, refs
from kern.git.history import Commit
from kern.git.landing import advance, waiting_refs
from kern.git.repository import DOCUMENTS
from kern.journal import history as journal
from kern.journal import store
from kern.memory.changes import merged
from kern.model import LEARNINGS, SPEC, Key, Marker, Outcome
from kern.pipeline import facts, landing, loop, settle, summary
from kern.pipeline.site import Site
from kern.pipeline.table import Do, Settled
from kern.spec import edit
from kern.spec.parse import Task, is_experiment
from kern.system import process

TRIES = 3  # of one task whose kern was ended by something else
_TURN_S = 0.1  # between two looks
_GRACE_S = 5.0  # an agent is ended by its own kern
_FAULTS: dict[int, type[KernError]] = {Exit.LIMIT: LimitReached, Exit.USAGE: UsageError}
Tell = Callable[[journal.Record], None]  # a worker's record, as it comes
# Other machines: what carries out a job there and raises nothing; what stops a run's kerns.
Elsewhere = tuple[Callable[[Job], Work], Callable[..., None]]


def told(jobs: int, scheduler: str) -> str:
    """How many tasks at once, and where. `scheduler`: of the cluster, if there is one."""
    number = str(jobs) if jobs else "as many tasks as it can bear"
    where = f"the cluster at {scheduler}" if scheduler else "this machine, each in a worktree"
    return f"{number}, on {where}: kern help guide"


def begun(site: Site) -> dict[str, Key]:
    """Tasks of SPEC.md by their work branches, where those are there."""
    keys = [one.key for one in site.documents.spec()[1].tasks]
    named = {work.branch(site.scope.branch, key): key for key in keys}
    return {one: key for one, key in named.items() if site.repo.store.id(f"refs/heads/{one}")}


def run(site: Site, jobs: int, tell: Tell, elsewhere: Elsewhere | None = None) -> int:
    """The exit code."""
    fleet = Fleet(site, jobs, tell, elsewhere)
    fleet.finish()  # what is in progress in the person's own tree
    where = told(jobs, site.options.scheduler)
    site.sink(summary.begun(site, where, site.caller.settings.worktree.asks))
    return fleet.run()


class Fleet(loop.Loop):
    def __init__(self, site: Site, jobs: int, tell: Tell, elsewhere: Elsewhere | None) -> None:
        super().__init__(site)
        self.caller, self.repo, self.yard = site.caller, site.repo, worktree.yard(site)
        self.count, self.tell, self.drawn = jobs, tell, site.options.tick
        here: Elsewhere = partial(worktree.carry_out, self.yard), worktree.stop
        self.afar, (self.carry_out, self.stop) = bool(elsewhere), elsewhere or here
        self.journal = store.Follower(store.place(self.repo.common_dir), self.caller.run)
        self.ends: dict[str, journal.Record] = {}  # by a work branch: how its kern settled the task
        self.past, self.away = journal.History(), 0.0  # of the workers; since when their API is
        self.stack = contextlib.ExitStack()
        fresh = partial(worktree.fresh, site, self.yard)
        self.where = cache(lambda: self.stack.enter_context(fresh()))  # gates look at what lands
        self.pool = ThreadPoolExecutor(1000, "kern-worker")  # each waits for a child process
        self.busy: dict[Future[Work], Job] = {}
        # Finished; or in a worktree, or to be mended: handed out again, it is resumed.
        self.there = dict[Key, Work]()
        self.stopping, self.tries = False, Counter[Key]()
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
        self.there = {one.job.key: one for one in self._left()}

    def _left(self) -> Iterator[Work]:
        """Finished, or half done, of tasks in SPEC.md; anything else is kept at a ref, and goes."""
        repo, yard, keys = self.repo, self.yard, begun(self.site)
        trees = {branch: number for number, branch in worktree.numbers(yard).items()}
        for branch in dict.fromkeys((*keys, *trees)):
            if not (tip := repo.store.id(f"refs/heads/{branch}")):
                continue
            number = trees.setdefault(branch, 1 + max(trees.values(), default=0))
            tree = worktree.of(yard, number) or worktree.make(yard, number, branch)
            start, one = refs.start(tree, branch), history.commit(repo, tip)
            key = keys.get(branch) or (start.task if start else Key("", one.trailer or branch))
            base = one.parents[0] if one.parents and facts.ticks(repo, one, key) else tip
            own = branch, number, self.caller.run, self.branch
            done = worktree.read(tree, Job(key, base, *own, options=self.options.words))
            # What is half done here no other machine goes on with.
            if done.commit or (done.under_way and branch in keys and not self.afar):
                yield done
            else:
                self._release(done.job)

    # ------------------------------------------------------------ one turn

    def _turn(self) -> bool:
        """Whether anything is left to wait for. Raises KernError on another branch."""
        self._heed()
        if merging := history.begun(self.repo):
            self.site.warn(f"{merging}: until it ends nothing lands, nothing begins", once=True)
        for future in [one for one in self.busy if one.done()]:
            self._follow()  # what it wrote before it ended
            self._come_home(self.busy.pop(future), future.result())
        if merging:
            return bool(self.busy or not self.stopping)
        if (head := self.repo.head()).branch != self.branch:
            raise loop.switched(self.branch, head.name)
        self.land()
        self._hand_out()
        return bool(self.busy or self._finished())

    def _tick(self, seconds: float, silent: float) -> None:
        """While the gates of what lands are at work: the workers go on."""
        self._heed()
        self._hand_out()

    def _heed(self) -> None:
        """What holds for all: a request, a fault."""
        self._follow()
        self.drawn(0.0, 0.0)
        self.fault = self.fault or loop.fruitless(self.settled)
        before, self.stopping = self.stopping, self.site.steered.look() or self.fault is not None
        if self.stopping and not before:
            self.stop(self.caller.run, now=False)

    def _follow(self) -> None:
        """What the workers have told since."""
        for record in self.journal.new():
            did = record.get("did")
            match record["kind"]:
                case "outage" if bool(self.away) == (did == "over"):  # each worker waits by itself
                    self.away = self.away or record.get("since") or 0.0
                    about = {name: record.get(name) or 0.0 for name in ("until", "seconds")}
                    about |= {"since": self.away, "text": record.get("text", "")}
                    self.sink(events.new("outage", "over" if did == "over" else "away", **about))
                    self.away *= did != "over"
                case "work":
                    self.ends[str(record.get("branch"))] = record
            self.past.add(record)
            self.tell(record)

    # ------------------------------------------------------------ handing out

    def _hand_out(self) -> None:
        """Not while as many wait to land: what killed runs leave would grow with each of them."""
        while len(self.busy) < self.count and not self.stopping:
            if len(self._finished()) > self.count or not (job := self._next()):
                return
            self.busy[self.pool.submit(self.carry_out, job)] = job
            if self.afar:
                self.sink(events.new("sent", task=job.key.text, worker=job.worker))

    def _next(self) -> Job | None:
        parsed, under_way = self.site.documents.spec()[1], [*self.busy.values()]
        under_way += [one.job for one in self._finished()]
        taken = {one.key for one in under_way} | (self.there.keys() & self.passed_over)
        task = work.choose(parsed, taken, self.passed_over, self.wanted)
        if not task or len(self.settled) + len(under_way) >= self.options.iterations:
            return None
        if begun := self.there.pop(task.key, None):
            return begun.job
        jobs = *self.busy.values(), *(one.job for one in self.there.values())
        free = next(iter({*range(1, len(jobs) + 2)} - {one.worker for one in jobs}))
        return self._job(task, free, self.repo.head().commit)

    def _job(self, task: Task, worker: int, head: str, kept: str = "", failed: str = "") -> Job:
        """`kept`, `failed`: what it is to mend: see `Job`."""
        text, parsed = self.site.documents.spec()
        # What is in progress in the person's tree is nothing that a worker would go on with.
        spec = edit.mark_all(text, [(one, Marker.PENDING) for one in parsed.active])
        spec = edit.mark(spec, task, Marker.ACTIVE) if failed else spec
        own = work.branch(self.branch, task.key), worker, self.caller.run, self.branch
        texts = worktree.documents(self.site, spec)
        return Job(task.key, head, *own, texts, self.options.words, kept, failed)

    # ------------------------------------------------------------ what came home

    def _come_home(self, job: Job, finished: Work) -> None:
        ended = self.ends.pop(job.branch, {})
        if finished.commit:
            # No word of another machine's, and none of a kern that was killed, is proof.
            proved = "" if finished.code or self.afar else ended.get("proved")
            self.there[job.key] = replace(finished, proved=str(proved or ""))
        elif not finished.under_way and ended:
            # Split, skipped, asked: what it noted is all that came of it.
            self.site.documents.edit(lambda text, _: work.noted(text, job.key, finished.spec))
            self._release(job)
            ends = [one for one in Outcome if one == ended.get("did") and one is not Outcome.DONE]
            end, detail = (*ends, Outcome.SKIPPED)[0], str(ended.get("detail"))
            self._settle(Settled(job.key.text, end, detail, job.key))
        elif not self.stopping:  # else it is resumed by the next run
            self._failed(finished)

    def _failed(self, finished: Work) -> None:
        """Its kern could not work, was killed, or left the task in progress: it is resumed."""
        job, fault = finished.job, finished.fault or "its kern has ended early"
        tries = self.tries[job.key] = self.tries[job.key] + 1
        # The others would meet it, too.
        if finished.code == Exit.LIMIT or (finished.hint and tries > 1):
            hint = finished.hint.replace("run kern", f"run {self.options.called}")
            self.fault = _FAULTS.get(finished.code, KernError)(fault, hint=hint)
            return
        self.there[job.key] = finished
        if tries < TRIES:
            text = plain.line(job.key.text, 160)
            self.site.warn(f"worker {job.worker}: {fault}; its task is tried again: {text}")
        else:
            often = f"{fault} {tries} times in a row (out of memory?)"
            why = f"{often}: {self.options.called} resumes it; tail {self.yard.log(job.worker)}"
            self._settle(Settled(job.key.text, Outcome.SKIPPED, why, job.key))

    def _release(self, job: Job, landed: str = "") -> None:
        """Its work branch goes. What was done there and has not `landed` is kept at a ref."""
        repo, ref = self.repo, f"refs/heads/{job.branch}"
        self.there.pop(job.key, None)
        tree = worktree.of(self.yard, job.worker)
        start = refs.start(tree, job.branch) if tree else None
        if start and landed:  # its kern was killed before it could drop that
            refs.delete(repo, start.ref, start.commit)
        elif tree and start:
            tree.git("symbolic-ref", "HEAD", ref)
            with worktree.session_in(self.site, tree) as there:
                settle.undo(there, facts.look(there))
        tip = repo.store.id(ref)
        if tip not in ("", landed) and repo.run("merge-base", "--is-ancestor", tip, "HEAD")[0]:
            kept = self.site.keep(job.key, "finished", repo.tree(tip), tip)
            self.site.warn(f"{job.branch} has work that does not land: it is saved as {kept}")
        repo.run("update-ref", "-d", ref)

    # ------------------------------------------------------------ landing

    def land(self) -> None:
        """One commit of the branch for each, proven on the tree on which it lands. The work branch
        goes last: until then a killed landing goes on, and a commit of the branch that says and
        ticks the same tells that it is there already.
        """
        if finished := self._finished():
            landing.land(self.site)
        for one in finished:
            self._land(one)

    def _finished(self) -> list[Work]:
        return [one for one in self.there.values() if one.commit]

    def _land(self, done: Work) -> None:
        """It stays where the branch has moved meanwhile: its turn comes again. Raises KernError
        where a person is needed: then it is as before.
        """
        site, repo, key, proved = self.site, self.repo, done.job.key, ""
        head, own = repo.head(), history.commit(repo, done.commit)
        task = site.documents.spec()[1].find(key)
        is_open = task is not None and task.marker is not Marker.DONE
        if not (new := self._landed(own, key, head.commit)) and is_open:
            how: dict[str, Any] = {"texts": self._texts(done), "proof": done.proved}
            try:
                new, proved = landing.on_top(site, own, head.commit, task, where=self.where, **how)
            except landing.Refused as exc:
                self._mend(done, exc, head.commit)
                return
            waits = landing.waits(site, head.commit, new)
            if not (waits or advance(repo, head, new, own.subject)):
                return
        if new:
            self._finish(done)
        if is_open:
            end = Outcome.DONE
            # An experiment that did not work changes the two documents alone.
            if is_experiment(key.text) and {*repo.changed(own.parents[0], own.sha)} <= {*DOCUMENTS}:
                end, proved = Outcome.CONCLUDED, ""
            self._settle(Settled(key.text, end, f"{new[:7]} {own.subject}", key, proved, new))
        self._release(done.job, done.commit if new else "")

    def _landed(self, own: Commit, key: Key, head: str) -> str:
        """Where a killed landing got as far as the branch: its commit there."""
        since = history.since(self.repo, own.parents[0], head)
        same = (one for one in since if one.message == own.message)
        return next((one.sha for one in same if facts.ticks(self.repo, one, key)), "")

    def _mend(self, done: Work, refused: landing.Refused, head: str) -> None:
        """What was finished goes back, as what the next attempt begins with."""
        site, key, own = self.site, done.job.key, history.commit(self.repo, done.commit)
        site.documents.edit(lambda text, _: work.noted(text, key, done.spec))
        failed = landing.give_back(site, key, own, refused, head).written
        kept = self.repo.commit_object(refused.tree, (head, done.commit), "to be mended\n")
        self._release(done.job, done.commit)
        if task := site.documents.spec()[1].find(key):
            self.there[key] = Work(self._job(task, done.job.worker, head, kept, failed))

    def _finish(self, done: Work) -> None:
        """Files, index and documents follow the branch; twice is once."""
        documents = self.site.documents
        landing.follow(self.repo, documents)
        documents.edit(lambda text, _: work.ticked(text, done.job.key, done.spec))
        if after := self._texts(done)[LEARNINGS]:
            documents.write(LEARNINGS, after)

    def _texts(self, done: Work) -> dict[str, str | None]:
        """The documents as they stand on the disk, with what the task does to them."""
        documents = self.site.documents
        before = plain.decode(self.repo.content(f"{done.commit}^", LEARNINGS) or b"")
        learned = merged(documents.read(LEARNINGS) or "", before, done.learnings)
        spec = work.ticked(documents.spec_text(), done.job.key, done.spec)
        return {SPEC: spec, LEARNINGS: learned}

    def _end(self, error: BaseException | None, stopped: str) -> int:
        """No child, no worktree and no branch is left but those of tasks that are to be resumed."""
        self.stop(self.caller.run, now=True)
        self.pool.shutdown(wait=True, cancel_futures=True)
        self._follow()
        self.stack.close()
        self.caller.cost += self.past.cost
        self.caller.tokens += self.past.sums[1]
        unfinished = 0
        with contextlib.suppress(KernError, OSError):  # on a full disk, say: the next run does it
            unfinished = self._tidy()
        tasks = f"{plain.count(unfinished, 'task')} in progress"
        if error and unfinished:
            self.site.warn(f"{tasks}: {self.options.called} goes on")
        return super()._end(error, tasks if stopped and unfinished else stopped)

    def _tidy(self) -> int:
        """What is finished, or in progress in its worktree, stays; how many are in progress. With a
        fault so do files that may be named in it.
        """
        rest, there = [*self._left()], {worktree.PROVING, *worktree.numbers(self.yard)}
        for number in there - {one.job.worker for one in rest}:
            worktree.remove(self.yard, number)
        if not (rest or self.fault):
            shutil.rmtree(self.yard.folder, ignore_errors=True)
        return sum(one.under_way for one in rest)
