"""Standard output and error: UTF-8 whatever the locale, and a reader that goes away is no fault."""

import errno
import io
import os
import sys
from typing import Any, TextIO


class Patient(io.FileIO):
    """What is written after the reader is gone (`kern log | head`) is lost, and nothing else: the
    command comes to its own end, with its own exit code.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as exc:
            if exc.errno in (errno.EPIPE, errno.EIO):  # of a pipe, of a closed terminal
                return memoryview(data).nbytes
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # it is said once
            raise


def settle() -> None:
    """Make standard output and error of this process such streams. Of a descriptor that the caller
    has closed the number is taken, so that no file that is opened gets it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    # What is no UTF-8 leaves as it came.
    sys.stdout = _patient(1, "surrogateescape")
    sys.stderr = _patient(2, "backslashreplace")


def _patient(number: int, errors: str) -> TextIO:
    raw: Any = Patient(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=True)
