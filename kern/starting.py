"""Starts a child, its output in files: with its input, or before there is any.

A child that waits for its input takes that time to get ready. It learns of the end of kern by the
end of its input, and as what it is told goes to it in one piece, it has heard all of it by then or
nothing.
"""

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kern.errors import KernError, UsageError

_STDERR_TAIL = 8192
_PAGE = 4096  # of a pipe, which the opening may have begun


@dataclass(frozen=True, slots=True)
class Started:
    """A child, and the open files that it prints to."""

    child: "subprocess.Popen[bytes]"
    spool: int
    complaints: IO[bytes]

    def printed(self) -> int:
        """Bytes, on standard output and error together."""
        return os.fstat(self.spool).st_size + os.fstat(self.complaints.fileno()).st_size

    def cut(self, limit: int) -> None:
        os.ftruncate(self.spool, min(os.fstat(self.spool).st_size, limit))

    def complaint(self) -> str:
        """The end of what stands on its standard error."""
        self.complaints.seek(max(0, self.complaints.seek(0, os.SEEK_END) - _STDERR_TAIL))
        return self.complaints.read(_STDERR_TAIL).decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self.spool)
        self.complaints.close()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A child whose input is still to come."""

    started: Started
    pipe: int
    place: Path  # of its output, until it is told whose that is

    def alive(self) -> bool:
        return self.started.child.poll() is None

    def give(self, stdin: str, stdout: Path) -> bool:
        """Its input, all at once, and its output's place. False where that cannot be: it has ended,
        or there is more than the pipe holds, of which it might hear a part alone.
        """
        data = stdin.encode("utf-8", "surrogateescape")
        room = fcntl.fcntl(self.pipe, fcntl.F_GETPIPE_SZ) - _PAGE
        if len(data) > room or not self.alive():
            return False
        try:
            os.replace(self.place, stdout)
            os.write(self.pipe, data)
        except OSError:
            return False
        os.close(self.pipe)
        return True

    def close(self) -> None:
        """Once it has ended, and was given nothing."""
        os.close(self.pipe)
        self.started.close()
        self.place.unlink(missing_ok=True)


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str,
    stdout: Path,
    joined: bool = False,
) -> Started:
    with _temporary(stdin.encode("utf-8", "surrogateescape")) as given:
        return _started(argv, cwd, env, given, stdout, joined=joined)


def early(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], opening: bytes, place: Path
) -> Waiting | None:
    """A child that is given `opening` and waits for more; None where a pipe's size is not known."""
    if not hasattr(fcntl, "F_GETPIPE_SZ"):  # not Linux
        return None
    ours, pipe = os.pipe()
    try:
        with open(ours, "rb") as given:
            started = _started(argv, cwd, env, given, place)
        os.write(pipe, opening)
    except BaseException:
        os.close(pipe)
        raise
    return Waiting(started, pipe, place)


def _started(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    given: IO[bytes],
    stdout: Path,
    *,
    joined: bool = False,
) -> Started:
    with contextlib.ExitStack() as opened:
        complaints = opened.enter_context(_temporary())
        spool = _spool(stdout)
        opened.callback(os.close, spool)
        errors = spool if joined else complaints.fileno()
        child = _spawn(argv, cwd, env, given, spool, errors)
        opened.pop_all()  # the files are the child's now: `Started.close`
    return Started(child, spool, complaints)


def _temporary(data: bytes = b"") -> IO[bytes]:
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115
        file.write(data)
        file.seek(0)
    except OSError as exc:
        raise KernError(
            f"cannot write a temporary file in {tempfile.gettempdir()}: {exc.strerror}",
            hint="free some space there, or set TMPDIR; then run kern again: it resumes",
        ) from exc
    return file


def _spool(path: Path) -> int:
    try:
        return os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
    except OSError as exc:
        raise KernError(
            f"cannot write {path}: {exc.strerror}",
            hint="make the folder writable, or set KERN_DIR to one that is",
        ) from exc


def _spawn(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: IO[bytes],
    stdout: int,
    stderr: int,
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise UsageError(
            f"{argv[0]} is not installed, or not on PATH", hint="kern doctor"
        ) from None
    except PermissionError:
        raise UsageError(f"{argv[0]} is not executable", hint=f"chmod +x {argv[0]}") from None
    except OSError as exc:
        raise UsageError(
            f"{argv[0]} cannot be started: {exc.strerror}", hint="kern doctor"
        ) from None
