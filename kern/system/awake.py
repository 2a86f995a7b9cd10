"""Keeps the machine awake while a run is on, where the system offers it: one child, which ends with
kern, however that ends.
"""

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE, TimeoutExpired

from kern.system import process

_PATIENCE_S = 3.0  # for the system's word
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
    by = _BY.get(sys.platform) if wanted and not os.environ.get(process.FLEET) else None
    env = {**os.environ, **process.tree_last(root)}
    try:
        child = by and process.start((*by, *_HOLD), Path("/"), env, PIPE, PIPE, DEVNULL)
    except OSError:
        child = None
    if not by or not child:
        yield ""
        return
    assert child.stdin and child.stdout
    try:
        told = select.select([child.stdout], [], [], _PATIENCE_S)[0] and child.stdout.read(1)
        yield by[0] if told else ""
    finally:
        child.stdin.close()
        with contextlib.suppress(TimeoutExpired):
            child.wait(process.GRACE_S[0])
        if child.poll() is None:
            process.kill_group(child)
            child.wait()
        child.stdout.close()
