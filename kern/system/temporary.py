"""The folder for temporary files of a run: of kern, and of all that it starts."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kern.obeyed import TEMPORARY
from kern.system import workspace

_PREFIX = "kern-run-"


@contextlib.contextmanager
def folder(*outside_of: Path) -> Iterator[Path]:
    """A folder of this process's, which its environment names, and so that of every child: an agent
    waits for ever for one that is not there, or that it may not write. It lies where the person
    wants temporary files, unless an agent can write there, and goes at the end. Those that killed
    processes left go at the beginning. One within another is the same. Raises KernError.
    """
    if Path(tempfile.tempdir or "").name.startswith(_PREFIX):
        yield Path(tempfile.gettempdir())
        return
    environment, before = dict(os.environ), tempfile.tempdir
    tempfile.tempdir = None  # what is known from before may be of another environment
    parent = Path(tempfile.gettempdir())
    if any(Path(os.path.realpath(parent)).is_relative_to(other) for other in outside_of):
        parent = Path("/tmp")
    for stale in parent.glob(_PREFIX + "?" * 8):
        with contextlib.suppress(OSError):  # another's, or in use
            _remove(stale)
    with workspace.reported(parent):
        new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=parent))
        lock = os.open(new, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)  # for as long as this process lives: see `_remove`
        new = new.rename(parent / new.name.removeprefix("."))
    os.environ.update(dict.fromkeys(TEMPORARY, str(new)))
    tempfile.tempdir = str(new)
    try:
        yield new
    finally:
        tempfile.tempdir = before
        for name in TEMPORARY:
            os.environ.pop(name)
        os.environ.update({name: environment[name] for name in TEMPORARY if name in environment})
        shutil.rmtree(new, ignore_errors=True)
        os.close(lock)


def _remove(place: Path) -> None:
    """Whoever can lock it may. Raises OSError where it is no folder, or somebody holds it."""
    lock = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.getuid():  # to root every door is open
            shutil.rmtree(place, ignore_errors=True)
    finally:
        os.close(lock)
