"""The workers of a run: what each has in hand, and what has come home. It decides nothing but which
worker is free.
"""

import os
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from kern.config import FILE
from kern.events import Sent
from kern.fleet import back, handout, lanes, work
from kern.fleet.child import Workshop
from kern.fleet.work import Carry, Job, Left, Outcome
from kern.git.protected_files import PROMPTS
from kern.model import LEARNINGS, SETUP, SPEC, Key, Marker
from kern.models import Choices
from kern.pipeline.options import Options
from kern.pipeline.site import Site
from kern.spec import edit
from kern.spec.parse import Spec, Task, parse
from kern.system import process

OF = "KERN_OF"  # marks the kerns of a working tree's workers: its path


@dataclass(slots=True)
class Crew:
    site: Site
    shop: Workshop
    carry: Carry
    count: int
    onto: str  # the branch
    options: Options
    busy: dict[Future[Outcome], Job] = field(default_factory=dict)
    again: list[Job] = field(default_factory=list)  # that are to be resumed
    taken: set[Key] = field(default_factory=set)  # handed out, and not settled yet
    retired: set[int] = field(default_factory=set)  # workers that cannot work
    handed: int = 0
    _used: set[int] = field(default_factory=set)  # worktrees that this run has set up
    _pool: Executor | None = None
    _there: dict[str, tuple[str, str]] = field(default_factory=dict)  # see `Children.places`
    trees: dict[str, int] = field(default_factory=dict)  # those in use, by the work branch
    _files: dict[str, tuple[int, set[str]]] = field(default_factory=dict)

    def free(self) -> list[int]:
        taken = {job.worker for job in self.busy.values()} | self.retired
        return [worker for worker in range(1, self.count + 1) if worker not in taken]

    def start(self, job: Job) -> lanes.Lane:
        # Each thread waits for a child process, or for a cluster's worker.
        self._pool = self._pool or ThreadPoolExecutor(self.count, "kern-worker")
        self.taken.add(job.key)
        self.trees[job.branch] = job.place
        self.handed += 1
        self.busy[self._pool.submit(self.carry, job)] = job
        if self.shop.children.places is not None:
            self._there.pop(job.branch, None)
            return self._sent(job, "", "")
        if job.setup and job.place not in self._used:
            self._used.add(job.place)
            return self._sent(job, "", SETUP)
        return lanes.Lane(job.worker, job.key.text, lanes.BEGINS, time.time())

    def placed(self) -> list[lanes.Lane]:
        """Of the tasks that are carried out elsewhere: what has become known since."""
        if self.shop.children.places is None:
            return []
        there, known = self.shop.children.places(), self._there
        news = [job for job in self.busy.values() if there.get(job.branch) != known.get(job.branch)]
        fresh = [(job, *there[job.branch]) for job in news if job.branch in there]
        known.update((job.branch, (where, stage)) for job, where, stage in fresh)
        return [self._sent(*one) for one in fresh]

    def _sent(self, job: Job, where: str, stage: str) -> lanes.Lane:
        self.site.sink(Sent(job.key.text, job.worker, where, stage))
        doing = lanes.elsewhere(where, stage) + f", on {where}" * bool(where)
        return lanes.Lane(job.worker, job.key.text, doing, time.time())

    def resumed(self, worker: int) -> Job | None:
        """The next one that is to be resumed, by this worker, in its own worktree."""
        return replace(self.again.pop(0), worker=worker) if self.again else None

    def takes_up(self, left: Left) -> None:
        """What an earlier run left half done is handed out first."""
        tree = left.tree or self._free_tree()
        self.trees[left.branch] = tree
        self.taken.add(left.key)
        what = left.key, left.number, left.base, left.branch
        self.again.append(replace(self._job(*what, tree, tree), again=True))

    def job(self, worker: int, choice: handout.Choice, text: str, parsed: Spec) -> Job:
        tree = worker if worker not in self.trees.values() else self._free_tree()
        before, kept = back.mended(self.site, choice.task)
        key, head = choice.task.key, self.site.repo.head().commit
        made = self._job(key, choice.number, head, work.branch(self.onto, key), worker, tree)
        papers = self._papers(text, parsed, choice.task if before else None)
        return replace(made, papers=papers, before=before, kept=kept)

    def _job(self, key: Key, number: int, base: str, branch: str, worker: int, tree: int) -> Job:
        """With what is the same for all of this run."""
        caller = self.site.caller
        return Job(
            *(key, number, base, branch, worker, caller.run, ()),
            _argv(self.options),
            _variables(self.options, str(self.site.repo.root), self.site.scope.branch),
            caller.settings.fleet.setup,
            caller.settings.fleet.setup_s,
            tree,
        )

    def _free_tree(self) -> int:
        used = {*self.trees.values()}
        return next(number for number in range(1, 10_000) if number not in used)

    def released(self, key: Key, branch: str) -> None:
        """The task is settled, or goes back; what its worktree holds is no longer needed."""
        self.taken.discard(key)
        self._files.pop(branch, None)
        self.trees.pop(branch, None)

    def _papers(self, text: str, parsed: Spec, mended: Task | None) -> tuple[tuple[str, str], ...]:
        """What a worktree has as the person's tree has it now. What is in progress there is nothing
        that a worker would go on with, but for a task that was sent back.
        """
        spec = edit.mark_all(text, [(task, Marker.PENDING) for task in parsed.active])
        spec = edit.mark(spec, mended, Marker.ACTIVE) if mended else spec
        root, papers = self.site.repo.root, self.site.papers
        prompts = root / PROMPTS
        below = sorted(os.listdir(prompts)) if prompts.is_dir() else []
        names = [f"{PROMPTS}/{name}" for name in below if (prompts / name).is_file()]
        texts = ((name, papers.read(name)) for name in (LEARNINGS, FILE, *names))
        return ((SPEC, spec), *((name, text) for name, text in texts if text is not None))

    def touched(self) -> dict[Key, Collection[str]]:
        """The files of the tasks that are under way, as far as their research is known here."""
        found: dict[Key, Collection[str]] = dict.fromkeys(self.taken, ())
        for job in self.busy.values():
            place = self.shop.yard.place(job.place) / SPEC
            try:
                written = place.stat().st_mtime_ns
                if self._files.get(job.branch, (0,))[0] != written:
                    task = parse(place.read_text("utf-8", "replace")).find(job.key)
                    self._files[job.branch] = written, handout.files(task) if task else set()
            except OSError:
                continue
            found[job.key] = self._files[job.branch][1]
        return found

    def home(self) -> list[Outcome]:
        """What has come since, in the order of finishing as far as that is known."""
        done = [future for future in self.busy if future.done()]
        for future in done:
            self.busy.pop(future)
        return [future.result() for future in done]

    def dismiss(self) -> None:
        """All are ended at once."""
        self.shop.children.end()
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self.busy.clear()


