"""What comes before a command so that a list of mounts holds it: bubblewrap's options, or a profile
of macOS's sandbox-exec; and why bubblewrap cannot work here.
"""

import contextlib
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from kern.errors import UsageError
from kern.sandbox.wall import Access, Mount

BWRAP, SEATBELT = "bwrap", "sandbox-exec"
INSTALL = "install bubblewrap: apt install bubblewrap, dnf install bubblewrap"
_SYSTEM = "/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin"
_NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--cap-drop", "ALL"),
)
_REASONS = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text("utf-8"))["reasons"]


class Means(StrEnum):
    """What holds a child."""

    BWRAP = "bubblewrap"
    SEATBELT = "sandbox-exec"
    NONE = "nothing"


class Overlays(StrEnum):
    OWN = "own"  # bubblewrap's, from 0.11
    BEFORE = "before"  # mounted before it starts, in a namespace around it
    NONE = "none"  # what would be beneath is seen, and not written


def bubblewrap(
    program: str, mounts: Sequence[Mount], root: Path, over: Overlays, *, apart: bool, dies: bool
) -> tuple[str, ...]:
    """`dies`: at once, with all that it has started, when the command or kern does. `apart`: with a
    network of its own.
    """
    user = os.getuid()
    layered = [_mount(one) for one in mounts if one.lower and over is Overlays.BEFORE]
    argv = _mounting(layered, user) if layered else []
    # Around it a user may be root, by then.
    argv += [program, *_NAMESPACES, "--uid", str(user), "--gid", str(os.getgid())]
    argv += ["--die-with-parent"] * dies + ["--unshare-net"] * apart
    argv += ["--dev", "/dev", "--proc", "/proc"]
    # They ask for the user alone, and for no capability; root may go by another number here.
    if not user or os.access("/proc/sys/kernel/core_pattern", os.W_OK):
        argv += ["--ro-bind", "/proc/sys", "/proc/sys"]
    argv += [str(word) for one in mounts for word in _words(one, over)]
    return *argv, "--remount-ro", "/", "--chdir", str(root), "--"


def _words(one: Mount, over: Overlays) -> Sequence[str | Path]:
    source = one.source or one.target
    if not one.lower:
        return (one.access, *[source] * (one.access is not Access.EMPTY), one.target)
    if over is Overlays.NONE:
        return Access.READ, one.lower[-1], one.target
    if over is Overlays.BEFORE:
        return Access.WRITE, source.with_name("merged"), one.target
    lower = [word for path in reversed(one.lower) for word in ("--overlay-src", path)]
    return *lower, "--overlay", source, source.with_name("work"), one.target


def _mounting(lines: Sequence[str], user: int) -> list[str]:
    """A shell that mounts overlays and becomes what follows: for an ordinary user in a user
    namespace (Linux 5.11).
    """
    does = " && ".join([*lines, 'exec "$@"'])
    return [_program("unshare"), "-Urm" if user else "-m", _program("sh"), "-c", does, "sh"]


def _mount(one: Mount) -> str:
    upper = one.source or one.target
    places = upper, upper.with_name("work"), *one.lower
    over, work, *lower = (re.sub(r"([\\,:])", r"\\\1", str(path)) for path in places)
    options = f"lowerdir={':'.join(lower)},upperdir={over},workdir={work},userxattr"
    merged = str(upper.with_name("merged"))
    return shlex.join((_program("mount"), "-t", "overlay", "overlay", "-o", options, merged))


def _program(name: str) -> str:
    """The system's: what PATH names may lie in the tree, and this runs outside of the sandbox."""
    return shutil.which(name, path=_SYSTEM) or f"/bin/{name}"


def failure(code: int, complaint: str) -> UsageError:
    """Of a trial: why, and what helps."""
    for pattern in _REASONS:
        if any(sign in complaint for sign in pattern["signs"]):
            return UsageError(pattern["why"], hint=pattern["remedy"])
    last = complaint.strip().splitlines()[-1:] or [f"it ended with {code}"]
    return UsageError(f"bubblewrap does not work here: {last[0]}", hint="kern doctor")


# ---------------------------------------------------------------- macOS: not tried


def seatbelt(mounts: Sequence[Mount], home: Path, own: Path, *, online: bool) -> tuple[str, ...]:
    """Written by its documentation. It can mount nothing, so that HOME names kern's `own`, and
    links in that lead to what lies elsewhere. The last rule that fits counts. `online`: any host,
    else this machine alone, since there is no relay.
    """
    rules = ["(version 1)(allow default)(deny file-write*)", f"(deny file-read* {_below(home)})"]
    temporary = map(Path, ("/dev", "/private/tmp", "/private/var/folders"))
    rules += [f"(allow file-read* file-write* {_below(one)})" for one in temporary]
    for one in mounts:
        source, writes = one.source or one.target, "deny" if one.access is Access.READ else "allow"
        if one.access in (Access.EMPTY, Access.LINK):
            continue
        rules.append(f"(allow file-read* {_below(source)})({writes} file-write* {_below(source)})")
        if one.target.is_relative_to(home):
            place = own / one.target.relative_to(home)
            with contextlib.suppress(OSError):  # it is there
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(source)
    rules.append("(deny signal (target others))")
    rules += [] if online else ['(deny network*)(allow network* (remote ip "localhost:*"))']
    return SEATBELT, "-p", "\n".join(rules)


def _below(path: Path) -> str:
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{quoted}")'
