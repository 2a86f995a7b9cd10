"""The programs that hold a child: what comes before its command, by its bounds, and why bubblewrap
cannot work here.
"""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from kern.sandbox.bounds import Access, Bounds

BUBBLEWRAP, DOCKER, SEATBELT = "bwrap", "docker", "sandbox-exec"
_NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    "--unshare-cgroup-try",
)
_REASONS = (
    ("mount proc", "this container allows no /proc of its own"),
    ("uid map", "AppArmor allows bubblewrap no user namespaces"),
    ("Operation not permitted", "user namespaces are off"),
    ("No permissions", "user namespaces are off"),
    ("No space left", "user namespaces are used up, or set to none"),
    ("nknown option", "this bubblewrap is too old: 0.4.0 is needed"),
)
_REMEDIES = {
    _REASONS[1][1]: "an AppArmor profile for bwrap, or: sysctl -w "
    "kernel.apparmor_restrict_unprivileged_userns=0",
    _REASONS[2][1]: "sysctl -w kernel.unprivileged_userns_clone=1",
    _REASONS[4][1]: "sysctl -w user.max_user_namespaces=10000",
    _REASONS[0][1]: "start the container with --security-opt systempaths=unconfined",
}
INSTALL = "install bubblewrap: apt install bubblewrap, dnf install bubblewrap"
_RULES = {
    Access.WRITE: "(allow file-read* file-write* {})",
    Access.PRIVATE: "(allow file-read* file-write* {})",  # macOS has no private one
    Access.READ: "(deny file-write* {})",
    Access.HIDDEN: "(deny file-read* file-write* {})",
}


def bubblewrap(
    program: str, bounds: Bounds, cwd: Path, is_folder: Callable[[Path], bool | None], *, dies: bool
) -> list[str]:
    """Namespaces. `is_folder` is None where nothing is: what does not exist cannot be bound.
    `dies`: at once with all that it has started, when the command or kern does.
    """
    ending = ("--die-with-parent",) if dies else ()
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    found = [program, *_NAMESPACES, *ending, *mounts]
    for path, access in bounds.ordered():
        folder = is_folder(path)
        if folder is None:
            continue
        place = str(path)
        match access:
            case Access.WRITE:
                found += ["--bind", place, place]
            case Access.READ:
                found += ["--ro-bind", place, place]
            case Access.HIDDEN if not folder:
                found += ["--ro-bind", os.devnull, place]
            case Access.HIDDEN | Access.PRIVATE:
                found += ["--tmpfs", place]
    if bounds.hosts is not None:
        found.append("--unshare-net")
    return [*found, "--chdir", str(cwd), "--"]


def reason(code: int, complaint: str) -> tuple[str, str]:
    """Why a trial failed, and what helps."""
    for sign, why in _REASONS:
        if sign in complaint:
            return why, _REMEDIES.get(why, INSTALL)
    last = complaint.strip().splitlines()[-1:] or [f"it ended with {code}"]
    return f"bubblewrap does not work here: {last[0]}", "kern doctor"


def docker(
    image: str,
    name: str,
    user: str,
    bounds: Bounds,
    env: Mapping[str, str],
    cwd: Path,
    is_folder: Callable[[Path], bool | None],
    git: Collection[Path] = (),
) -> list[str]:
    """A container of an image that the person names. Of the machine's files it has only what may be
    written, what within that may be read, and git's folders, of which a worktree's lie outside.
    """
    found = [DOCKER, "run", "--rm", "--interactive", "--init", "--name", name]
    found += ["--user", user, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    for path, access in bounds.ordered():
        folder = is_folder(path)
        if folder is None or access is Access.PRIVATE:
            continue
        if access is Access.WRITE:
            found += ["--volume", f"{path}:{path}"]
        elif path in git or _within(path, bounds):
            if access is Access.READ:
                found += ["--volume", f"{path}:{path}:ro"]
            else:
                found += ["--tmpfs", str(path)] if folder else [f"--volume=/dev/null:{path}:ro"]
    if cwd not in bounds.places or bounds.places[cwd] is Access.READ:
        found += ["--volume", f"{cwd}:{cwd}:ro"]
    for variable in sorted(env):
        if variable not in ("PATH", "HOSTNAME"):
            found += ["--env", variable]  # its value stays out of the list of processes
    if bounds.hosts is not None:
        found += ["--network", "none"]
    return [*found, "--workdir", str(cwd), image]


def _within(path: Path, bounds: Bounds) -> bool:
    return any(bounds.places.get(one) is Access.WRITE for one in path.parents)


def profile(bounds: Bounds) -> str:
    """Of macOS's sandbox-exec. The last rule that fits a path counts."""
    rules = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rules.append('(allow file-write* (subpath "/dev"))')
    rules += [_RULES[access].format(_subpath(str(path))) for path, access in bounds.ordered()]
    rules.append("(deny signal (target others))")
    if bounds.hosts is not None:
        rules.append("(deny network*)")
    return "\n".join(rules)


def _subpath(path: str) -> str:
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{quoted}")'


def seatbelt(bounds: Bounds) -> list[str]:
    return [SEATBELT, "-p", profile(bounds)]
