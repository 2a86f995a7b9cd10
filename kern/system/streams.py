"""Standard output and error: UTF-8 whatever the locale, and a reader that goes away is no fault."""

import contextlib
import io
import os
import select
import sys
from typing import TextIO


class Patient(io.TextIOWrapper):
    """What is written after the reader is gone (`kern log | head`) is lost, and nothing else: the
    command comes to its own end, with its own exit code. `gone` tells what has no end of its own.
    """

    gone = False

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._mute()
            return len(text)

    def flush(self) -> None:
        # Python flushes once more at its end, and complains with a code of its own.
        try:
            super().flush()
        except BrokenPipeError:
            self._mute()

    def _mute(self) -> None:
        self.gone = True
        mute(self)


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
    sys.stdout = _patient(sys.stdout, "surrogateescape", "utf-8")
    sys.stderr = _patient(sys.stderr, "backslashreplace")


def _patient(stream: TextIO | None, errors: str, encoding: str = "") -> TextIO:
    stream = stream or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(stream, Patient) or not isinstance(stream, io.TextIOWrapper):
        return stream
    if isinstance(stream.buffer, io.BytesIO):  # of a caller in this process, who reads it himself
        stream.reconfigure(errors=errors)
        return stream
    named = encoding or stream.encoding
    line, through = stream.line_buffering, stream.write_through
    stream.flush()
    return Patient(stream.detach(), named, errors, line_buffering=line, write_through=through)


def unread(stream: TextIO) -> bool:
    """Whether its reader is gone, before anything is written."""
    if isinstance(stream, Patient) and stream.gone:
        return True
    with contextlib.suppress(OSError, ValueError):
        looked = select.poll()
        looked.register(stream.fileno(), 0)
        return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in looked.poll(0))
    return False


def mute(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
