"""How a run lets itself be steered: a signal ends it now, a request between two stages."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kern.errors import Asked, Interrupted, KernError
from kern.events import Sink, Steered
from kern.model import Request
from kern.system import waits
from kern.system.control import ask, asked, forget

_ASKED = "a person asked for it"
_STEP_S = 0.5  # of a wait: so late a request is seen at most


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP (unless ignored at the start: nohup) end the block as
    `Interrupted`; once that is under way further ones are ignored. Within such a block, and in
    another thread than Python's main one, which alone is told of them, nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {signum: signal.getsignal(signum) for signum in _SIGNALS}
    if not main or _interrupt in before.values():
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


class Steering:
    """The run's side: what it was asked, told once, and heeded where nothing is under way."""

    def __init__(
        self,
        git_dir: Path,
        run: str,
        sink: Sink,
        sleep: Callable[[float], None] = waits.sleep,
        keys: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.time,
        until: float = 0.0,
    ) -> None:
        self.git_dir = git_dir
        self.run = run
        self.sink = sink
        self.until = until  # epoch seconds from which nothing is begun; 0: no bound
        self._sleep = sleep
        self._keys = keys
        self._clock = clock
        self._told: Request | None = None

    @property
    def late(self) -> bool:
        """Whether the time of --until has come."""
        return bool(self.until) and self._clock() >= self.until

    def asked(self) -> Request | None:
        for key in self._keys():
            self._type(key)
        return Request.STOP if self.late else asked(self.git_dir, self.run)

    def _type(self, key: str) -> None:
        """The same requests as from another terminal; `q` as Ctrl-C."""
        standing = asked(self.git_dir, self.run)
        match key, standing:
            case "p", None:
                ask(self.git_dir, Request.PAUSE, self.run)
            case "p", _:
                ask(self.git_dir, Request.RESUME, self.run)
            case "s", _:
                ask(self.git_dir, Request.STOP, self.run)
            case "q", _:
                signal.raise_signal(signal.SIGINT)

    def look(self) -> None:
        """While an agent or a gate is at work: a new request is told, and heeded afterwards."""
        self._tell(self.asked(), at_once=False)

    def heed(self) -> None:
        """Before anything begins: raises `Asked` where the run is to end or to wait."""
        if self.asked():
            raise Asked(_ASKED)
        self.look()

    def sleep(self, seconds: float) -> None:
        """Raises `Asked` as soon as anything is asked meanwhile."""
        self.heed()
        while seconds > 0:
            step = min(seconds, _STEP_S)
            self._sleep(step)
            seconds -= step
            self.heed()

    def obey(self, waiting: Callable[[float], None]) -> None:
        """Wait while the run is paused; raises `Asked` where it is to end."""
        began = time.monotonic()
        now = self.asked()
        if now is Request.PAUSE:
            self._told = None  # that it would wait; now it does
            self._tell(now, at_once=True)
        while now is Request.PAUSE:
            waiting(time.monotonic() - began)
            self._sleep(_STEP_S)
            now = self.asked()
        self._tell(now, at_once=True)
        if now is Request.STOP:
            raise Asked(_ASKED)

    def close(self) -> None:
        """What was asked of this run is nothing to the next."""
        with contextlib.suppress(KernError):
            forget(self.git_dir)

    def _tell(self, now: Request | None, *, at_once: bool) -> None:
        if now is not self._told:
            self._told = now
            self.sink(Steered(now or Request.RESUME, at_once, self.late))
