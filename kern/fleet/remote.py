"""A task on another machine. A git remote that caller and workers share is transport and memory:
the base goes there, the work branch comes back. What travels beside is JSON: no credential, no
variable of the caller's, no code of either side.
"""

import hashlib
import json
import os
import re
import shutil
import threading
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from concurrent.futures import TimeoutError as Late
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kern import __version__, plain
from kern.errors import Exit, KernError
from kern.fleet import child, worktree
from kern.fleet.child import Children, Workshop
from kern.fleet.work import Job, Outcome
from kern.fleet.worktree import Yard
from kern.git import history, refs
from kern.git.repository import Repo
from kern.journal import store as journal
from kern.many import Many
from kern.model import LEARNINGS, SPEC, Key
from kern.system import lock, process, workspace

BASES = "refs/heads/kern/base"  # on the remote: what tasks are begun on, and the work to be mended
_FROM = "refs/kern/from"  # in a worker's store: the remote's branches
_TRIES = 8  # of one task, where workers get lost
_LONGEST_S = 60.0
_LOOK_S = 0.5
_TOLD = ("KERN_SANDBOX", process.ONTO)  # of a job's variables: no other may travel
_ALONE = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
_QUIET = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
_LINE = re.compile(rb"[^\n]{1,1000000}\n?")  # of a journal


# -------------------------------------------------------------------- on the worker


