"""Why a git command failed, and what to type next: a lock that another git holds, above all."""

import os
import re
import time
from collections.abc import Sequence

from kern import plain
from kern.errors import KernError


class GitFailed(KernError):
    def __init__(self, argv: Sequence[str], code: int, stderr: str) -> None:
        lines = [line for line in stderr.splitlines() if line.strip()]
        said = lines[-1] if lines else f"exit code {code}"
        if locked := met(stderr):
            said = f"another git holds {os.path.basename(locked)}"
        elif "Out of diskspace" in stderr:  # as git says it of an index
            said = f"no space left: {said}"
        super().__init__(f"git {' '.join(argv[:2])} failed: {said}", hint=advice(stderr))
        self.code = code
        self.stderr = stderr


def advice(stderr: str) -> str:
    if told := held(stderr):
        return told
    if "No space left" in stderr or "Out of diskspace" in stderr:  # so git says it of an index
        return "free some space, then run kern again: it resumes"
    return "fix it, then run kern again: it resumes"


def of_the_disk(stderr: str) -> bool:
    """Whether it is full, broken or read-only: nothing that an agent left is at fault."""
    told = "No space left|Out of diskspace|Disk quota|Input/output error|Read-only file system"
    return re.search(told, stderr) is not None


def no_commit(told: str) -> KernError:
    """git made none, for what it told."""
    return KernError(
        f"git commit failed: {plain.line(told, 400)}",
        hint=held(told)
        or "fix it (identity, signing key, disk), then run kern again: it resumes here; with "
        "--no-sign its commits are not signed",
    )


def met(stderr: str) -> str:
    """The lock file of another git that a command ran into before it changed anything, else empty.
    A ref that is not at its expected value is no lock.
    """
    found = re.search(r"Unable to create '(.+\.lock)': File exists", stderr)
    return found[1] if found else ""


def held(stderr: str) -> str:
    """How old the lock is that was met, and what to type; empty where it is gone."""
    path = met(stderr)
    try:
        age = int(time.time() - os.stat(path).st_mtime)
    except OSError:
        return ""
    return f"{path} is {age} s old; if no git runs here any more: rm '{path}'"
