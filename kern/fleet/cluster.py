"""Tasks on the workers of a dask cluster. A git remote that caller and workers share is transport
and memory: the base goes there, the work branch comes back. What travels beside is JSON: no
credential, no variable of the caller's, no code of either side. dask hands a task on where its
worker is lost, and brings TLS where it is configured for it.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import distributed

from kern import __version__, plain
from kern.errors import Exit, KernError, UsageError
from kern.fleet import worktree
from kern.fleet.run import Hired
from kern.fleet.work import Job, Work
from kern.fleet.worktree import Yard
from kern.git import history, refs
from kern.git.repository import Repo
from kern.journal import store as journal
from kern.model import Key
from kern.system import lock, process, waits, workspace

BASES = "refs/heads/kern/base"  # on the remote: what tasks are begun on, and the work to be mended
_ALONE = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
_PUSH = ("push", "--quiet", "--no-verify")
_LINE = re.compile(rb"[^\n]{1,1000000}\n?")  # of a journal
_DASK: Any = distributed  # it has no types


def _remote(repo: Repo, *argv: str) -> None:
    """Raises KernError where it does not answer as it should."""
    output = ""
    for pause in (0.0, 0.5, 2.0):  # what others push and delete meanwhile can break one off
        waits.sleep(pause)
        code, _, output = repo.run("-c", "fetch.recurseSubmodules=false", *argv, env=_ALONE)
        if not code:
            return
    raise KernError(
        f"git {argv[0]} failed: {plain.line(plain.last(output), 200)}",
        hint="see that caller and workers reach the remote: remote in your settings",
    )


# ---------------------------------------------------------------- on the worker

_AT_WORK: dict[str, list[Yard]] = {}  # here, by the run that sent the tasks


def stop(run: str, *, now: bool) -> None:
    """Called on each worker: asks the kerns of that run to stop, or ends them."""
    for yard in _AT_WORK.get(run, ()):
        yard.stopping, yard.ended = True, now


def carry_out(text: str) -> str:
    """A job and its remote as JSON; what came of it, likewise."""
    request = json.loads(text)
    try:
        if request["kern"] != __version__:
            raise UsageError(
                f"a worker has kern {__version__}, the caller has {request['kern']}",
                hint="install the same kern on all machines",
            )
        job = Job(**request["job"] | {"key": Key(*request["job"]["key"])})
        return plain.data(_carried(job, str(request["remote"])))
    except (KernError, OSError) as exc:
        fault = {"fault": str(exc), "hint": getattr(exc, "hint", ""), "code": Exit.USAGE.value}
        return plain.data(fault)


def _carried(job: Job, remote: str) -> dict[str, Any]:
    base = Path(os.environ.get("KERN_DIR") or "~/.cache/kern").expanduser().absolute()
    folder = base / "fleet" / hashlib.sha256(remote.encode()).hexdigest()[:16]
    workspace.own_folder(folder, parents=True)
    workspace.own_folder(folder / "store.git")
    store = Repo(*[folder / "store.git"] * 3)
    with lock.alone(folder / "store.lock"):
        store.git("init", "--quiet", "--bare")
        store.git("config", "gc.auto", "0")  # a finished task's commits may have no name
        bases = [f"{BASES}/{one}" for one in (job.base, job.kept) if one]
        _remote(store, *_FETCH, remote, *bases)
    with lock.alone(folder / f"{job.worker}.lock"):
        work = _in_worktree(Yard(store, folder, "task"), job)
    below = f"{refs.ATTEMPTS}/{refs.slug(job.key)}"
    made = store.text("for-each-ref", "--format=%(refname)", below).split()
    made += [f"refs/heads/{job.branch}"] if work.commit else []
    if made:
        _remote(store, *_PUSH, remote, *(f"+{ref}:{ref}" for ref in made))
    mine = journal.load(journal.place(store.common_dir), having=json.dumps(job.branch).encode())
    records = (one for one in mine if one["branch"] == job.branch and one.get("fleet") == job.run)
    lines = [plain.decode(journal.line({**one, "worker": job.worker})) for one in records]
    return {**asdict(work), "job": None, "refs": made, "journal": lines}


def _in_worktree(yard: Yard, job: Job) -> Work:
    """Gone on with, where a kern that was killed has begun it there."""
    process.sweep(("KERN_ROOT", str(yard.place(job.worker))))
    tree = worktree.of(yard, job.worker)
    head = tree.plain_head() if tree else None
    if tree and head and head.branch == job.branch:
        for lock_file in tree.git_dir.glob("*.lock"):
            lock_file.unlink(missing_ok=True)
        if job.base in (head.commit, *history.commit(tree, head.commit).parents):
            state = worktree.read(tree, job)
            if state.commit:  # its answer was lost on the way
                return state
            job = replace(job, again=state.under_way)
    _AT_WORK.setdefault(job.run, []).append(yard)
    return worktree.carry_out(yard, job)


# ---------------------------------------------------------------- on the caller's side


@dataclass
class Cluster:
    """Carries jobs to workers and what came of them back, called by a thread for each."""

    where: str  # host:port, or an address with its protocol
    patience: float = 10.0  # seconds, for the scheduler's first answer
    remote: str = ""
    repo: Repo = field(init=False)
    _run: str = ""  # whose tasks these are
    _client: Any = None
    _sent: set[str] = field(default_factory=set)  # refs on the remote
    _one: threading.Lock = field(default_factory=threading.Lock)

    def hire(self, yard: Yard, jobs: int, tasks: int) -> Hired:
        """As `run.here` does on this machine; a task waits for a worker. Raises UsageError."""
        if not self.remote:
            raise UsageError(
                "a cluster needs a git remote that this machine and its workers share",
                hint="git remote add kern ssh://host/path.git (a bare repository is enough)",
            )
        self.repo = yard.repo
        slots = sum(self._client.nthreads().values()) or 1  # tasks that its workers take at once
        return min(jobs or slots, tasks), self.carry, self.halt

    def carry(self, job: Job) -> Work:
        """Dask's faults, of whatever kind, are the worker's."""
        self._run = job.run
        bases = {f"{BASES}/{one}": one for one in (job.base, job.kept) if one}
        request = {"kern": __version__, "remote": self.remote, "job": asdict(job)}
        try:
            with self._one:
                self._sent |= bases.keys()
                refspecs = (f"+{one}:{ref}" for ref, one in bases.items())
                _remote(self.repo, *_PUSH, self.remote, *refspecs)
            return self._take(job, json.loads(self.submit(plain.data(request)).result()))
        except KernError as exc:
            return Work(job, 1, fault=str(exc), hint=exc.hint)
        except (Exception, asyncio.CancelledError) as exc:
            why = plain.line(f"{type(exc).__name__}: {exc}".rstrip(": "), 200)
            hint = (
                "" if self._client.status == "running" else f"is the scheduler {self.where} there?"
            )
            return Work(job, 1, fault=f"no worker of the cluster has answered: {why}", hint=hint)

    def submit(self, text: str) -> Any:
        """Its future. It runs as long as it takes; dask begins it anew if its worker is gone."""
        return self._client.submit(carry_out, text, pure=False)

    def _take(self, job: Job, answer: dict[str, Any]) -> Work:
        """With what came along in its place: commits under their names, the journal's lines."""
        branch, below = f"refs/heads/{job.branch}", f"{refs.ATTEMPTS}/{refs.slug(job.key)}/"
        named = [str(ref) for ref in answer.get("refs") or ()]
        there = [ref for ref in named if ref == branch or ref.startswith(below)]
        new = [ref for ref in there if ref == branch or not self.repo.store.id(ref)]
        with self._one:
            if new:
                _remote(self.repo, *_FETCH, self.remote, *(f"+{ref}:{ref}" for ref in new))
            self._take_away(*there)  # a later attempt would find it there
        lines = (plain.encode(str(line)) for line in answer.get("journal") or ())
        for line in filter(_LINE.fullmatch, lines):
            with contextlib.suppress(OSError):  # as the run's own lines say
                journal.append(journal.place(self.repo.common_dir), line)
        commit = self.repo.text("rev-parse", branch) if branch in there else ""
        texts = (str(answer.get(name) or "") for name in ("spec", "learnings", "fault", "hint"))
        return Work(job, int(answer["code"]), commit, answer.get("under_way") is True, *texts)

    def _take_away(self, *names: str) -> None:
        if names:
            self.repo.run(*_PUSH, self.remote, "--delete", *names, env=_ALONE)

    def halt(self, now: bool) -> None:
        """The kerns there are asked what those here are."""
        with contextlib.suppress(Exception):  # who does not answer has ended it
            self._client.run(stop, self._run, now=now, on_error="ignore")
        if now:
            self.close()

    def close(self) -> None:
        """What this run has put on the remote goes."""
        self._take_away(*sorted(self._sent))
        self._sent.clear()
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)

    def connect(self) -> None:
        """Raises UsageError with what to type next."""
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # kern says what is lost
        try:
            how = {"timeout": self.patience, "set_as_default": False}
            self._client = _DASK.Client(self.where, **how)
        except Exception as exc:  # dask knows many ways to fail
            reason = plain.line(str(exc) or type(exc).__name__, 160)
            raise UsageError(
                f"no dask scheduler answers at {self.where}: {reason}",
                hint="start one (dask scheduler), or correct --scheduler; "
                "one with TLS is named tls://HOST:PORT",
            ) from None
