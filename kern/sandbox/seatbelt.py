"""macOS's sandbox-exec for the same list of mounts. Written by its documentation and not tried: it
can mount nothing, so that HOME names the home of kern's, and links in it lead to what may be read.
"""

import contextlib
from pathlib import Path

from kern.sandbox.wall import KEPT, Access, Wall

PROGRAM = "sandbox-exec"
_READ = "(allow file-read* {0})(deny file-write* {0})"
_WRITE = "(allow file-read* file-write* {0})"


def argv(wall: Wall, own: Path) -> list[str]:
    """What comes before a command. The last rule that fits counts."""
    home = wall.home
    rules = ["(version 1)(allow default)(deny file-write*)", f"(deny file-read* {_below(home)})"]
    writable = (own, *map(Path, ("/dev", "/private/tmp", "/private/var/folders")))
    rules += [_WRITE.format(_below(path)) for path in writable]
    for one in wall.mounts:
        kept = one.source is None or one.source.is_relative_to(KEPT)
        if kept or (one.access is not Access.LINK and one.source != one.target):
            continue
        reads = one.access in (Access.READ, Access.LINK)
        rules.append((_READ if reads else _WRITE).format(_below(one.target)))
        if one.target.is_relative_to(home):
            place = own / one.target.relative_to(home)
            with contextlib.suppress(OSError):  # it is there
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(one.target)
    rules.append("(deny signal (target others))")
    if wall.hosts is not None:  # there is no relay: nothing but this machine
        rules.append('(deny network*)(allow network* (remote ip "localhost:*"))')
    return [PROGRAM, "-p", "\n".join(rules)]


def _below(path: Path) -> str:
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{quoted}")'
