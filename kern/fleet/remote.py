"""A task on another machine: what is sent there, what is answered, and how often it is sent. The
same over any `concurrent.futures.Executor`; what travels is bytes, so that two versions of kern can
tell each other that they are two.
"""

import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field, replace
from pathlib import Path

from kern import __version__, plain
from kern.errors import Exit, KernError
from kern.fleet import child, slots, worktrees
from kern.fleet.child import Children, Workshop
from kern.fleet.slots import Slot
from kern.fleet.work import Job, Outcome
from kern.frozen import frozen
from kern.git import bundles, refs
from kern.git.repository import Repo
from kern.journal import record, writer
from kern.journal import store as journal
from kern.many import Many
from kern.system import process, workspace

_WORK = "refs/heads/work"  # of a bundle: the commit to begin on, or the one that was made
_KEPT = "refs/heads/kept"  # the work that is to be mended
_TRIES = 8  # of one task, where workers get lost or lack what it builds on
_LONGEST_S = 60.0
_TOLD = ("KERN_SANDBOX", process.ONTO)  # of a job's variables: no other may travel
_LOOK_S = 0.5


@frozen
class Parcel:
    """What goes to a worker: no credential, and nothing of the caller's environment."""

    job: Job
    identity: str  # of the caller's repository, see `slots.identity`
    folder: str  # the name of its folder
    remote: str = ""  # where a worker that has nothing of it may fetch from
    bundle: bytes = b""


@frozen
class Refused:
    """The worker cannot do it."""

    text: str
    hint: str = ""


@frozen
class Lacks:
    """The worker needs a bundle with the job's base."""

    has: tuple[str, ...]  # commits
    said: str = ""  # why it could not fetch them itself


Answer = Outcome | Refused | Lacks
Where = tuple[str, int]  # a worker: its host and process


# -------------------------------------------------------------------- on the worker


def answer(version: str, data: bytes) -> bytes:
    """Carry out a parcel; runs on a worker's machine. `data` and what is returned are pickled:
    nobody looks into them before the versions are known to be the same.
    """
    where = whoami()
    if version != __version__:
        said = f"it has kern {__version__}, this machine has {version}"
        refused = Refused(said, "install the same kern on all machines")
        return pickle.dumps((where, refused))
    try:
        return pickle.dumps((where, _answered(pickle.loads(data))))
    except (KernError, OSError) as exc:
        return pickle.dumps((where, Refused(str(exc), getattr(exc, "hint", ""))))


def whoami() -> Where:
    return socket.gethostname(), os.getpid()


def _answered(parcel: Parcel) -> Answer:
    job = parcel.job
    folder = slots.place(parcel.identity)
    try:
        store, said = slots.stocked(folder, job.needed, parcel.bundle, parcel.remote)
    except bundles.Lacking:
        store, said = slots.stocked(folder, job.needed, b"", parcel.remote)
    if not bundles.has(store, job.needed):
        return Lacks(slots.tips(store), said)
    here = worktrees.Yard(store, folder, parcel.folder)
    with slots.hold(here, job) as slot:
        came = _carried(Workshop(here, Many(), children=_children(job.run)), job, slot)
        if came.commit and (why := bundles.beside(store, came.commit)):
            came = child.unlanded(store, came, f"its work cannot be brought here: {why}")
        made = {_WORK: came.commit} if came.commit else {}
        made |= _attempts(store, job)
        packed = bundles.pack(store, made, [job.base]) if made else b""
        files = slots.records(here.place(slot.number), job.branch)
        return replace(came, job=job, journal=_told(store, job), files=files, bundle=packed)


def _carried(shop: Workshop, job: Job, slot: Slot) -> Outcome:
    """The variables: the caller's consent came with the task, and a number of this machine's own
    keeps its ports and databases apart.
    """
    marks = (("KERN_TRUST", "1"), (slots.SLOT, str(shop.yard.place(slot.number))))
    own = replace(job, tree=slot.number, worker=slot.number, again=slot.begun)
    own = replace(own, variables=(*job.variables, *marks))
    made = worktrees.of(shop.yard, slot.number) if slot.begun else None
    if made:  # its answer may have been lost on the way
        before = child.read(made, own, 0)
        if before.commit:
            return child.with_submodules(shop, made, before)
    return child.carry(shop, own)


def _attempts(store: Repo, job: Job) -> dict[str, str]:
    """The refs of what was saved of the task's failed attempts."""
    form = "--format=%(refname) %(objectname)"
    told = store.text("for-each-ref", form, f"{refs.ATTEMPTS}/{refs.slug(job.key)}")
    return dict(line.split(" ") for line in told.splitlines())


def _told(store: Repo, job: Job) -> tuple[bytes, ...]:
    """What the journal here says of the task, by the worker's number on the caller's side."""
    data = workspace.read(journal.place(store.common_dir)) or b""
    mine = journal.read(data.split(b"\n"), having=json.dumps(job.branch).encode())
    told = (one for one in mine if one["branch"] == job.branch and one.get("fleet") == job.run)
    return tuple(record.line({**one, "worker": job.worker}) for one in told)


_AT_WORK: dict[str, Children] = {}  # on this worker, by the run that sent the tasks


def _children(run: str) -> Children:
    return _AT_WORK.setdefault(run, Children())


def stop(run: str, *, now: bool) -> None:
    """Called on each worker: ends the kerns of the run that sent tasks, see `Children`."""
    children = _children(run)
    children.end() if now else children.stop()


