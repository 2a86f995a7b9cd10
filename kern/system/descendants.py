"""Finds what kern's children have started and ends it: politely, git's hooks before all others.

psutil finds it: an agent's shell tool runs each command in a session of its own, which no signal to
a process group reaches.
"""

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import IO, Any
from weakref import WeakSet

from kern.system import waits

RESTORE_S = 5.0  # for a hook that has taken a person's edits out of the working tree
GRACE_S = (0.3, 0.3)  # after SIGINT, after SIGTERM
# Seconds for git with its hooks, which are one process group: such a hook outlives git.
_GROUP_GRACE = ((signal.SIGINT, RESTORE_S), (signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))
AWAITED: "WeakSet[Popen[bytes]]" = WeakSet()  # how they end is asked by who started them
# Processes that kern asks again and again, whatever else comes and goes.
LASTING: "WeakSet[Popen[bytes]]" = WeakSet()
Mark = tuple[str, str]  # an environment variable that all descendants inherit
Process = Any  # psutil's


class _Late:
    """Loaded when it is first needed, which takes longer than a look at SPEC.md that needs none."""

    def __getattr__(self, name: str) -> Any:
        import psutil

        return getattr(psutil, name)


psutil = _Late()


# Held while a thread begins a process and enters it in LASTING, and while a sweep looks up who is
# meant: what another thread waits for is never met in between.
BEGINNING = threading.RLock()


def another(argv: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path) -> "Popen[bytes]":
    """A kern of its own, in a session of its own: what this one ends leaves it alone. What it
    prints is added to the log.
    """
    with log.open("ab") as printed:
        return lasting(argv, cwd, env, DEVNULL, printed, printed)


def lasting(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> "Popen[bytes]":
    """A process that no sweep ends, in a session of its own."""
    with BEGINNING:
        child = Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        LASTING.add(child)
    return child


def sweep(
    mark: Mark, grace: tuple[float, float] = GRACE_S, spare: Collection[int] | None = None
) -> int:
    """End what carries the mark in its environment until nothing is found: a watchdog may start its
    worker again. Politely at first. `spare`: where given, kern's other children are ended as well.
    """
    ended: set[int] = set()
    looked_at: set[int] = set()
    below = spare is not None and _all_below()
    for turn in range(20):
        there = {*psutil.pids()} if not below else set()
        left = _found(mark, spare, None if below else there - looked_at)
        looked_at = set() if left else looked_at | there
        # What began during the look may be the child of one that went before it was looked at;
        # where all is below kern, the one that it hangs below stays until kern buries it.
        if not left and (below or there >= {*psutil.pids()}):
            break
        ended |= {process.pid for process in left}
        if turn == 0:
            left = _politely(left, grace)
        for process in left:
            _signal(process, signal.SIGKILL)
        psutil.wait_procs(left, timeout=1)
    return len(ended)


def interrupt_hooks(mark: Mark, spare: Collection[int], group: int) -> None:
    """Before a child is ended, whose process group is `group`: see `_hooks_first`."""
    _hooks_first(_found(mark, spare), group)


def _politely(found: Sequence[Process], grace: tuple[float, float]) -> list[Process]:
    """SIGINT and SIGTERM; what is there all the same."""
    _hooks_first(found)
    for process in found:
        # A shell's background job does not hear SIGINT: nothing is waited for.
        _signal(process, signal.SIGTERM if _ignores(process.pid, signal.SIGINT) else signal.SIGINT)
    left = _living(found, grace[0])
    for process in left:
        _signal(process, signal.SIGTERM)
    return _living(left, grace[1])


def _hooks_first(found: Sequence[Process], group: int = 0) -> None:
    """Interrupt git's hooks as a terminal would, and give them time. pre-commit and its like have a
    person's unstaged edits out of the working tree, and restore them on SIGINT alone. What started
    them stands still meanwhile: an agent would end them its own way, or go on with their answer.
    It is interrupted afterwards, but for the process group `group`, whose end is the caller's.
    """
    hooks = [process for process in found if _in_hook(process)]
    if not hooks:
        return
    others = [process for process in found if process not in hooks]
    for process in others:
        _signal(process, signal.SIGSTOP)
    for process in hooks:
        _signal(process, signal.SIGINT)
    _living(hooks, RESTORE_S)
    for process in others:
        with contextlib.suppress(OSError):
            if os.getpgid(process.pid) != group:
                _signal(process, signal.SIGINT)
                _signal(process, signal.SIGCONT)


def _in_hook(process: Process) -> bool:
    """git names both to its hooks. A process in the middle of its exec shows no variable yet."""
    with contextlib.suppress(psutil.Error, OSError):
        for _ in range(10):
            if shown := process.environ():
                return {"GIT_PREFIX", "GIT_INDEX_FILE"} <= {*shown}
            time.sleep(0.005)
    return False


def _ignores(pid: int, signum: int) -> bool:
    """As far as the system tells."""
    with contextlib.suppress(OSError):
        told = re.search(r"^SigIgn:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
        return told is not None and bool(int(told[1], 16) >> (signum - 1) & 1)
    return False


def _signal(process: Process, signum: int) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(signum)


def _living(processes: Sequence[Process], seconds: float) -> list[Process]:
    """Those that are there after so long; none as soon as all have ended."""
    deadline = time.monotonic() + waits.scaled(seconds)
    while left := [process for process in processes if _lives(process)]:
        if time.monotonic() >= deadline:
            break
        time.sleep(0.02)
    return left


def _lives(process: Process) -> bool:
    """A zombie does not: kern buries its own, the parent of another may stand still."""
    with contextlib.suppress(psutil.NoSuchProcess):
        try:
            process.wait(0)
        except psutil.TimeoutExpired:
            return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def signal_group(leader: int, signum: int) -> None:
    """To a process group whose leader may hold it in a sandbox: what holds the others would die of
    the signal, and all of them at once with it. Raises ProcessLookupError.
    """
    if not _holds_others(leader):
        os.killpg(leader, signum)
        return
    for process in below(leader):
        with contextlib.suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) == leader and not _holds_others(process.pid):
                process.send_signal(signum)


def _holds_others(pid: int) -> bool:
    """A process that has ended does not; its group may outlive it."""
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).name() == "bwrap")
    return False