def _argv(options: Options) -> tuple[str, ...]:
    """What a worker's kern is called with, beside its task."""
    words = [] if options.wait else ["--no-wait"]
    words += [] if options.sign else ["--no-sign"]
    words += {"repair": ["--repair"], "allow": ["--allow-red"]}.get(options.on_red, [])
    words += [] if options.leave.project else ["--no-project-settings"]
    if options.max_cost:
        words += ["--max-cost", f"{options.max_cost:g}"]
    return (*words, *_choices(options.models))


def _choices(models: Choices) -> Sequence[str]:
    words: list[str] = []
    for role, choice in models.items():
        words += ["--model", f"{role}={choice.model}"] if choice.model else []
        words += ["--agent", f"{role}={choice.agent}"] if choice.agent else []
    efforts = {choice.effort for choice in models.values()} - {""}
    words += ["--effort", *efforts] if efforts else []
    words += ["--no-fallback"] if any(one.alone for one in models.values()) else []
    return words


def _variables(options: Options, root: str, branch: str) -> tuple[tuple[str, str], ...]:
    """What the person has allowed for this run, which has asked. `root`: of whose workers, which
    land on the `branch`.
    """
    found = [(OF, root), ("KERN_TRUST", "1"), (process.ONTO, branch)]
    found += [("KERN_SANDBOX", options.leave.sandbox)] if options.leave.sandbox else []
    return tuple(found)
