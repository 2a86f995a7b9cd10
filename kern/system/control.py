"""How a person ends a run: by a signal now, by `kern stop` or --until before the next thing begins.

The request is a small file in the git directory, written by another terminal, and read by the run
that it names. It decides nothing that a crash could lose: a run that is gone heeds none.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kern import events
from kern.errors import Asked, Interrupted, KernError
from kern.events import Sink
from kern.system import waits, workspace

FILE = "kern.request"
_STEP_S = 0.5  # of a wait: so late a request is seen at most
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ask(git_dir: Path, run: str) -> None:
    """The other terminal's side; bound to the run, so that none heeds what another was asked."""
    workspace.replace(git_dir / FILE, f"stop {run}\n".encode())


def asked(git_dir: Path, run: str) -> bool:
    with contextlib.suppress(KernError):  # something else stands there: no reason to end paid work
        return workspace.read(git_dir / FILE) == f"stop {run}\n".encode()
    return False


@dataclass(slots=True)
class Steering:
    """The run's side: what it was asked, said once, and heeded where nothing is under way."""

    git_dir: Path
    run: str
    sink: Sink
    pause: Callable[[float], None] = waits.sleep
    clock: Callable[[], float] = time.time
    until: float = 0.0  # epoch seconds from which nothing is begun; 0: no bound
    announced: bool = False

    @property
    def late(self) -> bool:
        """Whether the time of --until has come."""
        return bool(self.until) and self.clock() >= self.until

    def look(self, *, at_once: bool = False) -> bool:
        """While an agent or a gate is at work: a request is announced, and heeded afterwards."""
        stop = self.late or asked(self.git_dir, self.run)
        if stop and not self.announced:
            self.announced = True
            end = "here" if at_once else "after the stage in progress"
            self.sink(events.new("request", "until" if self.late else "stop", ends=end))
        return stop

    def check_requests(self) -> None:
        """Before anything begins: raises `Asked` where the run is to end."""
        if self.look(at_once=True):
            raise Asked("a person asked for it")

    def sleep(self, seconds: float) -> None:
        """Raises `Asked` as soon as it is asked meanwhile."""
        self.check_requests()
        while seconds > 0:
            self.pause(min(seconds, _STEP_S))
            seconds -= _STEP_S
            self.check_requests()

    def close(self) -> None:
        """What was asked of this run is nothing to the next."""
        with contextlib.suppress(OSError):
            (self.git_dir / FILE).unlink()


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP (unless ignored at the start: nohup) end the block as
    `Interrupted`; once that is under way further ones are ignored. Within such a block, and in
    another thread than Python's main one, which alone is told of them, nothing changes.
    """
    before = {signum: signal.getsignal(signum) for signum in _SIGNALS}
    is_main = threading.current_thread() is threading.main_thread()
    if _interrupt in before.values() or not is_main:
        yield
        return
    for signum, handler in before.items():
        if signum == signal.SIGINT or handler is not signal.SIG_IGN:
            signal.signal(signum, _interrupt)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _interrupt(signum: int, _: object) -> None:
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(signum)
