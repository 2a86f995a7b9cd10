"""bubblewrap's command line for a list of mounts, and why it cannot work here."""

import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from kern.sandbox.wall import Access, Mount, Wall

PROGRAM = "bwrap"
INSTALL = "install bubblewrap: apt install bubblewrap, dnf install bubblewrap"
_SYSTEM = "/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin"
_NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--cap-drop", "ALL"),
)
_OPTIONS = {Access.READ: "--ro-bind", Access.WRITE: "--bind", Access.DEVICE: "--dev-bind"}
_REASONS = Path(__file__).with_name("reasons.toml")


class Overlays(StrEnum):
    OWN = "own"  # bubblewrap's, from 0.11
    BEFORE = "before"  # mounted before it starts, in a namespace around it
    NONE = "none"  # what would be beneath is seen, and not written


def argv(
    program: str, wall: Wall, *, dies: bool = True, over: Overlays = Overlays.OWN
) -> list[str]:
    """What comes before a command. `dies`: at once, with all that it has started, when the command
    or kern does.
    """
    root, before = os.getuid() == 0, over is Overlays.BEFORE
    found = [*_mounting(wall.mounts)] if before and any(one.lower for one in wall.mounts) else []
    found += [program, *_NAMESPACES]
    if before and not root:  # who is root there is nobody else
        found += ["--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid())]
    found += ["--die-with-parent"] if dies else []
    found += ["--unshare-net"] if wall.apart else []
    found += ["--dev", "/dev", "--proc", "/proc"]
    # They ask for the user alone, and for no capability.
    found += ["--ro-bind", "/proc/sys", "/proc/sys"] if root else []
    for one in wall.mounts:
        found += map(str, _words(one, over))
    return [*found, "--remount-ro", "/", "--chdir", str(wall.root), "--"]


def _words(one: Mount, over: Overlays) -> Sequence[str | Path]:
    if one.source is None:
        return "--tmpfs", one.target
    if one.access is Access.LINK:
        return "--symlink", one.source, one.target
    if one.target.is_symlink() and one.target.parent == Path("/"):
        return "--symlink", os.readlink(one.target), one.target
    if not one.lower:
        return _OPTIONS[one.access], one.source, one.target
    if over is Overlays.NONE:
        return "--ro-bind", one.lower[-1], one.target
    if over is Overlays.BEFORE:
        return "--bind", one.source.with_name("merged"), one.target
    lower = [word for path in reversed(one.lower) for word in ("--overlay-src", path)]
    return *lower, "--overlay", one.source, one.source.with_name("work"), one.target


def _mounting(mounts: Sequence[Mount]) -> Iterator[str]:
    """A shell that mounts the overlays and becomes what follows: for an ordinary user in a user
    namespace (Linux 5.11).
    """
    lines = [_mount(one) for one in mounts if one.lower]
    yield from (_program("unshare"), "-Urm" if os.getuid() else "-m", _program("sh"), "-c")
    yield from (" && ".join([*lines, 'exec "$@"']), "sh")


def _mount(one: Mount) -> str:
    assert one.source
    places = one.source, one.source.with_name("work"), *one.lower
    upper, work, *lower = (re.sub(r"([\\,:])", r"\\\1", str(path)) for path in places)
    options = f"lowerdir={':'.join(lower)},upperdir={upper},workdir={work},userxattr"
    merged = str(one.source.with_name("merged"))
    return shlex.join((_program("mount"), "-t", "overlay", "overlay", "-o", options, merged))


def _program(name: str) -> str:
    """The system's: what PATH names may lie in the tree, and this runs outside of the sandbox."""
    return shutil.which(name, path=_SYSTEM) or f"/bin/{name}"


def reason(code: int, complaint: str) -> tuple[str, str]:
    """Why a trial failed, and what helps."""
    for known in tomllib.loads(_REASONS.read_text("utf-8"))["reasons"]:
        if known["sign"] in complaint:
            return known["why"], known["remedy"]
    last = complaint.strip().splitlines()[-1:] or [f"it ended with {code}"]
    return f"bubblewrap does not work here: {last[0]}", "kern doctor"
