"""Who works here: one kern per working tree, and so one per project and branch."""

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kern.errors import KernError
from kern.system import process, workspace

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
def hold(
    git_dir: Path, run: str = "", branch: str = "", shown: Path | None = None
) -> Iterator[None]:
    """Hold the working tree, whatever its branch or KERN_DIR, or say who does: beside the lock its
    holder is written down, and the pid in the folder that is to be `shown`.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone(git_dir / TREE, 0))
        except TimeoutError:
            raise _busy(git_dir) from None
        lines = (str(os.getpid()), HOST, run, branch, "")
        workspace.replace(git_dir / HOLDER, os.fsencode("\n".join(lines)))
        stack.callback((git_dir / HOLDER).unlink, missing_ok=True)
        if shown:
            workspace.own_folder(shown)
            stack.callback(workspace.remove, shown)
            workspace.replace(shown / "pid", f"{os.getpid()}\n{HOST}\n".encode())
        yield


def _busy(git_dir: Path) -> KernError:
    who, stop = "its pid is not known", ""
    if (other := holder(git_dir)) and other.lives(git_dir):  # else it begins at this moment
        who, stop = f"pid {other.pid}", f", `kill {other.pid}`"
    return KernError(
        f"another kern is at work in this working tree ({who})",
        hint=f"wait for it, end it (kern stop{stop}), or use a git worktree",
    )
