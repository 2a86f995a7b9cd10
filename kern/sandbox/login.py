"""An agent's login within its sandbox: a copy, which it can renew in whatever way it writes files,
and of which what it renewed comes back; and its settings, which it can only read.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from kern import plain
from kern.model import Needs
from kern.sandbox import renewal
from kern.sandbox.wall import KEPT, Access, Mount
from kern.system import workspace

_MOST = 10_000_000  # bytes


def mounts(needs: Needs, home: Path, own: Path) -> list[Mount]:
    """`own`: the home that lies in place of `home`. The folder of a login is apart from it: a link
    that an agent makes there leads nowhere from where kern reads.
    """
    found = []
    for path in map(Path, (*needs.login, *needs.excerpts)):
        if path.is_dir():
            found.append(Mount(Access.WRITE, path))
        elif path.parent == home:
            found.append(Mount(Access.LINK, path, KEPT / path.name))
        elif str(path) in needs.login:
            found.append(Mount(Access.WRITE, path.parent, _copy(path, home, own).parent))
    return found


def settings(needs: Needs, blank: Path, folders: Iterable[Mount]) -> list[Mount]:
    """What is not there lies there empty: an agent could leave it for the next one to obey.
    `blank`: the folder of `blanks`; `folders`: of its login, in which most of them lie.
    """
    places = []
    for path in map(Path, needs.settings):
        name = "file.json" if path.suffix == ".json" else "file" if path.suffix else "folder"
        source = path if path.exists() else blank / name
        places.append(Mount(Access.READ, path, source))
        for one in folders:
            if one.source and path.is_relative_to(one.target):
                clear(one.source, path.relative_to(one.target), folder=source.is_dir())
    return places


def blanks(folder: Path) -> None:
    """An empty file, one of JSON, and a folder."""
    (folder / "folder").mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text("")
    (folder / "file.json").write_text("{}\n")


def clear(outer: Path, way: Path, *, folder: bool) -> None:
    """What a child left there in the place of a mount, and of the folders on its way: bubblewrap
    would follow a link.
    """
    for one in (*[*way.parents][-2::-1], way):
        place, is_folder = outer / one, folder or one != way
        if place.is_symlink() or (place.exists() and place.is_dir() is not is_folder):
            _remove(place)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


# ---------------------------------------------------------------- what it renews


def lay(needs: Needs, home: Path, own: Path) -> None:
    """Before a child: its login, and of other files what is asked of them, whatever an earlier one
    left there. Raises OSError, KernError.
    """
    renew(needs, home, own)
    for name, keys in needs.excerpts.items():
        text = renewal.excerpt(_read(Path(os.path.realpath(name))) or "", keys)
        _write(_copy(Path(name), home, own), text)


def renew(needs: Needs, home: Path, own: Path) -> None:
    """What the agent renewed comes back, what the person's own session renewed goes in. Raises
    OSError, KernError.
    """
    with own.with_name(f"{own.name}.lock").open("a") as alone:  # other kerns have this home too
        fcntl.flock(alone, fcntl.LOCK_EX)
        for path in map(Path, needs.login):
            if not path.is_dir():
                _settle(path, _copy(path, home, own))


def _copy(path: Path, home: Path, own: Path) -> Path:
    if path.parent == home:
        return own / path.name
    digest = hashlib.sha256(os.fsencode(path.parent)).hexdigest()[:8]
    return own.with_name(f"{own.name}-{path.parent.name.strip('.')}-{digest}") / path.name


def _settle(path: Path, copy: Path) -> None:
    """Where both have changed, the person's counts."""
    laid = copy.parent.with_name(f"{copy.parent.name}-{copy.name}.laid")
    real = Path(os.path.realpath(path))
    theirs, before, after = _read(real), _read(laid), _read(copy)
    if before is not None and after is not None and theirs == before:
        theirs = renewal.renewed(before, after) or before
        _write(real, theirs)
    for place in (copy, laid):
        _write(place, theirs)


def _read(path: Path) -> str | None:
    """None for what is no login: an agent may have left a link, a pipe, or a file without end."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_size <= _MOST:
                return plain.decode(file.read())
    return None


def _write(path: Path, text: str | None) -> None:
    """Where it is not so already; None: it is not there."""
    if text is None or path.is_dir():  # an agent's doing
        _remove(path)
    if text is not None and _read(path) != text:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        workspace.replace(path, plain.encode(text))