def end_group(leader: "Popen[bytes]") -> None:
    """End a child of kern with its whole process group, as a terminal would."""
    with contextlib.suppress(OSError):  # once nothing of it is left
        for signum, seconds in _GROUP_GRACE:
            if signum == signal.SIGKILL:
                os.killpg(leader.pid, signum)
            else:
                signal_group(leader.pid, signum)
            deadline = time.monotonic() + waits.scaled(seconds)
            while time.monotonic() < deadline:
                with contextlib.suppress(TimeoutExpired):
                    leader.wait(0.02)
                with contextlib.suppress(ChildProcessError):  # what it left is kern's to bury
                    os.waitpid(-leader.pid, os.WNOHANG)
                os.killpg(leader.pid, 0)
                time.sleep(0.02)
    for pipe in filter(None, (leader.stdin, leader.stdout, leader.stderr)):
        with contextlib.suppress(OSError):
            pipe.close()


def kill_group(leader: "Popen[bytes]") -> None:
    """What is left of it, and of the sandbox that it was in."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)


# ---------------------------------------------------------------- who is meant


def machine() -> tuple[int, float]:
    """Cores, and MiB of memory that are free."""
    return os.cpu_count() or 1, psutil.virtual_memory().available / (1 << 20)


def marked(mark: Mark, among: Collection[int] | None = None) -> list[Process]:
    """The live processes, or those of them with these ids, that carry the variable; those of other
    users cannot be read and do not count.
    """
    found, bare = [], []
    for pid in psutil.pids() if among is None else among:
        with contextlib.suppress(psutil.Error, OSError):
            carried = _carried(pid)
            if _holds(carried, mark):
                found.append(psutil.Process(pid))
            elif not carried:
                bare.append(pid)
    for pid in bare:  # so a process looks in the middle of its exec
        with contextlib.suppress(psutil.Error, OSError):
            if _holds(_carried(pid), mark):
                found.append(psutil.Process(pid))
    return found


def _carried(pid: int) -> bytes:
    """The environment as Linux has it: to have psutil take each apart is most of a sweep's cost."""
    if sys.platform == "linux":
        return _read(pid, "environ")
    given = psutil.Process(pid).environ()
    return os.fsencode("\0".join(f"{name}={value}" for name, value in given.items()))


