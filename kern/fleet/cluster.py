"""Tasks on the workers of a dask cluster. A git remote that caller and workers share is transport
and memory: the base goes there, the work branch comes back, both below a ref of this tree's own.
What travels beside is JSON: no credential, no variable of the caller's, no code of either side.
dask hands a task on where its worker is lost, and brings TLS where it is configured for it.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import platform
import re
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import distributed

from kern import __version__, plain
from kern.errors import Exit, KernError, UsageError
from kern.fleet import worktree
from kern.fleet.work import Job, Work
from kern.fleet.worktree import Yard
from kern.git import history, refs
from kern.git.repository import Repo
from kern.journal import store as journal
from kern.model import Key
from kern.system import lock, process, workspace

_ALONE = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
_PUSH = ("push", "--quiet", "--no-verify")
_LOOK_S = 5.0
_LINE = 1 << 20  # bytes of the journal's
_DASK: Any = distributed  # it has no types


def _remote(repo: Repo, *argv: str) -> None:
    """Raises KernError where it does not answer as it should."""
    code, _, output = repo.run("-c", "fetch.recurseSubmodules=false", *argv, env=_ALONE)
    if code:
        what = f"git {argv[0]} failed: {plain.line(output.strip(), 300)}"
        raise KernError(what, hint="see that caller and workers reach the remote: git remote -v")


# ---------------------------------------------------------------- on the worker


def carry_out(text: str) -> str:
    """A job and its remote as JSON; what came of it, likewise."""
    request = json.loads(text)
    try:
        if request["kern"] != __version__:
            what = f"a worker has kern {__version__}, the caller has {request['kern']}"
            raise UsageError(what, hint="install the same kern on all machines")
        job = Job(**request["job"] | {"key": Key(*request["job"]["key"])})
        answer = _carried(job, str(request["remote"]), str(request["below"]))
    except (KernError, OSError) as exc:
        answer = {"fault": str(exc), "hint": getattr(exc, "hint", ""), "code": Exit.USAGE.value}
    if answer["fault"]:
        answer["fault"] = f"on {platform.node()}: {answer['fault']}"
    return plain.data(answer)


def _carried(job: Job, remote: str, below: str) -> dict[str, Any]:
    base = Path(os.environ.get("KERN_DIR") or "~/.cache/kern").expanduser().absolute()
    folder = base / "fleet" / hashlib.sha256(remote.encode()).hexdigest()[:16]
    workspace.own_folder(folder / "task.git", parents=True)
    store = Repo(*[folder / "task.git"] * 3)
    with lock.alone(folder / "store.lock"):
        store.git("init", "--quiet", "--bare")
        _remote(store, *_FETCH, remote, f"{below}/{job.kept or job.base}")
    with lock.alone(folder / f"{job.worker}.lock"):
        yard = Yard(store, folder)
        process.sweep((process.OF, str(yard.place(job.worker))))  # it outlived its dask worker
        work = worktree.carry_out(yard, job)
    attempts = f"{refs.ATTEMPTS}/{refs.slug(job.key)}"
    made = store.text("for-each-ref", "--format=%(refname)", attempts).split()
    made += [f"refs/heads/{job.branch}"] if work.commit else []
    if made:
        _remote(store, *_PUSH, remote, *(f"+{ref}:{below}/{ref}" for ref in made))
    records = journal.load(journal.place(store.common_dir), size=journal.NIGHT)
    mine = [one for one in records if _is_of(job, one)]
    return {**asdict(work), "job": None, "refs": made, "journal": mine}


def version() -> str:
    return __version__


def _is_of(job: Job, record: Any) -> bool:
    return (record.get("fleet"), record.get("branch")) == (job.run, job.branch)


# ---------------------------------------------------------------- on the caller's side


@dataclass
class Cluster:
    """Carries jobs to workers and what came of them back, called by a thread for each."""

    where: str  # host:port, or an address with its protocol
    repo: Repo
    warn: Callable[[str], object] = print
    patience: float = 10.0  # seconds, for the scheduler's first answer
    _client: Any = None
    _one: threading.Lock = field(default_factory=threading.Lock)

    @property
    def remote(self) -> str:
        return self.repo.run("remote", "get-url", "kern")[1].decode().strip()

    @property
    def below(self) -> str:
        """Where its refs are on the remote: those of this tree's runs, of which there is one."""
        tree = f"{platform.node()}\0{self.repo.root}".encode()
        return f"refs/heads/kern/tree/{hashlib.sha256(tree).hexdigest()[:16]}"

    def connect(self) -> None:
        """Raises UsageError with what to type next."""
        if not self.remote:
            raise UsageError(
                "a cluster needs a git remote that this machine and its workers share",
                hint="git remote add kern ssh://host/path.git (a bare repository is enough)",
            )
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # kern says what is lost
        try:
            _DASK.comm.get_address_host_port(self.where)  # a client of none is slow to go
            self._client = _DASK.Client(self.where, timeout=self.patience, set_as_default=False)
        except Exception as exc:  # dask knows many ways to fail
            reason = plain.line(str(exc) or type(exc).__name__, 160)
            what = f"no dask scheduler answers at {self.where}: {reason}"
            hint = "start one (dask scheduler), or correct --scheduler; with TLS: tls://HOST:PORT"
            raise UsageError(what, hint=hint) from None
        left = len(self._client.nthreads()) - len(fit := self.fit())
        if fit and left:
            workers = f"{plain.count(left, 'worker')} of the cluster without kern {__version__}"
            self.warn(f"nothing is sent to {workers}")

    def fit(self) -> list[str]:
        """Its workers with this kern: others are sent nothing, unless there are no such."""
        kerns = self._client.run(version, on_error="ignore")
        return [one for one, kern in kerns.items() if kern == __version__]

    def count(self, jobs: int) -> int:
        """As many as were asked for, or as its workers take at once; a task waits for a worker."""
        return jobs or sum(self._client.nthreads(self.fit() or None).values()) or 1

    def carry_out(self, job: Job) -> Work:
        """Dask's faults, of whatever kind, are the worker's."""
        remote, below, begun = self.remote, self.below, job.kept or job.base
        own = {"kern": __version__, "remote": remote, "below": below}
        request = {**own, "job": asdict(job)}
        try:
            with self._one:  # of two that make the same ref one fails
                _remote(self.repo, *_PUSH, remote, f"{begun}:{below}/{begun}")
            return self._take(job, json.loads(self.submit(plain.data(request))))
        except KernError as exc:
            return Work(job, 1, fault=str(exc), hint=exc.hint)
        except (Exception, asyncio.CancelledError) as exc:
            why = plain.line(f"{type(exc).__name__}: {exc}".rstrip(": "), 200)
            hint = f"is the scheduler {self.where} there?" * (self._client.status != "running")
            return Work(job, 1, fault=f"no worker of the cluster has answered: {why}", hint=hint)

    def submit(self, text: str) -> str:
        """The answer, however long it takes. Dask begins it anew if its worker is gone."""
        fit = self.fit()
        future = self._client.submit(carry_out, text, pure=False, workers=fit or None)
        while True:
            with contextlib.suppress(TimeoutError):
                return str(future.result(_LOOK_S))
            if fit and not self._client.nthreads().keys() & {*fit}:
                return self.submit(text)  # to those that have come in their place

    def _take(self, job: Job, answer: dict[str, Any]) -> Work:
        """With what came along in its place: commits under their names, the journal's lines."""
        branch, attempts = f"refs/heads/{job.branch}", f"{refs.ATTEMPTS}/{refs.slug(job.key)}/"
        own = re.compile(rf"{re.escape(branch)}|{re.escape(attempts)}[\w+-]+")
        there = [ref for ref in answer.get("refs") or () if own.fullmatch(ref)]
        new = [ref for ref in there if ref == branch or not self.repo.store.id(ref)]
        if new:
            sources = (f"+{self.below}/{ref}:{ref}" for ref in new)
            _remote(self.repo, *_FETCH, self.remote, *sources)
        for record in answer.get("journal") or ():
            line = journal.line(record)
            if len(line) <= _LINE and _is_of(job, record):
                with contextlib.suppress(OSError):  # as the run's own lines say
                    journal.append(journal.place(self.repo.common_dir), line)
        tip = self.repo.store.id(branch) if branch in there else ""
        # Whatever else a worker pushes is kept as what does not land.
        commit = tip if tip and history.commit(self.repo, tip).parents[:1] == (job.base,) else ""
        texts = {one: str(answer.get(one) or "") for one in ("spec", "learnings", "fault", "hint")}
        return Work(job, int(answer["code"]), commit, answer.get("under_way") is True, **texts)

    def stop(self, run: str, *, now: bool) -> None:
        """The kerns there are asked what those here are."""
        with contextlib.suppress(Exception):  # who does not answer has ended it
            self._client.run(worktree.stop, run, now=now, on_error="ignore")
        if now:
            self.close()

    def close(self) -> None:
        """What is on the remote for this tree goes, of killed runs, too."""
        gone = f"refs/kern/none/*:{self.below}/*"  # none here: git removes them there
        self.repo.run(*_PUSH, "--prune", self.remote, gone, env=_ALONE)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
