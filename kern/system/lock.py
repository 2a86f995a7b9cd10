"""Who works here: one kern per working tree, one per project and branch."""

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kern.errors import Held
from kern.system import process, waits, workspace
from kern.system.workspace import Scope

TREE = "kern.lock"  # in the git directory
HOLDER = "kern.holder"
HOST = socket.gethostname()
_PID = r"[0-9]{1,9}"  # a number that the kernel takes


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a working tree, as it wrote it down in the git directory."""

    pid: int
    host: str = ""
    run: str = ""  # id; empty where it carries out no tasks
    branch: str = ""

    def lives(self, git_dir: Path) -> bool:
        """Of another host that cannot be told and is assumed."""
        return self.host != HOST or process.holds(self.pid, git_dir / TREE)


def holder(git_dir: Path) -> Holder | None:
    """It may be long gone."""
    lines = os.fsdecode(workspace.read(git_dir / HOLDER) or b"").split("\n")
    return Holder(int(lines[0]), *lines[1:4]) if re.fullmatch(_PID, lines[0]) else None


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time, which the others wait for; the kernel drops it with its holder."""
    from filelock import FileLock

    with workspace.reported(path), FileLock(path, mode=0o600):
        yield


@contextlib.contextmanager
def hold(where: Scope, git_dir: Path, run: str = "") -> Iterator[None]:
    """Hold the working tree and the scope, or say who does.

    The FileLock in the git directory guards the tree itself, whatever branch or KERN_DIR; the
    kernel drops it with its holder. The SoftFileLock stands at the documented path, its holder's
    PID inside; a killed holder's marker is taken over.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    with contextlib.ExitStack() as stack:
        with workspace.reported(git_dir / TREE):
            try:
                stack.enter_context(FileLock(git_dir / TREE, timeout=0, mode=0o600))
            except Timeout:
                raise _busy(git_dir) from None
        stack.callback((git_dir / HOLDER).unlink, missing_ok=True)
        text = "\n".join((str(os.getpid()), HOST, run, where.branch, ""))
        workspace.replace(git_dir / HOLDER, os.fsencode(text))
        workspace.own_folder(where.lock)
        marker = SoftFileLock(where.lock / "pid", waits.scaled(1), mode=0o600)
        with workspace.reported(where.lock):
            try:
                marker.acquire()
            except Timeout:
                raise _marked(where) from None
        stack.callback(_release, where, marker.release)
        yield


def _release(where: Scope, marker: Callable[[], None]) -> None:
    marker()
    with contextlib.suppress(OSError):
        where.lock.rmdir()


def _busy(git_dir: Path) -> Held:
    who, stop = "its pid is not known", ""
    for _ in range(40):  # the lock is held a moment before its holder is written down
        other = holder(git_dir)
        if other and other.lives(git_dir):
            who, stop = f"pid {other.pid}", f", `kill {other.pid}`"
            break
        time.sleep(0.05)
    return Held(
        f"another kern is at work in this working tree ({who})",
        hint=f"wait for it, end it (kern stop{stop}), or use a git worktree",
    )


def _marked(where: Scope) -> Held:
    path = where.lock / "pid"
    who = " on ".join((workspace.read(path) or b"").decode("utf-8", "replace").split()[:2])
    return Held(
        f"another kern holds {where.project}, branch {where.branch} (pid {who or 'unknown'})",
        hint=f"wait for it; if no kern runs there: rm {path}",
    )
