"""The folder for temporary files of a run: of kern, and of all that it starts."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kern.obeyed import TEMPORARY
from kern.system import workspace

_PREFIX = "kern-tmp-"


@contextlib.contextmanager
def folder(*outside_of: Path) -> Iterator[Path]:
    """A folder of this run's, which its environment names, and so that of every child: an agent
    waits for ever for one that is not there, or that it may not write. It lies where the person
    wants temporary files, unless an agent can write there, and goes at the end. One within another
    is the same. Raises KernError.
    """
    if Path(tempfile.tempdir or "").name.startswith(_PREFIX):
        yield Path(tempfile.gettempdir())
        return
    tempfile.tempdir = None  # what is known from before may be of another environment
    parent = Path(os.path.realpath(tempfile.gettempdir()))
    if any(parent.is_relative_to(other) for other in outside_of):
        parent = Path("/tmp")
    before = {name: os.environ[name] for name in TEMPORARY if name in os.environ}
    with workspace.reported(parent):
        tempfile.tempdir = new = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    os.environ.update(dict.fromkeys(TEMPORARY, new))
    try:
        yield Path(new)
    finally:
        tempfile.tempdir = None
        for name in TEMPORARY:
            del os.environ[name]
        os.environ.update(before)
        workspace.remove(Path(new))
