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
import shutil
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import distributed

from kern import __version__, many, person, plain
from kern.errors import Exit, KernError, UsageError
from kern.fleet import worker, worktree
from kern.fleet.work import Carry, Job, Work
from kern.fleet.worktree import Yard
from kern.git import history, refs
from kern.git.repository import Repo
from kern.journal import store as journal
from kern.model import LEARNINGS, SPEC, Key
from kern.system import lock, process, waits, workspace

BASES = "refs/heads/kern/base"  # on the remote: what tasks are begun on, and the work to be mended
_FROM = "refs/kern/from"  # in a worker's store: the remote's branches
_LOOK_S = 0.5
_ALONE = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
_PUSH = ("push", "--quiet", "--no-verify")
_LINE = re.compile(rb"[^\n]{1,1000000}\n?")  # of a journal
_DASK: Any = distributed  # it has no types


def _remote(repo: Repo, *argv: str) -> None:
    """Raises KernError where it does not answer as it should."""
    said = ""
    for pause in (0.0, 0.5, 2.0):  # what others push and delete meanwhile can break one off
        waits.sleep(pause)
        code, _, said = repo.run("-c", "fetch.recurseSubmodules=false", *argv, env=_ALONE)
        if not code:
            return
    raise KernError(
        f"git {argv[0]} failed: {plain.line(plain.last(said), 200)}",
        hint="see that caller and workers reach the remote: remote in your settings",
    )


# ---------------------------------------------------------------- on the worker

_AT_WORK: dict[str, list[Yard]] = {}  # here, by the run that sent the tasks


def stop(run: str, *, now: bool) -> None:
    """Called on each worker: asks the kerns of that run to stop, or ends them."""
    for yard in _AT_WORK.get(run, ()):
        yard.end() if now else yard.stop()


def carry_out(given: str) -> str:
    """A job and its remote as JSON; what came of it, likewise."""
    asked = json.loads(given)
    try:
        if asked["kern"] != __version__:
            raise KernError(
                f"a worker has kern {__version__}, the caller has {asked['kern']}",
                hint="install the same kern on all machines",
            )
        job = Job(**asked["job"] | {"key": Key(*asked["job"]["key"])})
        return plain.data(_carried(job, str(asked["remote"])))
    except (KernError, OSError) as exc:
        hint = getattr(exc, "hint", "")
        fault = {"fault": str(exc), "hint": hint, "code": Exit.USAGE.value}
        return plain.data(fault)


def _carried(job: Job, remote: str) -> dict[str, Any]:
    moved, cache = os.environ.get("KERN_DIR"), os.environ.get("XDG_CACHE_HOME", "~/.cache")
    base = Path(moved or f"{cache}/kern").expanduser().absolute()
    folder = base / "fleet" / hashlib.sha256(remote.encode()).hexdigest()[:16]
    workspace.own_folder(folder, parents=True)
    store = Repo(folder / "store.git", folder / "store.git", folder / "store.git")
    with lock.alone(folder / "store.lock"):
        if not (store.root / "HEAD").exists():
            shutil.rmtree(store.root, ignore_errors=True)
            above = Repo(folder, folder, folder)
            _remote(above, "clone", "--quiet", "--bare", "--", remote, str(store.root))
            store.git("config", "gc.auto", "0")  # a finished task's commits may have no name
        _remote(store, *_FETCH, "--prune", remote, f"+refs/heads/*:{_FROM}/*")
    commit = store.store.id(f"{_FROM}/{job.branch}")
    if commit and history.commit(store, commit).parents == (job.base,):
        texts = ((name, store.content(commit, name)) for name in (SPEC, LEARNINGS))
        papers = tuple((name, plain.decode(text)) for name, text in texts if text is not None)
        work = Work(job, 0, commit, papers=papers)  # its answer was lost on the way
    else:
        with lock.alone(folder / f"{job.worker}.lock"):
            work = _in_worktree(Yard(store, folder, "task"), job)
    below = f"{refs.ATTEMPTS}/{refs.slug(job.key)}"
    kept = store.text("for-each-ref", "--format=%(refname)", below).split()
    pushed = [f"+{work.commit}:refs/heads/{job.branch}"] if work.commit else []
    if pushed := pushed + [f"+{ref}:{ref}" for ref in kept]:
        _remote(store, *_PUSH, remote, *pushed)
    having = json.dumps(job.branch).encode()
    mine = journal.load(journal.place(store.common_dir), having=having)
    told = (one for one in mine if one["branch"] == job.branch and one.get("fleet") == job.run)
    lines = [plain.decode(journal.line({**one, "worker": job.worker})) for one in told]
    answer = {name: value for name, value in asdict(work).items() if name not in ("job", "proved")}
    return answer | {"kept": kept, "journal": lines}


def _in_worktree(yard: Yard, job: Job) -> Work:
    """Gone on with, where a kern that was killed has begun it there."""
    process.sweep(("KERN_ROOT", str(yard.place(job.worker))))
    made = worktree.of(yard, job.worker)
    head = made.plain_head() if made else None
    if made and head and head.branch == job.branch:
        for left in made.git_dir.glob("*.lock"):
            left.unlink(missing_ok=True)
        tip = head.commit, *history.commit(made, head.commit).parents
        begun = worker.read(made, job)
        job = replace(job, again=begun.under_way and job.base in tip)
        if begun.commit and job.base in tip:
            return begun
    _AT_WORK.setdefault(job.run, []).append(yard)
    return worker.carry_out(yard, job)


# ---------------------------------------------------------------- on the caller's side


