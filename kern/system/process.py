"""Runs one child to its end and leaves nothing of it behind: a session of its own, output on disk,
ended politely, then surely. In a sandbox all that it started ends with it; else what carries its
mark is ended.

Knows nothing of agents.
"""

import contextlib
import functools
import os
import secrets
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from subprocess import run as attend
from tempfile import TemporaryFile
from typing import IO, Any

import psutil

from kern import plain
from kern.errors import KernError, UsageError
from kern.system import waits, workspace

OUTPUT_LIMIT = 100_000_000  # bytes, standard output and error together
GRACE_S = (1.0, 1.0)  # after SIGINT, after SIGTERM, where a person waits
PATIENCE_S = (5.0, 2.0)  # the same after a time-out: it may still say what it has
_SWEPT_S = 0.3  # after SIGTERM, for what a child left running
_REAPED_S = 2.0
_TICK_S = 0.2
_TAIL = 8192  # bytes
SILENT = "no sign of life"
BY_ITSELF = "by itself"  # in a reflog: what kern's children moved
Mark = tuple[str, str]  # an environment variable that all descendants inherit
Tick = Callable[[float, float], None]  # seconds at work, seconds without a sign of life


def unwatched(seconds: float, silent: float) -> None:
    """For a child that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Ran:
    code: int  # negative: the signal that ended it
    seconds: float
    stderr: str  # the end of it; of all that it printed where the two are joined
    overflow: int  # bytes at which it was ended for printing too much, else 0
    timed_out: str = ""  # what of its time was over, in words


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str,
    stdout: Path,
    tick: Tick = unwatched,
    limit: int = OUTPUT_LIMIT,
    total: float = 0,
    idle: float = 0,
    joined: bool = False,
    status: int = 0,
    grace: tuple[float, float] = GRACE_S,
) -> Ran:
    """Run `argv`, its output spooled to the file `stdout`. What it leaves running is ended after
    it. `total` and `idle` (without output) are time-outs in seconds, 0 for none. `joined`:
    complaints stand among output. `status`: where in `argv` a sandbox takes the option to tell that
    the command began.
    """
    began, own = time.monotonic(), ("KERN_CHILD", secrets.token_hex(8))
    with contextlib.ExitStack() as stack:
        with workspace.reported(stdout):
            data, complaints, report = (stack.enter_context(TemporaryFile()) for _ in range(3))
            data.write(stdin.encode("utf-8", "surrogateescape"))
            data.seek(0)
            spool = stack.enter_context(open(stdout, "w+b", 0, opener=_anew))
        passed = [report.fileno()] * bool(status)
        option = ["--json-status-fd", str(report.fileno())] * bool(status)
        command = [*argv[:status], *option, *argv[status:]]
        errors = spool if joined else complaints

        def printed() -> int:
            return sum(os.fstat(file.fileno()).st_size for file in (spool, complaints))

        child, timed_out = None, ""
        try:  # a signal may come while it is started
            files = {"stdin": data, "stdout": spool, "stderr": errors, "pass_fds": passed}
            try:
                child = start(command, cwd=cwd, env={**env, own[0]: own[1]}, **files)
            except OSError as exc:
                hint = "kern doctor says what is missing; a program must be executable (chmod +x)"
                what = f"{argv[0]} cannot be started: {exc.strerror}"
                raise UsageError(what, hint=hint) from None
            timed_out = _attend(child, printed, limit, total, idle, tick)
            overflow = limit if printed() > limit else 0  # it may have been faster
        finally:
            left = None if status else own  # all ends with a sandbox
            if child:
                end(child, PATIENCE_S if timed_out else grace, left)
            elif left:
                sweep(left)
        if overflow:
            spool.truncate(min(os.fstat(spool.fileno()).st_size, limit))
        tail = _tail(errors)
        if status and child.returncode and "child-pid" not in _tail(report):
            what = f"the sandbox could not start a command: {plain.last(tail)}"
            raise KernError(what, hint="kern doctor says what works here; then run kern again")
    return Ran(child.returncode, time.monotonic() - began, tail, overflow, timed_out)


def _attend(
    child: Popen[bytes],
    printed: Callable[[], int],
    limit: int,
    total: float,
    idle: float,
    tick: Tick,
) -> str:
    """Until the child has ended or must be; what of its time was over, in words."""
    began = last_sign = time.monotonic()
    size = 0
    while size <= limit:
        _wait(child, _TICK_S)
        now = time.monotonic()
        if (so_far := printed()) != size:
            size, last_sign = so_far, now
        tick(now - began, now - last_sign)
        if child.returncode is not None:
            break
        bounds = (total, began, "not done after"), (idle, last_sign, f"{SILENT} for")
        for most, since, what in bounds:
            if most and now - since >= most:
                return f"{what} {plain.span(most)}"
    return ""


def _wait(child: Popen[bytes], seconds: float) -> None:
    """Until it has ended, or for so long. Python's own wait looks for that less and less often."""
    with contextlib.suppress(OSError, AttributeError):  # where the system does not tell at once
        ends = os.pidfd_open(child.pid)
        try:
            (waiting := select.poll()).register(ends, select.POLLIN)  # of however many files
            waiting.poll(seconds * 1000)
        finally:
            os.close(ends)
        seconds = 0
    with contextlib.suppress(TimeoutExpired):
        child.wait(seconds)


def _anew(path: str, how: int) -> int:
    """Through no link."""
    return os.open(path, how | os.O_NOFOLLOW, 0o600)


