"""Runs one child to its end and leaves nothing of it behind: a session of its own, output on disk,
ended politely, then surely. In a sandbox all that it started ends with it; else psutil finds that.

Knows nothing of agents.
"""

import contextlib
import ctypes
import functools
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from subprocess import run as attend
from typing import IO, Any
from weakref import WeakSet

import psutil

from kern import plain
from kern.errors import KernError, UsageError
from kern.system import waits, workspace

OUTPUT_LIMIT = 100_000_000  # bytes, standard output and error together
GRACE_S = (1.0, 1.0)  # after SIGINT, after SIGTERM, where a person waits
RESTORE_S = 10.0  # a hook, after SIGINT
PATIENCE_S = (5.0, 2.0)  # the same after a time-out: it may still say what it has
_SWEPT_S = 0.3  # after SIGTERM, for what a child left running
_TICK_S = 0.05
_STDERR_TAIL = 8192  # bytes
SILENT = "no sign of life"
RAN: Counter[str] = Counter()  # by this kern: after each of them the world may be another
OWN: "WeakSet[Popen[bytes]]" = WeakSet()  # what kern started itself, and may be at work still
# Held while a thread begins a process and enters it there, and while a sweep looks who is left.
BEGINNING = threading.RLock()
Mark = tuple[str, str]  # an environment variable that all descendants inherit
Tick = Callable[[float, float], None]  # seconds at work, seconds without a sign of life


