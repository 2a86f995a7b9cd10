"""The run's own terminal, read key by key while kern is in the foreground, and put back as it was.

Nothing is read before the first `read`: a question that kern asks first has its answer to itself.
What kern starts has another standard input, so no agent sees a key.
"""

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from typing import Any

_MOST = 64  # bytes at a time


class Keys:
    """Off unless standard input and output are the terminal: `kern | tee FILE` leaves it alone."""

    def __init__(self) -> None:
        self.on = _is_terminal(0) and _is_terminal(1)
        self._before: list[Any] | None = None  # the terminal's modes, while they are changed
        self._stop: Any = None  # what SIGTSTP did

    def read(self) -> str:
        """What was typed since; empty in the background, where reading would stop the run."""
        if not (self.on and _foreground()):
            return ""
        try:
            if self._before is None:
                self._enter()
            if not select.select([0], [], [], 0)[0]:
                return ""
            typed = os.read(0, _MOST)
        except (OSError, termios.error):
            self.on = False
            return ""
        self.on = bool(typed)  # else the terminal is gone
        return typed.decode("utf-8", "replace")

    def close(self) -> None:
        self._leave()
        if self._stop is not None:
            signal.signal(signal.SIGTSTP, self._stop)
            self._stop = None

    def _enter(self) -> None:
        self._before = termios.tcgetattr(0)
        tty.setcbreak(0, termios.TCSANOW)  # Ctrl-C and Ctrl-Z stay signals
        if self._stop is None and signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            self._stop = signal.signal(signal.SIGTSTP, self._suspend)

    def _leave(self) -> None:
        """In the background the terminal is another's."""
        before, self._before = self._before, None
        if before is not None and _foreground():
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, before)

    def _suspend(self, signum: int, _: object) -> None:
        """Ctrl-Z: the shell gets its terminal as it was; the next `read` takes it again."""
        self._leave()
        signal.signal(signum, signal.SIG_DFL)
        signal.raise_signal(signum)
        signal.signal(signum, self._suspend)


def _is_terminal(number: int) -> bool:
    stream = sys.stdin if number == 0 else sys.stdout
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return stream.fileno() == number and os.isatty(number)
    return False


def _foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
