"""kern on a terminal of its own, and what a person types there."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
_PATIENCE_S = 120.0


def on_terminal(
    *argv: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    typed: str = "",
    at: str = "",
    then: Callable[[], object] = lambda: None,
    out: int | None = None,
) -> tuple[int, str]:
    """Exit code, and all that the terminal was sent. `typed`: as soon as `at` is shown, after
    `then`. `out`: where standard output goes, if not there.
    """
    ours, theirs = pty.openpty()
    own = {"PYTHONPATH": str(TOP), "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "kern", *argv],
        cwd=cwd,
        env={**os.environ, **own, **(env or {})},
        stdin=theirs,
        stdout=theirs if out is None else out,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    sent, waits = b"", bool(typed)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if waits and at.encode() in sent:
            waits = False
            then()
            os.write(ours, typed.encode())
        if select.select([ours], [], [], 0.1)[0]:
            try:
                sent += os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    return process.wait(_PATIENCE_S), sent.decode("utf-8", "surrogateescape")