def unwatched(seconds: float, silent: float) -> None:
    """For a child that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Ran:
    code: int  # negative: the signal that ended it
    seconds: float
    stderr: str  # the end of it
    overflow: int  # bytes at which it was ended for printing too much, else 0
    timed_out: str = ""  # what of its time was over, in words


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str,
    stdout: Path,
    mark: Mark,
    tick: Tick = unwatched,
    limit: int = OUTPUT_LIMIT,
    total: float = 0,
    idle: float = 0,
    joined: bool = False,
    grace: tuple[float, float] = GRACE_S,
    patience: tuple[float, float] = PATIENCE_S,
    status: int = 0,
) -> Ran:
    """Run `argv`, its output spooled to the file `stdout`. What it leaves running is ended when it
    has ended, however it did; `mark` tells what that is where the system does not, and after a
    kill. `total` and `idle` (without output) are time-outs in seconds, 0 for none, and `patience`
    is what it is given after one, else `grace`. `joined`: complaints stand among output. `status`:
    where in `argv` a sandbox takes the option to tell that the real command began, else KernError.
    """
    adopt_orphans()
    RAN[argv[0]] += 1
    began = time.monotonic()
    there = {child.pid for child in psutil.Process().children()}
    given = stdin.encode("utf-8", "surrogateescape")
    with (
        _file(data=given) as data,
        _file() as complaints,
        _file() as report,
        _file(stdout) as spool,
    ):
        passed = [report.fileno()] * bool(status)
        option = ["--json-status-fd", str(report.fileno())] * bool(status)
        command = (*argv[:status], *option, *argv[status:])
        streams = data, spool, spool if joined else complaints

        def printed() -> int:
            return sum(os.fstat(file.fileno()).st_size for file in (spool, complaints))

        child, timed_out = None, ""
        try:  # a signal may come while it is started
            with _startable(argv[0]):
                child = start(command, cwd, {**env, mark[0]: mark[1]}, *streams, *passed)
            timed_out = _attend(child, printed, limit, total, idle, tick)
            # Looked at once more: it may have been faster.
            overflow = limit if printed() > limit else 0
        finally:
            if child:
                end(child, patience if timed_out else grace)
            sweep(mark, spare=there)
            RAN[argv[0]] += 1
        if overflow:
            spool.truncate(min(os.fstat(spool.fileno()).st_size, limit))
        tail = _tail(complaints)
        if status and child.returncode and "child-pid" not in _tail(report):
            raise _never_began(tail or _tail(spool))
    return Ran(child.returncode, time.monotonic() - began, tail, overflow, timed_out)


def _never_began(complaint: str) -> KernError:
    return KernError(
        f"the sandbox could not start a command: {' '.join(complaint.strip().splitlines()[-1:])}",
        hint="kern doctor says what works here; then run kern again: it resumes",
    )


def _attend(
    child: "Popen[bytes]",
    printed: Callable[[], int],
    limit: int,
    total: float,
    idle: float,
    tick: Tick,
) -> str:
    """Until the child has ended or must be; what of its time was over, in words."""
    began = last_sign = time.monotonic()
    size = 0
    waiting = threading.Thread(target=child.wait, daemon=True)  # tells the end at once
    waiting.start()
    while waiting.is_alive() and size <= limit:
        waiting.join(_TICK_S)
        now = time.monotonic()
        if (so_far := printed()) != size:
            size, last_sign = so_far, now
        tick(now - began, now - last_sign)
        if waiting.is_alive() and total and now - began >= total:
            return f"not done after {plain.span(total)}"
        if waiting.is_alive() and idle and now - last_sign >= idle:
            return f"{SILENT} for {plain.span(idle)}"
    return ""


@contextlib.contextmanager
def _startable(program: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        why, hint = f"cannot be started: {exc.strerror}", "kern doctor"
        if isinstance(exc, PermissionError):
            why, hint = "is not executable", f"chmod +x {program}"
        raise UsageError(f"{program} {why}", hint=hint) from None


def _file(path: Path | None = None, data: bytes = b"") -> IO[bytes]:
    """Written anew, and no link; without a path a temporary one."""
    with workspace.reported(path or Path(tempfile.gettempdir())):
        if path:
            how = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            return os.fdopen(os.open(path, how, 0o600), "w+b", 0)
        file = tempfile.TemporaryFile()  # noqa: SIM115
        file.write(data)
        file.seek(0)
        return file


def _tail(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _STDERR_TAIL))
    return file.read(_STDERR_TAIL).decode("utf-8", "replace")


# ---------------------------------------------------------------- begin and end


def start(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    *passed: int,
) -> "Popen[bytes]":
    """A process in a session of its own: no Ctrl-C at the terminal and no sweep ends it."""
    with BEGINNING:
        child = Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=passed,
            start_new_session=True,
        )
        OWN.add(child)
    return child


def end(child: "Popen[bytes]", grace: tuple[float, float] = GRACE_S) -> None:
    """SIGINT, SIGTERM, then SIGKILL, as far as each is needed."""
    for signum, seconds in zip((signal.SIGINT, signal.SIGTERM), grace, strict=True):
        if child.poll() is None:
            _signal(child.pid, signum)
            with contextlib.suppress(TimeoutExpired):
                child.wait(waits.scaled(seconds))
    if child.poll() is None:
        kill_group(child)
    child.wait()


def _signal(pid: int, signum: int) -> None:
    """All of them but bubblewrap: it would die of it, and what it holds at once with it."""
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        for one in (leader, *leader.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                if one.name() != "bwrap":
                    one.send_signal(signum)


def kill_group(leader: "Popen[bytes]") -> None:
    """What is left of it, and of the sandbox that it was in."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)


def sweep(mark: Mark, grace: float = _SWEPT_S, spare: Collection[int] | None = None) -> int:
    """End what children have left running: what carries the mark. With `spare`, which children of
    kern are none of it, what has no parent but kern. How many were ended.
    """
    ended: set[int] = set()
    for _ in range(20):  # a watchdog may start its worker again; what loses its parent is kern's
        left = _left(mark, spare)
        if not left:
            break
        ended |= {process.pid for process in left}
        _let_restore(left)
        for name in ("terminate", "kill"):
            for process in left:
                with contextlib.suppress(psutil.Error):
                    getattr(process, name)()
            left = psutil.wait_procs(left, waits.scaled(grace))[1]
    return len(ended)