@dataclass
class Cluster:
    """Carries jobs to workers and what came of them back, called by a thread for each."""

    where: str  # host:port, an address with its protocol, or the path of a scheduler file
    patience: float = 10.0  # seconds, for the scheduler's first answer
    remote: str = ""
    repo: Repo = field(init=False)
    _run: str = ""  # whose tasks these are
    _client: Any = None
    _sent: set[str] = field(default_factory=set)  # refs on the remote
    _asked: set[bool] = field(default_factory=set)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def hire(self, yard: Yard, jobs: str, tasks: int) -> tuple[int, Carry]:
        """As `run.here` does on this machine. Raises UsageError where nobody is there."""
        slots = sum(self._client.nthreads().values())  # tasks that its workers take at once
        if not slots:
            raise UsageError(
                f"the scheduler at {self.where} has no workers", hint=f"dask worker {self.where}"
            )
        self.repo, self.remote, yard.afar = yard.repo, self.remote, self.stop
        if not self.remote:
            raise UsageError(
                "a cluster needs a git remote that this machine and its workers share",
                hint=f'name it in {person.FILE}: remote = "ssh://host/path.git" (a bare '
                "repository is enough)",
            )
        return min(slots if jobs == many.AUTO else int(jobs), tasks), self.carry

    def carry(self, job: Job) -> Work:
        """Raises KernError where the cluster is lost."""
        self._run = job.run
        with self._one:
            wanted = [one for one in (job.base, job.kept) if one]
            self._sent.update(f"{BASES}/{one}" for one in wanted)
            specs = (f"+{one}:{BASES}/{one}" for one in wanted)
            _remote(self.repo, *_PUSH, self.remote, *specs)
        asked = {"kern": __version__, "remote": self.remote, "job": asdict(job)}
        try:
            given = json.loads(self._answer(self.submit(plain.data(asked))))
        except (Exception, asyncio.CancelledError) as exc:  # of whatever kind dask knows
            if self._client and self._client.status != "running":
                raise KernError(
                    f"the scheduler at {self.where} is lost",
                    hint="start it, then run kern again: what was finished lands then",
                ) from None
            lost = plain.line(f"{type(exc).__name__}: {exc}".rstrip(": "), 200)
            fault = f"no worker of the cluster has answered: {lost}"
            return Work(job, 1, fault=fault)
        return self._take(job, given)

    def submit(self, text: str) -> Any:
        """Its future. It runs as long as it takes; dask begins it anew if its worker is gone."""
        return self._client.submit(carry_out, text, pure=False)

    def _answer(self, future: Any) -> str:
        while not future.done():
            if True in self._asked:
                raise TimeoutError("the run was ended")
            with contextlib.suppress(TimeoutError):
                return str(future.result(_LOOK_S))
        return str(future.result())

    def _take(self, job: Job, given: dict[str, Any]) -> Work:
        """With what came along in its place: commits under their names, the journal's lines."""
        branch, below = f"refs/heads/{job.branch}", f"{refs.ATTEMPTS}/{refs.slug(job.key)}/"
        done = [branch] if given.get("commit") else []
        there = [str(ref) for ref in given.get("kept") or () if str(ref).startswith(below)]
        new = [ref for ref in there if not self.repo.store.id(ref)]
        with self._one:
            if done or new:
                specs = (f"+{ref}:{ref}" for ref in (*done, *new))
                _remote(self.repo, *_FETCH, self.remote, *specs)
            self._take_away(*done, *there)  # a later attempt would find it there
        lines = (plain.encode(str(line)) for line in given.get("journal") or ())
        for line in filter(_LINE.fullmatch, lines):
            with contextlib.suppress(OSError):  # as the run's own lines say
                journal.append(journal.place(self.repo.common_dir), line)
        papers = tuple((str(name), str(text)) for name, text in given.get("papers") or ())
        return Work(
            *(job, int(given["code"]), self.repo.text("rev-parse", branch) if done else ""),
            under_way=given.get("under_way") is True,
            papers=papers,
            fault=str(given.get("fault") or ""),
            hint=str(given.get("hint") or ""),
        )

    def _take_away(self, *names: str) -> None:
        if names:
            self.repo.run(*_PUSH, self.remote, "--delete", *names, env=_ALONE)

    def stop(self, now: bool) -> None:
        """The kerns there are asked what those here are."""
        if now not in self._asked:
            self._asked.add(now)
            with contextlib.suppress(Exception):  # who does not answer has ended it
                self._client.run(stop, self._run, now=now, on_error="ignore")

    def close(self) -> None:
        """What this run has put on the remote goes."""
        self._take_away(*sorted(self._sent))
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)

    def connect(self) -> None:
        """Raises UsageError with what to type next."""
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # kern says what is lost
        where = address = self.where
        is_file = "://" not in where and ("/" in where or ":" not in where)
        if is_file and not Path(where).is_file():  # dask would wait for it
            raise UsageError(
                f"there is no scheduler file {where}",
                hint=f"dask scheduler --scheduler-file {where}, or name its address: host:8786",
            )
        try:
            if is_file:
                address = json.loads(Path(where).read_text("utf-8"))["address"]
            asyncio.run(_greet(address, self.patience))  # a client that fails complains as it goes
            how = {"timeout": self.patience, "set_as_default": False}
            self._client = _DASK.Client(address, **how)
        except Exception as exc:  # dask knows many ways to fail
            reason = plain.line(str(exc) or type(exc).__name__, 160)
            raise UsageError(
                f"no dask scheduler answers at {where}: {reason}",
                hint="start one (dask scheduler), or correct --scheduler; "
                "one with TLS is named tls://HOST:PORT",
            ) from None


async def _greet(address: str, patience: float) -> None:
    """Raises what dask does where nobody, or something else, answers."""
    how = _DASK.Security().get_connection_args("client")
    comm = await _DASK.core.connect(address, timeout=patience, **how)
    await comm.close()
