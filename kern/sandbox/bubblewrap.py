"""bubblewrap's command line for a list of mounts, and why it cannot work here."""

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from kern.sandbox.wall import Access, Mount

PROGRAM = "bwrap"
_SYSTEM = "/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin"
INSTALL = "install bubblewrap: apt install bubblewrap, dnf install bubblewrap"
_NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--cap-drop", "ALL"),
)
_OPTIONS = {Access.READ: "--ro-bind", Access.WRITE: "--bind", Access.DEVICE: "--dev-bind"}
_APPARMOR = "AppArmor allows bubblewrap no user namespaces"
_PROFILE = (
    "give bwrap an AppArmor profile with `userns,`, or: "
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)
_REASONS = (  # a sign, why, what helps
    (
        "mount proc",
        "this container allows no /proc of its own",
        "start the container with --security-opt systempaths=unconfined",
    ),
    ("uid map", _APPARMOR, _PROFILE),
    ("RTM_NEW", _APPARMOR, _PROFILE),
    ("No space left", "user namespaces are used up", "sysctl -w user.max_user_namespaces=10000"),
    ("Operation not permitted", "user namespaces are off", ""),
    ("No permissions", "user namespaces are off", ""),
    ("nknown option", "this bubblewrap is too old: 0.4.0 is needed", INSTALL),
)
_TURN_ON = "sysctl -w kernel.unprivileged_userns_clone=1"


class Overlays(StrEnum):
    OWN = "own"  # bubblewrap's
    BEFORE = "before"  # mounted by `mounting`, in a namespace around it
    NONE = "none"  # what would be beneath is seen, and not written


def argv(
    program: str,
    mounts: Iterable[Mount],
    cwd: Path,
    *,
    network: bool = True,
    dies: bool = True,
    over: Overlays = Overlays.OWN,
) -> list[str]:
    """What comes before a command. `network`: the machine's own; else none. `dies`: at once, with
    all that it has started, when the command or kern does.
    """
    found = [program, *_NAMESPACES]
    if over is Overlays.BEFORE and os.getuid():  # who is root there is nobody else
        found += ["--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid())]
    found += ["--die-with-parent"] if dies else []
    found += [] if network else ["--unshare-net"]
    found += ["--dev", "/dev", "--proc", "/proc"]
    if os.getuid() == 0:  # they ask for the user alone, and for no capability
        found += ["--ro-bind", "/proc/sys", "/proc/sys"]
    for one in mounts:
        if one.access is Access.FOLDER:
            found += ["--dir", str(one.target)]
        elif one.source is None:
            found += ["--tmpfs", str(one.target)]
        elif one.lower:
            found += _overlay(one, over)
        elif one.access is Access.LINK:
            found += ["--symlink", str(one.source), str(one.target)]
        elif one.target.is_symlink() and one.target.parent == Path("/"):
            found += ["--symlink", os.readlink(one.target), str(one.target)]
        else:
            found += [_OPTIONS[one.access], str(one.source), str(one.target)]
    return [*found, "--remount-ro", "/", "--chdir", str(cwd), "--"]


def overlays(told: str) -> bool:
    """Whether it has them, by what `--version` prints."""
    match = re.search(r"(\d+)\.(\d+)", told)
    return match is not None and tuple(map(int, match.groups())) >= (0, 11)


def _overlay(one: Mount, over: Overlays) -> list[str]:
    assert one.source and one.lower
    if over is Overlays.NONE:
        return ["--ro-bind", str(one.lower[-1]), str(one.target)]
    if over is Overlays.BEFORE:
        return ["--bind", str(one.source.with_name("merged")), str(one.target)]
    work = one.source.with_name("work")
    lower = [word for path in reversed(one.lower) for word in ("--overlay-src", path)]
    return list(map(str, (*lower, "--overlay", one.source, work, one.target)))


def mounting(program: str, mounts: Iterable[Mount]) -> str:
    """A script that mounts the overlays, then becomes the program with its own arguments: for an
    ordinary user in a user namespace (Linux 5.11).
    """
    lines = [_mount(one) for one in mounts if one.lower]
    unshare, sh = _program("unshare"), _program("sh")
    inner = shlex.quote(" && ".join([*lines, f'exec {shlex.quote(program)} "$@"']))
    return f'#!/bin/sh\nexec {unshare} {"-Urm" if os.getuid() else "-m"} {sh} -c {inner} sh "$@"\n'


def _program(name: str) -> str:
    """The system's: what PATH names may lie in the tree, and this runs outside of the sandbox."""
    return shutil.which(name, path=_SYSTEM) or f"/bin/{name}"


def _mount(one: Mount) -> str:
    assert one.source and one.lower
    places = one.source, one.source.with_name("work"), *one.lower
    upper, work, *lower = (re.sub(r"([\\,:])", r"\\\1", str(path)) for path in places)
    options = f"lowerdir={':'.join(lower)},upperdir={upper},workdir={work},userxattr"
    merged = str(one.source.with_name("merged"))
    return shlex.join((_program("mount"), "-t", "overlay", "overlay", "-o", options, merged))


def reason(code: int, complaint: str) -> tuple[str, str]:
    """Why a trial failed, and what helps."""
    for sign, why, remedy in _REASONS:
        if sign in complaint:
            return why, remedy or _TURN_ON
    last = complaint.strip().splitlines()[-1:] or [f"it ended with {code}"]
    return f"bubblewrap does not work here: {last[0]}", "kern doctor"
