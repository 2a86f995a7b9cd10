"""A kern that stops at each of its writes, and forks there what is to be killed, interrupted or
failed: so the way to a write is gone once, however many things happen to it there.
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tests.kit.crashing_kern import MOST_SECONDS, heed
from tests.kit.writes import Kind, Watcher

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
FAULTS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}


class Parked(Watcher):
    """Says where it stands, and waits to be told: go on, or let a child go on disturbed."""

    def __init__(self, says: IO[str], hears: IO[str]) -> None:
        self.says = says
        self.hears = hears
        self.now = "START"
        self.disturbed = False
        self.full = 0  # the errno of each further write: a full disk stays full, an error passes

    def step(self, name: str) -> None:
        self.now = name

    def begins(self, name: str, kind: Kind) -> int:
        return self._stop("before", name, kind)

    def wrote(self, name: str, kind: Kind) -> None:
        self._stop("after", name, kind)

    def _stop(self, when: str, name: str, kind: Kind) -> int:
        if self.disturbed:
            return self.full if when == "before" and kind is not Kind.CALL else 0
        self._say({"when": when, "step": self.now, "name": name, "kind": kind})
        while (order := json.loads(self.hears.readline() or '"alone"')) != "go":
            if order == "alone":
                os._exit(98)
            _adopt_nobody()
            pid = os.fork()
            if not pid:
                return self._disturb(order)
            self._say({"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})
        return 0

    def _say(self, value: Mapping[str, Any]) -> None:
        print(json.dumps(value), file=self.says, flush=True)

    def _disturb(self, order: Mapping[str, Any]) -> int:
        """In the child, from here on the kern that it happens to; an errno for the write."""
        self.disturbed = True
        signal.alarm(MOST_SECONDS)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.chdir(order["cwd"])
        for place in map(Path, order["locks"]):  # the lock is its own: it dies with it
            held = place.read_text()
            place.write_text(held.replace(str(os.getppid()), str(os.getpid()), 1))
        heed(os.environ)
        _keep(tempfile.gettempdir())
        if number := SIGNALS.get(order["what"], 0):
            os.kill(os.getpid(), number)
        fault = FAULTS.get(order["what"], 0)
        self.full = fault if fault == errno.ENOSPC else 0
        return fault


def _keep(folder: str) -> None:
    """What the kern that goes on has for temporary files, its fork does not remove at its end."""
    remove = shutil.rmtree

    def removing(path: Any, *how: Any, **more: Any) -> None:
        if str(path) != folder:
            remove(path, *how, **more)

    shutil.rmtree = removing  # type: ignore[assignment]


def _adopt_nobody() -> None:
    """What a killed fork leaves behind is not this process's, which waits and would not bury it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
