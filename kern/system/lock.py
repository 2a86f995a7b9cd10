"""Who works here: one kern per working tree, one per project and branch."""

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil

from kern.errors import Held, KernError
from kern.frozen import frozen
from kern.system import waits, workspace
from kern.system.workspace import Scope

TREE = "kern.lock"  # in the git directory
HOLDER = "kern.holder"
HOST = socket.gethostname()
_PID = r"[0-9]{1,9}"  # a number that the kernel takes


@frozen
class Holder:
    """Who holds a working tree, as it wrote it down in the git directory."""

    pid: int
    host: str = ""
    run: str = ""  # id; empty where it carries out no tasks
    branch: str = ""


@contextlib.contextmanager
def hold(where: Scope, git_dir: Path, run: str = "") -> Iterator[None]:
    """Hold the working tree and the scope, or say who does.

    The FileLock in the git directory guards the tree itself, whatever branch or KERN_DIR; the
    kernel drops it with its holder. The SoftFileLock stands at the documented path, its holder's
    PID inside; a killed holder's marker is taken over.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    tree = FileLock(git_dir / TREE, mode=0o600)
    with workspace.reported(git_dir / TREE):
        try:
            tree.acquire(timeout=0)
        except Timeout:
            raise _held(git_dir) from None
    try:
        said = "\n".join((str(os.getpid()), HOST, run, where.branch, ""))
        workspace.replace(git_dir / HOLDER, os.fsencode(said))
        workspace.own_folder(where.lock)
        marker = SoftFileLock(where.lock / "pid", mode=0o600)
        with workspace.reported(where.lock):
            try:
                marker.acquire(timeout=waits.scaled(1), poll_interval=0.05)
            except Timeout:
                raise _unjudged(where) from None
        try:
            yield
        finally:
            marker.release()
            with contextlib.suppress(OSError):
                where.lock.rmdir()
    finally:
        with contextlib.suppress(OSError):
            (git_dir / HOLDER).unlink()
        tree.release()


def noted(git_dir: Path) -> Holder | None:
    """Who wrote down that it holds the working tree; it may be long gone."""
    said = os.fsdecode(workspace.read(git_dir / HOLDER) or b"").split("\n")
    return Holder(int(said[0]), *said[1:4]) if re.fullmatch(_PID, said[0]) else None


def holder(where: Scope) -> tuple[int, str] | None:
    """PID and host as the marker has them."""
    raw = workspace.read(where.lock / "pid")
    lines = (raw or b"").decode("utf-8", "replace").split()
    if len(lines) >= 2 and re.fullmatch(_PID, lines[0]):
        return int(lines[0]), lines[1]
    return None


def alive(pid: int, host: str) -> bool:
    """Whether the holder lives; of another host that cannot be told and is assumed."""
    return host != HOST or psutil.pid_exists(pid)


def _held(git_dir: Path) -> Held:
    pid = _holder_of(git_dir)
    who = f"pid {pid}" if pid else "its pid is not known"
    stop = f", `kill {pid}`" if pid else ""
    return Held(
        f"another kern is at work in this working tree ({who})",
        hint=f"wait for it, end it (kern stop{stop}), or use a git worktree",
    )


def _holder_of(git_dir: Path) -> int:
    """The live holder's pid; 0 where it has not told it yet."""
    for _ in range(20):
        if (found := noted(git_dir)) and psutil.pid_exists(found.pid):
            return found.pid
        waits.sleep(0.05)
    return 0


def _unjudged(where: Scope) -> KernError:
    found = holder(where)
    path = where.lock / "pid"
    if found is None:
        return KernError(
            f"the lock {path} is empty or damaged: it cannot be told whether its kern is alive",
            hint=f"if no kern runs on {where.project}, branch {where.branch}: rm {path}",
        )
    pid, host = found
    where_to = "" if host == HOST else f" on {host}"
    return Held(
        f"another kern holds {where.project}, branch {where.branch} (pid {pid}{where_to})",
        hint=f"wait for it; if it is gone: rm {path}",
    )
