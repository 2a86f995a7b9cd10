"""Standard output and error: UTF-8 whatever the locale, and a reader that goes away is no fault."""

import contextlib
import errno
import io
import os
import select
import sys
from typing import Any, TextIO, cast


class Patient(io.FileIO):
    """What is written after the reader is gone (`kern log | head`) is lost, and nothing else: the
    command comes to its own end, with its own exit code.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as exc:
            if exc.errno not in (errno.EPIPE, errno.EIO):  # of a pipe, of a closed terminal
                raise
            return memoryview(data).nbytes


def settle() -> None:
    """Make standard output and error of this process such streams. Of a descriptor that the caller
    has closed the number is taken, so that no file that is opened gets it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # What is no UTF-8 leaves as it came.
    sys.stdout = _patient(sys.stdout, 1, "surrogateescape")
    sys.stderr = _patient(sys.stderr, 2, "backslashreplace")


def _patient(stream: TextIO | None, number: int, errors: str) -> TextIO:
    if stream is not None:
        stream.flush()
        if isinstance(getattr(stream, "buffer", None), io.BytesIO):  # of a caller in this process
            cast(io.TextIOWrapper, stream).reconfigure(errors=errors)
            return stream
        if not isinstance(stream, io.TextIOWrapper):
            return stream
    raw: Any = Patient(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=True)


def unread(stream: TextIO) -> bool:
    """Whether its reader is gone, before anything is written."""
    with contextlib.suppress(OSError, ValueError):
        looked = select.poll()
        looked.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in looked.poll(0))
    return False


def mute(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
