"""The folder for temporary files of a run: of kern, and of all that it starts."""

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from kern.obeyed import TEMPORARY
from kern.system import workspace

_PREFIX = "kern-tmp-"
_OWN = f"{_PREFIX}{socket.gethostname()}-"  # and the process's id: others may use the folder too
_SHORT = Path("/tmp")
_SOCKET = 70  # characters of a folder: the path of a socket has room for 108


@contextlib.contextmanager
def folder(*outside_of: Path) -> Iterator[Path]:
    """A folder of this run's, which its environment names, and so that of every child: an agent
    waits for ever for one that is not there, or that it may not write. It lies where the person
    wants temporary files, unless an agent can write there, and goes at the end; those that killed
    processes left go at the beginning. One within another is the same. Raises KernError.
    """
    if Path(tempfile.tempdir or "").name.startswith(_PREFIX):
        yield Path(tempfile.gettempdir())
        return
    known, tempfile.tempdir = tempfile.tempdir, None  # that may be of another environment
    parent = Path(os.path.realpath(tempfile.gettempdir()))
    tempfile.tempdir = known
    if any(parent.is_relative_to(other) for other in outside_of):
        parent = _SHORT
    before = {name: os.environ[name] for name in TEMPORARY if name in os.environ}
    for stale in {*_SHORT.glob(f"{_OWN}*-*"), *parent.glob(f"{_OWN}*-*")}:
        with contextlib.suppress(OSError, ValueError, OverflowError):  # of another name
            pid = int(stale.name.removeprefix(_OWN).partition("-")[0])
            if stale.lstat().st_uid == os.getuid() and not psutil.pid_exists(pid):
                shutil.rmtree(stale, ignore_errors=True)
    with workspace.reported(parent):
        tempfile.tempdir = new = tempfile.mkdtemp(prefix=_name(), dir=parent)
    os.environ.update(dict.fromkeys(TEMPORARY, new))
    try:
        yield Path(new)
    finally:
        tempfile.tempdir = known
        for name in TEMPORARY:
            del os.environ[name]
        os.environ.update(before)
        workspace.remove(Path(new))


def for_socket() -> "tempfile.TemporaryDirectory[str]":
    """A folder in it, or in another one where its path is too long."""
    short = None if len(tempfile.gettempdir()) < _SOCKET else _SHORT
    return tempfile.TemporaryDirectory(prefix=_name(), dir=short)


def _name() -> str:
    return f"{_OWN}{os.getpid()}-"
