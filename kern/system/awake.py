"""Keeps the machine awake while a run is on, where the system offers it: one child, which ends with
kern, however that ends.
"""

import contextlib
import os
import select
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE

from kern.system import process

_PATIENCE_S = 3.0  # until the system has answered
_HOLD = ("sh", "-c", "echo; exec cat")  # cat: to the end of its input, which kern holds open
_BY = {
    "darwin": ("caffeinate", "-i"),
    "linux": ("systemd-inhibit", "--what=idle:sleep", "--who=kern", "--why=a run is on"),
}


@contextlib.contextmanager
def kept(root: Path, *, wanted: bool) -> Iterator[str]:
    """By what; empty where nothing does. `root`: its programs come after all others. Of many kerns
    the one that started them sees to it.
    """
    by = _BY.get(sys.platform, ("",))
    env = {**os.environ, **process.tree_last(root)}
    there = shutil.which(by[0], path=env["PATH"])
    if not wanted or not there or os.environ.get(process.FLEET):
        yield ""
        return
    with process.start((*by, *_HOLD), Path("/"), env, PIPE, PIPE, DEVNULL) as child:
        assert child.stdin and child.stdout
        try:
            ready = select.select([child.stdout], [], [], _PATIENCE_S)[0] and child.stdout.read(1)
            yield by[0] if ready else ""
        finally:
            child.stdin.close()
            process.end(child)