def place(remote: str) -> Path:
    """Where this machine keeps what belongs to the repository of that remote."""
    moved = os.environ.get("KERN_DIR")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kern"
    base = Path(moved).expanduser().absolute() if moved else cache
    folder = base / "fleet" / hashlib.sha256(remote.encode()).hexdigest()[:16]
    with workspace.reported(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    workspace.own_folder(folder)
    return folder


def carry_out(given: str) -> str:
    """A job and its remote as JSON; what became of it, likewise."""
    asked = json.loads(given)
    try:
        if asked["kern"] != __version__:
            raise KernError(
                f"it has kern {__version__}, the caller has {asked['kern']}",
                hint="install the same kern on all machines",
            )
        came = _carried(job_of(asked["job"]), str(asked["remote"]), str(asked["name"]))
    except (KernError, OSError) as exc:
        hint = getattr(exc, "hint", "")
        came = {"fault": str(exc), "hint": hint, "unfit": True, "code": Exit.USAGE.value}
    return plain.data(came)


def _carried(job: Job, remote: str, name: str) -> dict[str, Any]:
    folder = place(remote)
    store = Repo(folder / "store.git", folder / "store.git", folder / "store.git")
    with lock.alone(folder / "store.lock"):
        if not (store.root / "HEAD").exists():
            argv = ("clone", "--quiet", "--bare", "--", remote, str(store.root))
            code, _, said = Repo(folder, folder, folder).run(*argv, env=_ALONE)
            if code:
                shutil.rmtree(store.root, ignore_errors=True)
                raise KernError(
                    f"this machine cannot fetch from {remote}: {plain.last(said)}",
                    hint="let it log in there by itself: [fleet] remote",
                )
            store.git("config", "gc.auto", "0")  # a finished task's commits may have no name
        _remote(store, "fetch", *_QUIET, "--prune", remote, f"+refs/heads/*:{_FROM}/*")
    here = Yard(store, folder, name)
    if done := _pushed(store, job):  # its answer was lost on the way
        return done
    with lock.alone(folder / f"{job.worker}.lock"):
        return _in_worktree(here, job, remote)


def _pushed(store: Repo, job: Job) -> dict[str, Any]:
    """What a worker has finished of it already."""
    commit = store.store.id(f"{_FROM}/{job.branch}")
    if not commit or history.commit(store, commit).parents != (job.base,):
        return {}
    texts = ((name, store.content(commit, name)) for name in (SPEC, LEARNINGS))
    papers = [(name, plain.decode(text)) for name, text in texts if text is not None]
    return {"code": 0, "commit": commit, "papers": papers, "journal": _lines(store, job)}


def _in_worktree(here: Yard, job: Job, remote: str) -> dict[str, Any]:
    """The variables: the caller's consent came with the task."""
    store, number = here.repo, job.worker
    process.sweep(("KERN_ROOT", str(here.place(number))))  # of a worker that was killed
    made = worktree.of(here, number)
    for left in made.git_dir.glob("*.lock") if made else ():
        left.unlink(missing_ok=True)
    head = made.plain_head() if made else None
    begun = head is not None and head.branch == job.branch
    begun = begun and not store.run("merge-base", "--is-ancestor", job.base, job.branch)[0]
    own = replace(job, again=begun, tree=number, variables=(*job.variables, ("KERN_TRUST", "1")))
    came = child.read(made, own, 0) if begun and made else None  # its answer may have been lost
    if not (came and came.commit):
        came = child.carry(Workshop(here, Many(), children=_children(job.run)), own)
    told = asdict(came)
    del told["job"]  # the caller knows it
    pushed = [f"+{came.commit}:refs/heads/{job.branch}"] if came.commit else []
    kept = store.text(
        "for-each-ref", "--format=%(refname)", f"{refs.ATTEMPTS}/{refs.slug(job.key)}"
    )
    pushed += [f"+{ref}:{ref}" for ref in kept.split()]
    if pushed:
        _remote(store, "push", "--quiet", "--no-verify", remote, *pushed)
    return told | {"kept": kept.split(), "journal": _lines(store, job)}


def _remote(repo: Repo, *argv: str) -> None:
    """Raises KernError where it does not answer as it should."""
    code, _, said = repo.run("-c", "fetch.recurseSubmodules=false", *argv, env=_ALONE)
    if code:
        raise KernError(
            f"git {argv[0]} failed: {plain.line(plain.last(said), 200)}",
            hint="see that caller and workers reach the remote: [fleet] remote",
        )


def _lines(store: Repo, job: Job) -> list[str]:
    """What the journal here says of the task."""
    having = [json.dumps(job.branch).encode()]
    mine = journal.load(journal.place(store.common_dir), lambda complaint: None, having)
    told = (one for one in mine if one["branch"] == job.branch and one.get("fleet") == job.run)
    return [plain.decode(journal.line({**one, "worker": job.worker})) for one in told]


_AT_WORK: dict[str, Children] = {}  # on this worker, by the run that sent the tasks


def _children(run: str) -> Children:
    return _AT_WORK.setdefault(run, Children())


def stop(run: str, *, now: bool) -> None:
    """Called on each worker: ends the kerns of the run that sent tasks, see `Children`."""
    children = _children(run)
    children.end() if now else children.stop()


# -------------------------------------------------------------------- on the caller's side


@dataclass
class Carrier:
    """Carries jobs to workers and their outcomes back, called by a thread for each: the same shape
    as work on this machine has. `executors` gives the one to use, a new one where the last is lost.
    """

    repo: Repo
    executors: Callable[[], Executor]
    remote: str
    warn: Callable[[str], None] = lambda text: None
    carry_out: Callable[[str], str] = carry_out
    # Of a worker that cannot work, by its address: whether there are others, asked from now on.
    avoid: Callable[[str, Outcome], bool] = lambda where, came: False
    pause: float = 1.0  # seconds before a lost task is sent again, doubled each time
    run: str = ""  # whose tasks these are, as they say
    sent: set[str] = field(default_factory=set)  # refs on the remote
    stopped: threading.Event = field(default_factory=threading.Event)
    _asked: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, job: Job) -> Outcome:
        self.run = job.run
        lost = ""
        try:
            self._send(job)
        except KernError as exc:
            return Outcome(job, Exit.USAGE, fault=str(exc), hint=exc.hint, unfit=True)
        for turn in range(_TRIES):
            if self.stopped.is_set():
                return Outcome(job, 130, fault="the run was ended")
            try:
                where, came = self._answered(job)
            except (Exception, CancelledError) as exc:  # of whatever kind the executor knows
                lost = plain.line(f"{type(exc).__name__}: {exc}".rstrip(": "), 200)
            else:
                killed = came.code < 0  # its kern was: no fault of the worker's
                if not came.unfit or self.stopped.is_set():
                    return came
                if not (killed or self.avoid(where, came)):
                    return came
                lost = came.fault
            self.stopped.wait(min(self.pause * 2**turn, _LONGEST_S))
        fault = f"no worker of the cluster has answered: {lost}"
        return Outcome(job, 1, fault=fault, hint="see what the workers print", unfit=True)

    def _send(self, job: Job) -> None:
        """What it needs, to the remote."""
        argv = ("grep", "--quiet", "-e", "filter=lfs", job.base, "--", ":(glob)**/.gitattributes")
        if not self.repo.run(*argv)[0]:
            raise KernError(
                "a cluster's workers cannot have this repository: it has files in git LFS",
                hint="leave out --scheduler: kern -j 4 works on this machine",
            )
        wanted = {one: f"{BASES}/{one}" for one in (job.base, job.kept) if one}
        with self._asked:  # one push at a time
            self.sent.update(wanted.values())
            specs = (f"+{one}:{ref}" for one, ref in wanted.items())
            _remote(self.repo, "push", "--quiet", "--no-verify", self.remote, *specs)

    def _answered(self, job: Job) -> tuple[str, Outcome]:
        """Raises what the executor does where the worker or the scheduler is lost."""
        told = tuple(one for one in job.variables if one[0] in _TOLD)
        asked = {"kern": __version__, "remote": self.remote, "name": self.repo.root.name}
        job_told = asdict(replace(job, variables=told))
        future = self.executors().submit(self.carry_out, plain.data(asked | {"job": job_told}))
        while True:
            try:
                given = json.loads(future.result(_LOOK_S))
            except Late:
                if future.done():
                    raise  # the executor's own
                if self.stopped.is_set():
                    future.cancel()
                    return "", Outcome(job, 130, fault="the run was ended")
                continue
            return str(given.get("where") or ""), self._taken(job, given)

    def _taken(self, job: Job, given: Mapping[str, Any]) -> Outcome:
        """With what came along in its place: commits under their names, the journal's lines."""
        code, commit = int(given["code"]), str(given.get("commit") or "")
        papers = tuple((str(name), str(text)) for name, text in given.get("papers") or ())
        specs = [f"+refs/heads/{job.branch}:refs/heads/{job.branch}"] if commit else []
        below = f"{refs.ATTEMPTS}/{refs.slug(job.key)}/"
        there = [str(ref) for ref in given.get("kept") or () if str(ref).startswith(below)]
        specs += [f"{ref}:{ref}" for ref in there if self.repo.run("rev-parse", "-q", ref)[0]]
        if specs:
            with self._asked:
                _remote(self.repo, "fetch", *_QUIET, self.remote, *specs)
        # A later attempt would find it there.
        self._take_away([*([f"refs/heads/{job.branch}"] if commit else ()), *there])
        for line in given.get("journal") or ():
            if _LINE.fullmatch(data := plain.encode(str(line))):
                try:
                    journal.append(journal.place(self.repo.common_dir), data)
                except OSError as exc:
                    self.warn(journal.unwritten(journal.place(self.repo.common_dir), exc))
        fault, hint = str(given.get("fault") or ""), str(given.get("hint") or "")
        under, unfit = given.get("under_way") is True, given.get("unfit") is True
        return Outcome(job, code, commit, under, papers, fault, hint, unfit)

    def tidy(self) -> None:
        """What this run has put on the remote goes."""
        self._take_away(sorted(self.sent))

    def _take_away(self, names: Sequence[str]) -> None:
        if names:
            argv = ("push", "--quiet", "--no-verify", self.remote, "--delete", *names)
            self.repo.run(*argv, env=_ALONE)


def job_of(told: Mapping[str, Any]) -> Job:
    """As JSON has it."""
    given = dict(told)
    for name in ("papers", "variables"):
        given[name] = tuple((str(one), str(two)) for one, two in given[name])
    for name in ("options", "before"):
        given[name] = tuple(map(str, given[name]))
    return Job(**given | {"key": Key(*given["key"])})
