"""Runs one child to its end and leaves nothing of it behind: own session, output on disk, a sweep.

Knows nothing of agents.
"""

import contextlib
import functools
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from kern import plain
from kern.errors import KernError, UsageError
from kern.frozen import frozen
from kern.system import descendants, waits
from kern.system.descendants import adopt_orphans as adopt_orphans
from kern.system.descendants import marked as marked
from kern.system.descendants import sweep as sweep

OUTPUT_LIMIT = 100_000_000  # bytes, standard output and error together
GRACE_S = (1.0, 1.0)  # after SIGINT, after SIGTERM, where a person waits
PATIENCE_S = (5.0, 2.0)  # the same after a time-out: it may still say what it has
_TICK_S = 0.05
_STDERR_TAIL = 8192  # bytes
SILENT = "no sign of life"
RAN: Counter[str] = Counter()  # by this kern: after each of them the world may be another
Tick = Callable[[float, float], None]  # seconds at work, seconds without a sign of life


def unwatched(seconds: float, silent: float) -> None:
    """For a child that nobody looks at."""


@frozen
class Ran:
    code: int  # negative: the signal that ended it
    seconds: float
    stderr: str  # the end of it
    overflow: int  # bytes at which it was ended for printing too much, else 0
    timed_out: str = ""  # what of its time was over, in words


@frozen
class _Started:
    """A child, and the open files that it prints to."""

    child: "subprocess.Popen[bytes]"
    spool: int
    complaints: IO[bytes]
    status: IO[bytes]

    def began(self) -> bool:
        """Whether what holds the child has said so."""
        self.status.seek(0)
        return b"child-pid" in self.status.read(_STDERR_TAIL)

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
        self.status.close()


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str,
    stdout: Path,
    mark: tuple[str, str],
    tick: Tick = unwatched,
    limit: int = OUTPUT_LIMIT,
    total: float = 0,
    idle: float = 0,
    joined: bool = False,
    patience: tuple[float, float] = PATIENCE_S,
    status: str = "",
    ending: Sequence[str] = (),
) -> Ran:
    """Run `argv`, its output spooled to the file `stdout`. `mark` is an environment variable that
    all its descendants inherit: what carries it is ended when the child has ended, however it did.
    `total` and `idle` (without output) are its time-outs in seconds, 0 for none, and `patience` is
    what it is given after one. `joined`: its complaints stand among its output. `status`: an option
    of `argv`'s program, which starts the real command: it takes a file descriptor, and what it
    writes there says that the command was started; raises KernError where it was not. `ending`: a
    command that ends what a killed child leaves behind elsewhere.
    """
    adopt_orphans()
    RAN[argv[0]] += 1
    began = time.monotonic()
    there = descendants.children()  # before it does anything: what it leaves is adopted at once
    given = {**env, mark[0]: mark[1]}
    with contextlib.closing(
        _start(argv, cwd, given, stdin, stdout, joined=joined, status=status)
    ) as started:
        child = started.child
        grace = GRACE_S
        try:
            timed_out = _attend(started, began, limit, total, idle, tick)
            # Looked at once more: it may have been faster.
            overflow = limit if started.printed() > limit else 0
            if timed_out:
                grace = patience
        finally:
            if child.poll() is None:
                descendants.interrupt_hooks(mark, there, child.pid)
                if ending:
                    capture(ending, GRACE_S[0] * 10)
            end(child, grace)
            sweep(mark, spare=there)
            RAN[argv[0]] += 1
        if overflow:
            started.cut(limit)
        tail = started.complaint()
        if status and child.returncode and not started.began():
            raise _never_began(tail or _end(stdout))
    return Ran(child.returncode, time.monotonic() - began, tail, overflow, timed_out)


def _attend(
    started: _Started, began: float, limit: int, total: float, idle: float, tick: Tick
) -> str:
    """Until the child has ended or must be; what of its time was over, in words."""
    child, printed, last_sign, timed_out = started.child, 0, began, ""
    with _waiter(child) as wait:
        while child.poll() is None and printed <= limit and not timed_out:
            wait()
            now = time.monotonic()
            size = started.printed()
            if size != printed:
                printed, last_sign = size, now
            tick(now - began, now - last_sign)
            if child.poll() is None:
                timed_out = _time_out(now - began, total, now - last_sign, idle)
    return timed_out


def _never_began(complaint: str) -> KernError:
    last = complaint.strip().splitlines()[-1:]
    return KernError(
        f"the sandbox could not start a command: {' '.join(last)}",
        hint="kern doctor says what works here; then run kern again: it resumes",
    )


def _start(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: str,
    stdout: Path,
    *,
    joined: bool,
    status: str,
) -> _Started:
    data = stdin.encode("utf-8", "surrogateescape")
    with _temporary(data) as given, contextlib.ExitStack() as opened:
        complaints, told = (opened.enter_context(_temporary()) for _ in range(2))
        if status:
            argv = [argv[0], status, str(told.fileno()), *argv[1:]]
        spool = _spool(stdout)
        opened.callback(os.close, spool)
        errors = spool if joined else complaints.fileno()
        with _startable(argv[0]):
            child = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=given,
                stdout=spool,
                stderr=errors,
                pass_fds=[told.fileno()] if status else [],
                start_new_session=True,
            )
        descendants.AWAITED.add(child)
        opened.pop_all()  # the files are the child's now: `_Started.close`
    return _Started(child, spool, complaints, told)