def _holds(carried: bytes, mark: Mark) -> bool:
    return os.fsencode("=".join(mark)) in carried.split(b"\0")


def _found(
    mark: Mark, spare: Collection[int] | None, among: Collection[int] | None = None
) -> list[Process]:
    """kern and its ancestors are never meant. Where orphans are adopted, whatever a child has
    started is below kern, and no environment needs to be read.
    """
    with BEGINNING:
        return _looked_up(mark, spare, among)


def _looked_up(
    mark: Mark, spare: Collection[int] | None, among: Collection[int] | None
) -> list[Process]:
    meant = {}
    if spare is None or not _all_below():
        meant = {process.pid: process for process in marked(mark, among)}
    spared = {os.getpid(), *(one.pid for one in psutil.Process().parents())} if meant else set()
    if spare is not None:
        own = {*spare, *(child.pid for child in LASTING if child.poll() is None)}
        for child, pid in _families():
            if child in own:
                spared.add(pid)
            elif among is None or pid in among:
                with contextlib.suppress(psutil.Error):
                    meant[pid] = psutil.Process(pid)
    return [process for pid, process in meant.items() if pid not in spared]


def children() -> set[int]:
    """Those of kern that live. Orphans that have ended are buried: bubblewrap leaves one behind
    each time.
    """
    with BEGINNING:
        awaited = {child.pid for child in (*AWAITED, *LASTING)}
        own = _by_parent().get(os.getpid(), ())
        return {pid for pid in own if pid in awaited or not _buried(pid)}


def _buried(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True


def _families() -> list[tuple[int, int]]:
    """All that hangs below kern, each with the child of kern that it hangs below. After a run what
    was not there before is an orphan of the run's child, adopted.
    """
    below = _by_parent()
    found = []
    for child in below.get(os.getpid(), ()):
        waiting = [child]
        while waiting:
            pid = waiting.pop()
            found.append((child, pid))
            waiting += below.get(pid, ())
    return found


def _by_parent() -> dict[int, list[int]]:
    """All processes but kern's own."""
    found: dict[int, list[int]] = {}
    for pid in psutil.pids():
        if pid != os.getpid():
            with contextlib.suppress(psutil.Error, OSError):
                found.setdefault(_parent(pid), []).append(pid)
    return found


def _parent(pid: int) -> int:
    """As /proc has it: psutil takes four times as long, for each of a machine's processes."""
    if sys.platform == "linux":
        return int(_read(pid, "stat").rpartition(b")")[2].split()[1])
    return int(psutil.Process(pid).ppid())


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read()


def exists(pid: int) -> bool:
    return bool(psutil.pid_exists(pid))


def below(pid: int) -> list[Process]:
    with contextlib.suppress(psutil.Error):
        return [*psutil.Process(pid).children(recursive=True)]
    return []


def kill(processes: Sequence[Process]) -> None:
    for process in processes:
        _signal(process, signal.SIGKILL)


def adopt_orphans() -> None:
    """On Linux, what a child leaves behind becomes a child of kern instead of init's."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _all_below() -> bool:
    """Whether what a child of kern starts hangs below kern, be it ended, until kern buries it."""
    return signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL and _adopts_orphans()


def _adopts_orphans() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    adopts = ctypes.c_int()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(37, ctypes.byref(adopts), 0, 0, 0)  # PR_GET_CHILD_SUBREAPER
    return bool(adopts.value)


# ---------------------------------------------------------------- another kern


def holds(pid: int, file: Path) -> bool:
    """Whether the process lives and has the file open: a pid may be another process's by now."""
    return _holder(pid, file) is not None


def interrupt(pid: int, file: Path) -> None:
    """SIGINT to the process, if it has the file open."""
    if process := _holder(pid, file):
        _signal(process, signal.SIGINT)


def _holder(pid: int, file: Path) -> Process | None:
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if any(one.path == str(file) for one in process.open_files()):
            return process
    return None
