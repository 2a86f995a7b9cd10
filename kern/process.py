"""Runs one child to its end and leaves nothing of it behind: own session, output on disk, a sweep.

Knows nothing of agents. psutil finds what a child left: an agent's shell tool runs each command in
a session of its own, which no signal to a process group reaches.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from kern import starting
from kern.starting import Started

OUTPUT_LIMIT = 100_000_000  # bytes, standard output and error together
GRACE_S = (1.0, 1.0)  # after SIGINT, after SIGTERM, where a person waits
PATIENCE_S = (5.0, 2.0)  # the same after a time-out: it may still say what it has
_TICK_S = 0.05
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
    mark: tuple[str, str],
    tick: Tick = unwatched,
    limit: int = OUTPUT_LIMIT,
    total: float = 0,
    idle: float = 0,
    joined: bool = False,
    patience: tuple[float, float] = PATIENCE_S,
    ready: Callable[[], Started | None] = lambda: None,
) -> Ran:
    """Run `argv`, its output spooled to the file `stdout`. `mark` is an environment variable that
    all its descendants inherit: what carries it is ended when the child has ended, however it did.
    `total` and `idle` (without output) are its time-outs in seconds, 0 for none, and `patience` is
    what it is given after one. `joined`: its complaints stand among its output. `ready`: gives the
    input to a child that is there already, if one is.
    """
    adopt_orphans()
    began = time.monotonic()
    there = _children()  # before the child does anything: what it leaves is adopted at once
    given = {**env, mark[0]: mark[1]}
    with contextlib.closing(
        ready()
        or starting.start(argv, cwd=cwd, env=given, stdin=stdin, stdout=stdout, joined=joined)
    ) as started:
        child = started.child
        bystanders = there - {child.pid}
        timed_out, grace = "", GRACE_S
        printed, last_sign = 0, began
        try:
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
            # Looked at once more: it may have been faster.
            overflow = limit if started.printed() > limit else 0
            if timed_out:
                grace = patience
        finally:
            end(child, grace)
            sweep(mark, lambda: _families(lambda pid: pid not in bystanders), spare=bystanders)
        if overflow:
            started.cut(limit)
        tail = started.complaint()
    return Ran(child.returncode, time.monotonic() - began, tail, overflow, timed_out)


def _time_out(passed: float, total: float, silent: float, idle: float) -> str:
    if total and passed >= total:
        return f"not done after {span(total)}"
    return f"no sign of life for {span(idle)}" if idle and silent >= idle else ""


def span(seconds: float) -> str:
    """`90` as `90 s`, `600` as `10 min`, `21600` as `6 h`."""
    if seconds >= 7200:
        return f"{seconds / 3600:g} h"
    return f"{seconds / 60:g} min" if seconds >= 120 else f"{seconds:g} s"


@contextlib.contextmanager
def _waiter(child: "subprocess.Popen[bytes]") -> Iterator[Callable[[], None]]:
    """Waits a tick, or less when the child ends. `Popen.wait` with a time-out polls and wakes up
    late.
    """
    try:
        ended = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # not Linux, an old kernel, a sandbox
        yield lambda: time.sleep(_TICK_S)
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
            os.killpg(child.pid, signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def end_with_all(child: "subprocess.Popen[bytes]", grace: tuple[float, float]) -> None:
    """The same for a child that no sweep follows: what hangs below it goes as well."""
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(child.pid).children(recursive=True)
    end(child, grace)
    for process in below:
        with contextlib.suppress(psutil.Error):
            process.kill()


def sweep(
    mark: tuple[str, str],
    also: Callable[[], Sequence[psutil.Process]] = tuple,
    grace: float = 0.3,
    spare: Collection[int] = (),
) -> int:
    """End what carries the mark in its environment, and `also`, until nothing is found: a watchdog
    may start its worker again. Politely at first. kern and its ancestors are left alone, and those
    children of kern that are to be spared.
    """
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    if spare:
        spared |= {process.pid for process in _families(lambda pid: pid in spare)}
    ended: set[int] = set()
    for turn in range(20):
        there = {*psutil.pids()}
        found = {process.pid: process for process in (*also(), *marked(mark))}
        left = [process for pid, process in found.items() if pid not in spared]
        # What began during the look may be the child of one that went before it was looked at.
        if not left and there >= {*psutil.pids()}:
            break
        ended |= {process.pid for process in left}
        if turn == 0:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.terminate()
            _, left = psutil.wait_procs(left, timeout=grace)
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1)
    return len(ended)


def marked(mark: tuple[str, str]) -> list[psutil.Process]:
    """The live processes that carry the variable; those of other users cannot be read and do not
    count.
    """
    own = os.getuid()
    found, bare = [], []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.uids().real == own:
                given = process.environ()
                if given.get(mark[0]) == mark[1]:
                    found.append(process)
                elif not given:
                    bare.append(process)
    for process in bare:  # so a process looks in the middle of its exec
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(mark[0]) == mark[1]:
                found.append(process)
    return found


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def _families(meant: Callable[[int], bool]) -> list[psutil.Process]:
    """The children of kern that are meant, with all that hangs below them. After a run what was
    not there before is an orphan of the run's child, adopted.
    """
    return [
        process
        for child in psutil.Process().children()
        if meant(child.pid)
        for process in (child, *child.children(recursive=True))
    ]


def adopt_orphans() -> None:
    """On Linux, what a child leaves behind becomes a child of kern instead of init's."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def holds(pid: int, file: Path) -> bool:
    """Whether the process lives and has the file open: a pid may be another process's by now."""
    return _holder(pid, file) is not None


def interrupt(pid: int, file: Path) -> None:
    """SIGINT to the process, if it has the file open."""
    if process := _holder(pid, file):
        with contextlib.suppress(psutil.Error):  # it ended in the meantime
            process.send_signal(signal.SIGINT)


def _holder(pid: int, file: Path) -> psutil.Process | None:
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if any(one.path == str(file) for one in process.open_files()):
            return process
    return None


def surroundings() -> dict[str, str]:
    """kern's environment without what is meant for kern alone."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KERN_")}


def capture(argv: Sequence[str], seconds: float, cwd: str | None = None) -> tuple[int, str]:
    """Exit code and output of a short command; 127: not startable, 124: it hangs."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            cwd=cwd,
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    except OSError as exc:
        return 127, str(exc.strerror)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def attended(argv: Sequence[str], stdin: IO[Any], env: Mapping[str, str]) -> int:
    """Run a command that talks to the person itself; its exit code."""
    return subprocess.run(argv, stdin=stdin, env=dict(env), check=False).returncode