def _end(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_bytes()[-_STDERR_TAIL:].decode("utf-8", "replace")
    return ""


@contextlib.contextmanager
def _startable(program: str) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise UsageError(f"{program} is not executable", hint=f"chmod +x {program}") from None
    except OSError as exc:
        missing = isinstance(exc, FileNotFoundError)
        why = (
            "is not installed, or not on PATH" if missing else f"cannot be started: {exc.strerror}"
        )
        raise UsageError(f"{program} {why}", hint="kern doctor") from None


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


def _time_out(passed: float, total: float, silent: float, idle: float) -> str:
    if total and passed >= total:
        return f"not done after {plain.span(total)}"
    return f"{SILENT} for {plain.span(idle)}" if idle and silent >= idle else ""


@contextlib.contextmanager
def _waiter(child: "subprocess.Popen[bytes]") -> Iterator[Callable[[], None]]:
    """Waits a tick, or less when the child ends. `Popen.wait` with a time-out polls and wakes up
    late.
    """
    try:
        ended = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # not Linux, an old kernel, a sandbox
        yield lambda: waits.sleep(_TICK_S)
        return
    poll = select.poll()
    poll.register(ended, select.POLLIN)

    def wait() -> None:
        poll.poll(_TICK_S * 1000)

    try:
        yield wait
    finally:
        os.close(ended)


def end(child: "subprocess.Popen[bytes]", grace: tuple[float, float] = GRACE_S) -> None:
    """SIGINT, SIGTERM, then SIGKILL to the child's group, as far as each is needed."""
    for signum, seconds in zip((signal.SIGINT, signal.SIGTERM), grace, strict=True):
        if child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            descendants.signal_group(child.pid, signum)
            os.killpg(child.pid, signal.SIGCONT)  # it may stand still
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(waits.scaled(seconds))
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


# What a program says is to be read, whatever language a person has.
_PLAIN = {"LANGUAGE": "C", "LC_ALL": "C"}


def piped(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """A process in a session of its own, `env` over kern's environment. A thread may start it."""
    pipe = subprocess.PIPE
    return descendants.lasting(argv, cwd, {**os.environ, **_PLAIN, **env}, pipe, pipe, pipe)


def answering(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> "tuple[subprocess.Popen[bytes], socket.socket, IO[bytes]]":
    """A process that lasts, asked and heard through a socket that nobody else can open, and a file
    for its complaints: a pipe that nobody reads can fill. It sees the end of kern as the end of its
    input.
    """
    complaints = _temporary()
    ours, theirs = socket.socketpair()
    with theirs:
        given = {**os.environ, **_PLAIN, **env}
        child = descendants.lasting(argv, cwd, given, theirs.fileno(), theirs.fileno(), complaints)
    return child, ours, complaints


WORKER = "KERN_WORKER"  # 1 and up, where kern is one of many: ports and databases can differ by it
ONTO = "KERN_ONTO"  # the branch that its work lands on
FLEET = "KERN_FLEET"  # the id of the run that started it


def surroundings() -> dict[str, str]:
    """kern's environment without what is meant for kern alone."""
    given = os.environ.items()
    return {name: value for name, value in given if name == WORKER or not name.startswith("KERN_")}


@functools.cache
def _tree_last(path: str, root: Path) -> str:
    def inside(one: str) -> bool:
        places = Path(os.path.normpath(one)), Path(os.path.realpath(one))
        return not os.path.isabs(one) or any(place.is_relative_to(root) for place in places)

    return os.pathsep.join(sorted(path.split(os.pathsep), key=inside))


def tree_last(root: Path) -> dict[str, str]:
    """The PATH by which kern itself finds programs: those of the tree, where an agent may have
    left a `git`, come after all others.
    """
    return {"PATH": _tree_last(os.environ.get("PATH", os.defpath), root)}


def capture(argv: Sequence[str], seconds: float, cwd: str | None = None) -> tuple[int, str]:
    """Exit code and output of a short command; 127: not startable, 124: it hangs."""
    code, out, why = heard(argv, seconds, cwd, subprocess.STDOUT)
    return code, why or out.decode("utf-8", "replace")


def heard(
    argv: Sequence[str],
    seconds: float,
    cwd: str | None = None,
    errors: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> tuple[int, bytes, str]:
    """The same with its standard error apart."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=seconds,
            check=False,
            cwd=cwd,
            env=env,
        )
    except subprocess.TimeoutExpired:
        return 124, b"", ""
    except OSError as exc:
        return 127, b"", str(exc.strerror)
    return done.returncode, done.stdout, (done.stderr or b"").decode("utf-8", "replace")


def attended(argv: Sequence[str], stdin: IO[Any], env: Mapping[str, str]) -> int:
    """Run a command that talks to the person itself; its exit code."""
    return subprocess.run(argv, stdin=stdin, env=dict(env), check=False).returncode
