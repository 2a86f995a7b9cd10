"""Who works here: one kern per working tree, and so one per project and branch."""

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Iterator
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
def alone(path: Path, wait: float = -1) -> Iterator[None]:
    """One process at a time, which the others wait for, `wait` seconds at most; the kernel drops it
    with its holder. Raises TimeoutError.
    """
    from filelock import FileLock

    with workspace.reported(path), FileLock(path, wait, mode=0o600):
        yield


@contextlib.contextmanager
def hold(where: Scope, git_dir: Path, run: str = "") -> Iterator[None]:
    """Hold the working tree, whatever its branch or KERN_DIR, or say who does. Beside the lock its
    holder is written down, and his pid at the documented place.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone(git_dir / TREE, 0))
        except TimeoutError:
            raise _busy(git_dir) from None
        workspace.own_folder(where.lock)
        stack.callback(shutil.rmtree, where.lock, ignore_errors=True)
        for path, names in (
            (git_dir / HOLDER, (str(os.getpid()), HOST, run, where.branch)),
            (where.lock / "pid", (str(os.getpid()), HOST)),
        ):
            workspace.replace(path, os.fsencode("\n".join((*names, ""))))
            stack.callback(path.unlink, missing_ok=True)
        yield


def _busy(git_dir: Path) -> Held:
    who, stop = "its pid is not known", ""
    for _ in range(40):  # the lock is held a moment before its holder is written down
        other = holder(git_dir)
        if other and other.lives(git_dir):
            who, stop = f"pid {other.pid}", f", `kill {other.pid}`"
            break
        waits.sleep(0.05)
    return Held(
        f"another kern is at work in this working tree ({who})",
        hint=f"wait for it, end it (kern stop{stop}), or use a git worktree",
    )
