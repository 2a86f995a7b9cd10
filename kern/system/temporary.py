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
    """A folder of this process's, which its environment names, and so that of every child: an agent
    waits for ever for one that is not there, or that it may not write. It lies
    where the person wants temporary files, unless an agent can write there; and goes at the end.
    One within another is the same. Raises KernError.
    """
    if Path(tempfile.tempdir or "").name.startswith(_PREFIX):
        yield Path(tempfile.gettempdir())
        return
    environment, before = dict(os.environ), tempfile.tempdir
    tempfile.tempdir = None  # what is known from before may be of another environment
    parent = Path(tempfile.gettempdir())
    if any(Path(os.path.realpath(parent)).is_relative_to(other) for other in outside_of):
        parent = Path("/tmp")
    with contextlib.ExitStack() as stack:
        with workspace.reported(parent):
            made = tempfile.TemporaryDirectory(None, _PREFIX, parent, ignore_cleanup_errors=True)
            place = stack.enter_context(made)
        os.environ.update(dict.fromkeys(TEMPORARY, place))
        tempfile.tempdir = place
        try:
            yield Path(place)
        finally:
            tempfile.tempdir = before
            for name in TEMPORARY:
                os.environ.pop(name)
            os.environ.update({n: environment[n] for n in TEMPORARY if n in environment})