def _let_restore(left: Sequence[psutil.Process]) -> None:
    """Hooks have what a person has not staged out of the tree, and restore it on SIGINT alone. git
    names both to them.
    """
    hooks = list[psutil.Process]()
    for process in left:
        with contextlib.suppress(psutil.Error, OSError):
            if {"GIT_PREFIX", "GIT_INDEX_FILE"} <= {*process.environ()}:
                hooks.append(process)
                process.send_signal(signal.SIGINT)
    psutil.wait_procs(hooks, waits.scaled(RESTORE_S))


def _left(mark: Mark, spare: Collection[int] | None) -> list[psutil.Process]:
    if spare is None or sys.platform != "linux":
        return marked(mark)
    with BEGINNING:
        own = {child.pid for child in OWN if child.returncode is None}
        return [one for one in psutil.Process().children() if one.pid not in own | {*spare}]


def marked(mark: Mark) -> list[psutil.Process]:
    """The live processes that carry the variable, but for kern and those that started it. Of other
    users it cannot be read.
    """
    name, value = mark
    carriers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(name) == value:
                carriers.append(process)
    spared = (os.getpid(), *(one.pid for one in psutil.Process().parents())) if carriers else ()
    return [process for process in carriers if process.pid not in spared]


def adopt_orphans() -> None:
    """On Linux, what a child leaves behind becomes a child of kern instead of init's."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


# ---------------------------------------------------------------- children that last


# What a program says is to be read, whatever language a person has.
_PLAIN = {"LANGUAGE": "C", "LC_ALL": "C"}


def another(argv: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path) -> "Popen[bytes]":
    """A kern of its own. What it prints is added to the log."""
    with log.open("ab") as printed:
        return start(argv, cwd, env, DEVNULL, printed, printed)


def piped(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "Popen[bytes]":
    """`env` over kern's environment."""
    return start(argv, cwd, {**os.environ, **_PLAIN, **env}, PIPE, PIPE, PIPE)


def machine() -> tuple[int, float]:
    """Cores, and MiB of memory that are free."""
    return os.cpu_count() or 1, psutil.virtual_memory().available / (1 << 20)


def holds(pid: int, file: Path) -> bool:
    """Whether the process lives and has the file open: a pid may be another process's by now."""
    with contextlib.suppress(psutil.Error, OSError):
        return any(one.path == str(file) for one in psutil.Process(pid).open_files())
    return False


# ---------------------------------------------------------------- environment


WORKER = "KERN_WORKER"  # 1 and up, where kern is one of many: ports and databases can differ by it
ONTO = "KERN_ONTO"  # the branch that its work lands on
OF = "KERN_OF"  # whose worker it is: the path of a working tree
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


# ---------------------------------------------------------------- short commands


def capture(argv: Sequence[str], seconds: float, cwd: str | None = None) -> tuple[int, str]:
    """Exit code and output of a short command; 127: not startable, 124: it hangs."""
    code, out, why = heard(argv, seconds, cwd, STDOUT)
    return code, why or out.decode("utf-8", "replace")


def heard(
    argv: Sequence[str],
    seconds: float,
    cwd: str | None = None,
    errors: int = PIPE,
    env: Mapping[str, str] | None = None,
) -> tuple[int, bytes, str]:
    """The same with its standard error apart."""
    how: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": errors, "cwd": cwd}
    try:
        done = attend(argv, timeout=seconds, check=False, env=env, **how)
    except TimeoutExpired:
        return 124, b"", ""
    except OSError as exc:
        return 127, b"", str(exc.strerror)
    return done.returncode, done.stdout, (done.stderr or b"").decode("utf-8", "replace")


def attended(argv: Sequence[str], stdin: IO[Any], env: Mapping[str, str]) -> int:
    """Run a command that talks to the person itself; its exit code."""
    return attend(argv, stdin=stdin, env=dict(env), check=False).returncode
