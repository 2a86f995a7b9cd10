"""kern on a terminal of its own, and what a person types there."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
INTERRUPT = "\x03"
_PATIENCE_S = 120.0


def on_terminal(
    *argv: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    typed: str = "",
    at: str = "",
    program: Sequence[str] = (sys.executable, "-m", "kern"),
) -> tuple[int, str]:
    """Exit code, and all that the terminal was sent. `typed`: as soon as `at` is shown."""
    ours, theirs = pty.openpty()
    own = {"PYTHONPATH": str(TOP), "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(
        [*program, *argv],
        cwd=cwd,
        env={**os.environ, **own, **(env or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    sent, waits = b"", bool(typed)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if waits and at.encode() in sent:
            waits = False
            if typed == INTERRUPT:  # it is not the terminal that controls kern
                process.send_signal(signal.SIGINT)
            else:
                os.write(ours, typed.encode())
        if select.select([ours], [], [], 0.1)[0]:
            try:
                sent += os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    return process.wait(_PATIENCE_S), sent.decode("utf-8", "surrogateescape")
