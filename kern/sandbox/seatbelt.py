"""macOS's sandbox-exec for the same list of mounts. Written by its documentation and not tried: it
can mount nothing, so that HOME names the home of kern's, and links in it lead to what may be read.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kern.sandbox.wall import KEPT, Access, Mount

PROGRAM = "sandbox-exec"
_RULES = {
    Access.READ: "(allow file-read* {0})(deny file-write* {0})",
    Access.WRITE: "(allow file-read* file-write* {0})",
    Access.DEVICE: "(allow file-read* file-write* {0})",
}


def plain(mounts: Iterable[Mount]) -> list[Mount]:
    """A link leads to the person's own; what is kept of a home lies in it."""
    return [
        replace(one, access=Access.READ, source=one.target) if one.access is Access.LINK else one
        for one in mounts
        if not (one.source and one.source.is_relative_to(KEPT))
    ]


def argv(mounts: Iterable[Mount], home: Path, own: Path, *, closed: bool) -> list[str]:
    """What comes before a command. `closed`: nothing but this machine is reached."""
    found = [one for one in mounts if one.source == one.target]
    for one in found:
        if one.target.is_relative_to(home):
            _link(own / one.target.relative_to(home), one.target)
    return [PROGRAM, "-p", profile(found, home, own, closed=closed)]


def profile(found: Iterable[Mount], home: Path, own: Path, *, closed: bool) -> str:
    """The last rule that fits counts."""
    rules = ["(version 1)(allow default)(deny file-write*)", f"(deny file-read* {_below(home)})"]
    writable = (own, *map(Path, ("/dev", "/private/tmp", "/private/var/folders")))
    rules += [_RULES[Access.WRITE].format(_below(path)) for path in writable]
    rules += [_RULES[one.access].format(_below(one.target)) for one in found]
    rules.append("(deny signal (target others))")
    if closed:
        rules.append('(deny network*)(allow network* (remote ip "localhost:*"))')
    return "\n".join(rules)


def _link(place: Path, target: Path) -> None:
    with contextlib.suppress(OSError):  # it is there
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)


def _below(path: Path) -> str:
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{quoted}")'