def under_way(run: str) -> dict[str, str]:
    """Called on each worker: the work branches of the run that it has in hand, each with the last
    stage that has begun there.
    """
    found = list(_children(run).at_work.items())
    return {branch: _stage(repo, branch) for branch, (_, repo) in found}


def _stage(repo: Repo, branch: str) -> str:
    told = journal.tail(journal.place(repo.common_dir), having=json.dumps(branch).encode())
    own = [one for one in told if one["branch"] == branch and one["kind"] == "stage"]
    return str(own[-1].get("stage") or "") if own else ""


# -------------------------------------------------------------------- on the caller's side


@dataclass
class Carrier:
    """Carries jobs to workers and their outcomes back, called by a thread for each: the same shape
    as work on this machine has. `executors` gives the one to use, a new one where the last is lost.
    """

    repo: Repo
    executors: Callable[[], Executor]
    remote: str = ""
    history: Path | None = None  # where run files of tasks that have ended are kept
    warn: Callable[[str], None] = lambda text: None
    # Of a worker that cannot work, and why: whether there are others, who are asked from now on.
    avoid: Callable[[Where, Outcome], bool] = lambda where, came: False
    pause: float = 1.0  # seconds before a lost task is sent again, doubled each time
    patience: float = 0.0  # seconds after which a task that nobody answers is sent anew; 0: none
    run: str = ""  # whose tasks these are, as they say
    stopped: threading.Event = field(default_factory=threading.Event)
    _asked: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, job: Job) -> Outcome:
        self.run = job.run
        if why := bundles.beside(self.repo, job.base):
            said = f"a cluster's workers cannot have this repository: {why}"
            hint = "leave out --scheduler ([fleet] in kern.toml): kern -j 4 works on this machine"
            return Outcome(job, Exit.USAGE, fault=said, hint=hint, unfit=True)
        bundle, lost = b"", ""
        for turn in range(_TRIES):
            if self.stopped.is_set():
                break
            try:
                where, came = self._sent(job, bundle)
                if isinstance(came, Outcome):
                    came = replace(self._taken(came), job=job)
            except Exception as exc:  # of whatever kind the executor knows
                lost = plain.line(f"{type(exc).__name__}: {exc}".rstrip(": "), 200)
                self.stopped.wait(min(self.pause * 2**turn, _LONGEST_S))
                continue
            if isinstance(came, Lacks):
                if came.said:
                    self.warn(f"a worker could not fetch from {self.remote}: {came.said}")
                try:
                    bundle = self._bundle(job, came.has)
                except KernError as exc:
                    return Outcome(job, 1, fault=str(exc), hint=exc.hint, unfit=True)
                continue
            if isinstance(came, Refused):
                came = Outcome(job, 2, fault=came.text, hint=came.hint, unfit=True)
            killed = came.code < 0  # its kern was: no fault of the worker's
            if not came.unfit or self.stopped.is_set():
                return came
            if not killed and not self.avoid(where, came):
                return came
            lost = came.fault
        if self.stopped.is_set():
            return Outcome(job, 130, fault="the run was ended")
        said = f"no worker of the cluster has answered: {lost}"
        return Outcome(job, 1, fault=said, hint="kern doctor --scheduler WHERE", unfit=True)

    def _sent(self, job: Job, bundle: bytes) -> tuple[Where, Answer]:
        """Raises what the executor does where the worker or the scheduler is lost."""
        where = slots.identity(self.repo), self.repo.root.name
        told = tuple(one for one in job.variables if one[0] in _TOLD)
        parcel = Parcel(replace(job, variables=told), *where, self.remote, bundle)
        future: Future[bytes] = self.executors().submit(answer, __version__, pickle.dumps(parcel))
        given = time.monotonic()
        while True:
            try:
                where, came = pickle.loads(future.result(_LOOK_S))
            except Late:
                late = self.patience and time.monotonic() - given > self.patience
                if future.done():
                    raise  # the executor's own
                if late or self.stopped.is_set():
                    future.cancel()
                    raise CancelledError("it took too long") from None
                continue
            assert isinstance(came, Outcome | Refused | Lacks)
            return where, came

    def _bundle(self, job: Job, has: tuple[str, ...]) -> bytes:
        with self._asked:  # git packs once at a time
            kept = {_KEPT: job.kept} if job.kept else {}
            return bundles.pack(self.repo, {_WORK: job.base, **kept}, has)

    def _taken(self, came: Outcome) -> Outcome:
        """With all that came along in its place here: commits, the work under its branch, attempts
        where their notes say; run files; the journal's lines. Raises KernError where it arrived
        torn: the worker still has it.
        """
        if came.bundle:
            there, _ = bundles.head(came.bundle)
            named = {_WORK: f"refs/heads/{came.job.branch}"} if _WORK in there else {}
            tried = [name for name in there if name.startswith(f"{refs.ATTEMPTS}/")]
            named |= {name: name for name in tried if self.repo.run("rev-parse", "-q", name)[0]}
            if named:  # else all of it has come before
                bundles.unpack(self.repo, came.bundle, named)
        if self.history:
            slots.lay(self.history, came.files)
        try:
            for line in came.journal:
                writer.append(journal.place(self.repo.common_dir), line)
        except OSError as exc:
            self.warn(writer.unwritten(journal.place(self.repo.common_dir), exc))
        return replace(came, journal=(), files=(), bundle=b"")
