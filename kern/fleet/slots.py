"""A worker's disk: for each repository that sends tasks a bare store of its commits, and worktrees
of that in which one task at a time is carried out. What a killed worker left in one is found by its
branch and base, and goes on there.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kern import plain
from kern.errors import KernError
from kern.fleet import worktrees
from kern.fleet.work import Job
from kern.fleet.worktrees import Yard
from kern.frozen import frozen
from kern.git import bundles
from kern.git.repository import Repo
from kern.system import process, workspace

BASE = "refs/kern/base"  # below it for each worktree: the commit that its task was begun on
_TIPS = "refs/kern/tips"  # in a store: what came in bundles
_REMOTE = "refs/kern/remote"
_MOST_TIPS = 50
_MOST = 1000  # worktrees
_LARGEST = 4 << 20  # bytes of a run file that travels
_RECORD = re.compile(r"\w[\w.+-]*/\w[\w.+-]*")
SLOT = "KERN_SLOT"  # names the worktree to the kern in it


@frozen
class Slot:
    number: int  # of the worktree; 1 and up
    begun: bool = False  # the task was begun there before, on the same commit


def identity(repo: Repo) -> str:
    """Of a caller's repository, so that two of them never share a store; it tells no path."""
    said = f"{socket.gethostname()}\0{repo.common_dir}"
    slug = re.sub(r"[^\w.-]", "_", repo.root.name)[:40]
    return f"{slug}-{hashlib.sha256(os.fsencode(said)).hexdigest()[:12]}"


def place(name: str) -> Path:
    """Where this machine keeps what belongs to the repository of that identity."""
    moved = os.environ.get("KERN_DIR")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kern"
    base = Path(moved).expanduser().absolute() if moved else cache
    folder = base / "fleet" / plain.line(name, 80).replace("/", "_").lstrip(".")
    with workspace.reported(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    workspace.own_folder(folder)
    return folder


# -------------------------------------------------------------------- the store


def stocked(folder: Path, needed: Sequence[str], bundle: bytes, remote: str) -> tuple[Repo, str]:
    """The store, with the commits if they can be had; and what went wrong on the way to them. A
    store that is empty asks the remote first, by this machine's own login.
    """
    place, said = folder / "store.git", ""
    store = Repo(place, place, place)
    with _locked(folder / "store.lock"):
        if not (place / "ready").exists():
            shutil.rmtree(place, ignore_errors=True)
            sha256 = ("--object-format=sha256",) if len(needed[0]) == 64 else ()
            workspace.own_folder(place)
            store.git("init", "--quiet", "--bare", *sha256)
            # A finished task's commits may have no name any more.
            store.git("config", "gc.auto", "0")
            (place / "ready").touch()
        if remote and not tips(store):
            said = _fetched(store, remote)
        if bundle and not bundles.has(store, needed):
            names, _ = bundles.head(bundle)
            bundles.unpack(store, bundle, {name: f"{_TIPS}/{names[name]}" for name in names})
    return store, said


def tips(store: Repo) -> tuple[str, ...]:
    """The newest commits that a store has by name; thin bundles build on them."""
    order = ("--sort=-creatordate", f"--count={_MOST_TIPS}", "--format=%(objectname)")
    return tuple(dict.fromkeys(store.text("for-each-ref", *order).split()))


def _fetched(store: Repo, remote: str) -> str:
    """What went wrong; what nobody can be asked for is not waited for."""
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
    specs = f"+refs/heads/*:{_REMOTE}/*"
    alone = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
    code, _, said = store.run("fetch", *quiet, "--", remote, specs, env=alone)
    return plain.line(plain.last(said), 200) if code else ""


# -------------------------------------------------------------------- worktrees


@contextlib.contextmanager
def hold(here: Yard, job: Job) -> Iterator[Slot]:
    """The number of a worktree that nobody else uses meanwhile: the one in which the task was
    begun, which is waited for, or a free one. What a killed worker still runs there is ended.
    """
    with contextlib.ExitStack() as held:
        number = _taken(here, job, held)
        process.sweep((SLOT, str(here.place(number))))
        made = worktrees.of(here, number)
        for left in made.git_dir.glob("*.lock") if made else ():  # of a git that was killed
            left.unlink(missing_ok=True)
        base = here.repo.run("rev-parse", "--quiet", "--verify", f"{BASE}/{number}")[1]
        if _on(here, number, job) and base.decode().strip() == job.base:
            yield Slot(number, begun=True)
            return
        if start := worktrees.begun(here.repo).get(job.branch):
            here.repo.run("update-ref", "-d", start)
        here.repo.git("update-ref", f"{BASE}/{number}", job.base)
        yield Slot(number)


def _taken(here: Yard, job: Job, held: contextlib.ExitStack) -> int:
    for number in worktrees.numbers(here):
        if _on(here, number, job):
            held.enter_context(_locked(here.folder / f"{number}.lock"))
            return number
    for number in range(1, _MOST):
        with contextlib.suppress(BlockingIOError):
            held.enter_context(_locked(here.folder / f"{number}.lock", wait=False))
            return number
    raise KernError(f"{here.folder} has no free place", hint=f"rm -r {here.folder}")


def _on(here: Yard, number: int, job: Job) -> bool:
    made = worktrees.of(here, number)
    head = made.plain_head() if made else None
    return head is not None and head.branch == job.branch


# -------------------------------------------------------------------- run files


def records(root: Path, branch: str) -> tuple[tuple[str, bytes], ...]:
    """The run files of the task that ended last in a worktree, by their paths below `history`."""
    history = workspace.scope(root, branch, create=False).folder / "history"
    try:
        last = max(history.iterdir(), key=lambda one: one.name)
        there = (file for file in sorted(last.iterdir()) if file.is_file())
        small = (file for file in there if file.stat().st_size <= _LARGEST)
        return tuple((f"{last.name}/{file.name}", file.read_bytes()) for file in small)
    except (OSError, ValueError):  # none has ended
        return ()


def lay(history: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """What another machine sent, where this one keeps its own; nothing that is there is touched."""
    for name, data in files:
        if _RECORD.fullmatch(name) and not (history / name).exists():
            with workspace.reported(history):
                (history / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            workspace.replace(history / name, data)


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """The kernel drops it with its holder. Raises BlockingIOError where it is not waited for."""
    with workspace.reported(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