def _tail(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
    return file.read(_TAIL).decode("utf-8", "replace")


# ---------------------------------------------------------------- begin and end


def start(argv: Sequence[str], **how: Any) -> "Popen[bytes]":
    """In a session of its own: no Ctrl-C at the terminal ends it."""
    return Popen(argv, start_new_session=True, **how)


def end(
    child: "Popen[bytes]", grace: tuple[float, float] = GRACE_S, mark: Mark | None = None
) -> None:
    """SIGINT, SIGTERM, then SIGKILL, as far as each is needed; then what carries the mark, and what
    is left of its group, and of the sandbox that it was in.
    """
    for signum, seconds in zip((signal.SIGINT, signal.SIGTERM), grace, strict=True):
        if child.poll() is None:
            _signal(child.pid, signum)
            with contextlib.suppress(TimeoutExpired):
                child.wait(waits.scaled(seconds))
    child.kill()
    reap(child)
    if mark:
        sweep(mark)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def reap(child: "Popen[bytes]") -> None:
    """Of one that was killed. A signal may have come just where Popen had taken its own lock, which
    it would wait for without an end.
    """
    try:
        child.wait(_REAPED_S)
    except TimeoutExpired:
        with contextlib.suppress(ChildProcessError):
            child.returncode = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])


def _signal(pid: int, signum: int) -> None:
    """All of them but bubblewrap: it would die of it, and what it holds at once with it."""
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        for one in (leader, *leader.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                if one.name() != "bwrap":
                    one.send_signal(signum)


def sweep(mark: Mark, grace: float = _SWEPT_S) -> int:
    """End what carries the mark: politely once, then surely, since a watchdog may start its worker
    again. How many were ended.
    """
    ended: set[int] = set()
    for signum in (signal.SIGTERM, *[signal.SIGKILL] * 20):
        if not (alive := marked(mark)):
            break
        ended |= {one.pid for one in alive}
        for one in alive:
            with contextlib.suppress(psutil.Error):
                one.send_signal(signum)
        psutil.wait_procs(alive, waits.scaled(grace))
    return len(ended)


def marked(mark: Mark) -> list[psutil.Process]:
    """The live processes that carry the variable, but for kern and those that started it. Of other
    users it cannot be read.
    """
    carriers = []
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if _carries(pid, mark):
                carriers.append(psutil.Process(pid))
    spared = (os.getpid(), *(one.pid for one in psutil.Process().parents())) if carriers else ()
    return [one for one in carriers if one.pid not in spared]


def _carries(pid: int, mark: Mark) -> bool:
    if sys.platform == "linux":  # in a third of psutil's time: all processes, after each child
        with open(f"/proc/{pid}/environ", "rb") as file:
            return "=".join(mark).encode() in file.read().split(b"\0")
    return psutil.Process(pid).environ().get(mark[0]) == mark[1]


# What a program says is to be read, whatever language a person has.
_PLAIN = {"LANGUAGE": "C", "LC_ALL": "C"}


def piped(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "Popen[bytes]":
    """A child that lasts; `env` over kern's environment."""
    full = {**os.environ, **_PLAIN, **env}
    return start(argv, cwd=cwd, env=full, stdin=PIPE, stdout=PIPE, stderr=PIPE)


def holds(pid: int, file: Path) -> bool:
    """Whether the process lives and has the file open: a pid may be another process's by now."""
    with contextlib.suppress(psutil.Error, OSError):
        return any(one.path == str(file) for one in psutil.Process(pid).open_files())
    return False


# ---------------------------------------------------------------- environment


WORKER = "KERN_WORKER"  # 1 and up, where kern is one of many: ports and databases can differ by it
PORT = "KERN_PORT"  # there too: the first of forty that are its own
ONTO = "KERN_ONTO"  # the branch that its work lands on
OF = "KERN_OF"  # whose worker it is: the path of a working tree
FLEET = "KERN_FLEET"  # the id of the run that started it


def surroundings() -> dict[str, str]:
    """kern's environment without what is meant for kern alone."""
    base = os.environ.items()
    own = (WORKER, PORT)
    return {name: value for name, value in base if name in own or not name.startswith("KERN_")}


def reflog(run: str) -> dict[str, str]:
    """The environment by which one tells what kern's children moved."""
    return {"GIT_REFLOG_ACTION": f"kern {run} {BY_ITSELF}"}


def tree_last(root: Path) -> dict[str, str]:
    """The PATH by which kern itself finds programs: those of the tree, where an agent may have
    left a `git`, come after all others.
    """
    return {"PATH": _sorted(os.environ.get("PATH", os.defpath), root)}


@functools.cache  # it is asked for with each git, and looks at each folder's links
def _sorted(path: str, root: Path) -> str:
    def is_inside(one: str) -> bool:
        places = Path(os.path.normpath(one)), Path(os.path.realpath(one))
        return not os.path.isabs(one) or any(place.is_relative_to(root) for place in places)

    return os.pathsep.join(sorted(path.split(os.pathsep), key=is_inside))


# ---------------------------------------------------------------- short commands


def capture(
    argv: Sequence[str],
    seconds: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    """Exit code, output and complaints of a short command; 127: not startable, 124: it hangs."""
    form: Any = {"stdin": DEVNULL, "capture_output": True, "errors": "surrogateescape"}
    try:
        done = attend(argv, timeout=seconds, cwd=cwd, env=env, encoding="utf-8", **form)
    except TimeoutExpired:
        return 124, "", ""
    except OSError as exc:
        return 127, "", str(exc.strerror)
    return done.returncode, done.stdout, done.stderr
