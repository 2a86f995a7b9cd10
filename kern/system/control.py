"""How a person steers a run from outside: a signal ends it now, a request between two stages.

A request is a small file in the git directory, written by another terminal, and read by the run
that it names. It decides nothing that a crash could lose: a run that is gone heeds none.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kern.errors import Asked, Interrupted, KernError
from kern.events import Sink, Steered
from kern.model import Request
from kern.system import workspace

FILE = "kern.request"
_ASKED = "a person asked for it"
_STEP_S = 0.5  # of a wait: so late a request is seen at most
_Record = Mapping[str, Any]  # of the journal
NOW = "now"  # nothing is under way: a request is heeded at once


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person is told of a request, and whether it changes anything."""

    text: str
    changes: bool = True
    refused: str = ""  # what to type instead, where it cannot be


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP (unless ignored at the start: nohup) end the block as
    `Interrupted`; once that is under way further ones are ignored.
    """
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {signum: signal.getsignal(signum) for signum in wanted}

    def interrupt(signum: int, _: object) -> None:
        for other in wanted:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(signum)

    for signum, handler in before.items():
        if signum == signal.SIGINT or handler is not signal.SIG_IGN:
            signal.signal(signum, interrupt)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


class Steering:
    """The run's side: what it was asked, told once, and heeded where nothing is under way."""

    def __init__(
        self,
        git_dir: Path,
        run: str,
        sink: Sink,
        sleep: Callable[[float], None] = time.sleep,
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
            _forget(self.git_dir)

    def _tell(self, now: Request | None, *, at_once: bool) -> None:
        if now is not self._told:
            self._told = now
            self.sink(Steered(now or Request.RESUME, at_once, self.late))


def ask(git_dir: Path, wanted: Request, run: str) -> None:
    """The other terminal's side. Bound to the run, so that none heeds what another was asked."""
    if wanted is Request.RESUME:
        _forget(git_dir)
    else:
        workspace.replace(git_dir / FILE, f"{wanted} {run}\n".encode())


def asked(git_dir: Path, run: str) -> Request | None:
    """What the file asks of this run; None where it asks nothing, or of another."""
    try:
        data = workspace.read(git_dir / FILE)
    except KernError:  # something else stands there: no reason to end paid work
        return None
    words = (data or b"").decode("ascii", "replace").split()
    known = {str(request): request for request in (Request.STOP, Request.PAUSE)}
    return known.get(words[0]) if len(words) == 2 and words[1] == run else None


def _forget(git_dir: Path) -> None:
    with workspace.reported(git_dir / FILE), contextlib.suppress(FileNotFoundError):
        (git_dir / FILE).unlink()


# ---------------------------------------------------------------- in words


def due(records: Sequence[_Record], *, paused: bool) -> str:
    """When the run with these records will heed a request: `NOW`, or after what."""
    last = at_work(records) or {"kind": ""}
    if paused:
        return NOW
    match last["kind"], last.get("did"):
        case "stage", "start":
            return f"after its {last['stage']} stage"
        case "task", "start":
            pass
        case "limit" | "commit" | "task", _:
            return NOW
    return "after what it is doing now"


def at_work(records: Sequence[_Record]) -> _Record | None:
    """What was recorded last of the work itself."""
    return next((one for one in reversed(records) if one["kind"] != "request"), None)


def is_paused(records: Sequence[_Record], asked: Request | None) -> bool:
    """Whether the run with these records waits for `kern resume` by now."""
    told = next((one.get("did") for one in reversed(records) if one["kind"] == "request"), None)
    return asked is Request.PAUSE and told == "paused"


def answer(wanted: Request, asked: Request | None, who: str, when: str, *, paused: bool) -> Answer:
    """`asked` is what stands already; `who` names the run, `when` is what `due` says of it."""
    again = asked is wanted
    match wanted, asked:
        case Request.STOP, _:
            told = "was asked to stop already: it ends" if again else "will end"
            sooner = "" if when == NOW else "; kern stop --now ends it at once"
            return Answer(f"{who} {told} {when}{sooner}", not again)
        case Request.PAUSE, Request.STOP:
            instead = "kern resume takes that back, then kern pause"
            return Answer(f"{who} was asked to stop: it ends {when}", False, instead)
        case Request.PAUSE, _:
            told = "was asked to pause already: it waits" if again else "will wait"
            if paused:
                return Answer(f"{who} is paused already; kern resume goes on", False)
            held = "its lock held; kern resume goes on, kern stop ends it"
            return Answer(f"{who} {told} {when}, {held}", not again)
        case _, None:
            return Answer(f"{who} is not paused: it goes on as it is", False)
        case _:
            back = "goes on" if paused else f"goes on: it was to {asked} {when}"
            return Answer(f"{who} {back}")


def standing(request: str, *, paused: bool) -> str:
    """What `kern status` says of a request that stands."""
    return "paused" if request == Request.PAUSE and paused else f"{request}s after this stage"


def announced(asked: Request, at_once: bool, doing: str, *, late: bool = False) -> str:
    """What the run says of a request that has reached it."""
    if late:
        return f"the time of --until has come: ends {'here' if at_once else f'after {doing}'}"
    match asked, at_once:
        case Request.STOP, True:
            return "asked to stop (kern stop): ends here"
        case Request.STOP, False:
            return f"asked to stop (kern stop): ends after {doing}; kern resume takes it back"
        case Request.PAUSE, True:
            return "paused (kern resume goes on, kern stop ends)"
        case Request.PAUSE, False:
            return f"asked to pause (kern pause): waits after {doing}"
    return "asked to go on (kern resume)"
