"""`kern stop`: asks the run of this working tree, from outside, to end."""

import contextlib
import os
import pwd
import signal
import sys
import time
from pathlib import Path

from kern import plain
from kern.errors import KernError
from kern.git import repository
from kern.git.repository import Repo
from kern.system import control, lock, process, waits
from kern.system.lock import Holder

_ENDS_IN_S = 10  # the agent is ended within 3; then come the summary and a notification
_LOOK = "kern status"


def stop(folder: Path) -> None:
    """Leave the request and say what will happen, or why it cannot. Asked twice, it says so."""
    found = repository.open_at(folder)
    holder = _live(found)
    again = "was asked to stop already: it " * control.asked(found.git_dir, holder.run)
    control.ask(found.git_dir, holder.run)
    when = "ends after its current stage, at once where it waits"
    _say(f"{_named(holder)} {again}{when}; kern stop --now ends it now")


def stop_now(folder: Path) -> None:
    """As Ctrl-C in its terminal."""
    found = repository.open_at(folder)
    holder = _live(found)
    held = found.git_dir / lock.TREE
    with contextlib.suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGINT)
    _say(f"{_named(holder)} and its agent end now; the next kern goes on from there")
    until = time.monotonic() + _ENDS_IN_S
    while process.holds(holder.pid, held):
        if time.monotonic() > until:
            raise KernError(f"it has not ended after {_ENDS_IN_S} s", hint=_LOOK)
        waits.sleep(0.05)
    _say("it has ended")


def _live(found: Repo) -> Holder:
    """The run of this working tree; raises KernError where there is none that can be asked."""
    place = found.git_dir / lock.HOLDER
    with contextlib.suppress(FileNotFoundError):
        if (owner := place.stat().st_uid) != os.getuid():
            raise KernError(
                f"the run here belongs to another user: {_user(owner)}",
                hint="ask them, or type the same as that user",
            )
    holder = lock.holder(found.git_dir)
    if holder is None or not holder.run:
        raise KernError(f"no run in progress in {found.root}{_elsewhere(found)}", hint=_LOOK)
    if holder.host != lock.HOST:
        raise KernError(
            f"the lock here belongs to pid {holder.pid} on host {holder.host}",
            hint=f"ask there; if that run is gone: rm {place}",
        )
    if not process.holds(holder.pid, found.git_dir / lock.TREE):
        raise KernError(
            f"no run in progress in {found.root}: a killed one (pid {holder.pid}) left its lock; "
            f"the next kern takes it over{_elsewhere(found)}",
            hint=_LOOK,
        )
    return holder


def _elsewhere(found: Repo) -> str:
    """The runs in other working trees of this repository."""
    places = {found.common_dir, *found.common_dir.glob("worktrees/*")} - {found.git_dir}
    others = [
        f"branch {holder.branch} (pid {holder.pid})"
        for place in sorted(places)
        if (holder := lock.holder(place)) and process.holds(holder.pid, place / lock.TREE)
    ]
    return f"; in another working tree: {', '.join(others)}" if others else ""


def _named(holder: Holder) -> str:
    return f"the run with pid {holder.pid} on branch {holder.branch}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _say(text: str) -> None:
    print(plain.block(text), file=sys.stderr, flush=True)
