"""An agent's login within its sandbox: a copy, which it can renew in whatever way it writes files,
and of which what it renewed comes back.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kern import logins, plain
from kern.model import Needs
from kern.sandbox.wall import KEPT, Access, Mount

_MOST = 10_000_000  # bytes


def mounts(needs: Needs, home: Path, own: Path) -> list[Mount]:
    """`own`: the home that lies in place of `home`. The folder of a login is apart from it: a link
    that an agent makes there leads nowhere from where kern reads.
    """
    found = []
    for path in map(Path, (*needs.login, *needs.excerpts)):
        if path.parent == home and not path.is_dir():
            found.append(Mount(Access.LINK, path, KEPT / path.name))
        elif str(path) in needs.login:
            source = path if path.is_dir() else _desk(path, home, own).parent
            found.append(Mount(Access.WRITE, path if path.is_dir() else path.parent, source))
    return found


def lay(needs: Needs, home: Path, own: Path) -> None:
    """Before a child: its login, and of other files what is asked of them, whatever an earlier one
    left there. Raises OSError.
    """
    renew(needs, home, own)
    with alone(own):
        for name, keys in needs.excerpts.items():
            text = logins.excerpt(_read(Path(os.path.realpath(name))) or "", keys)
            _write(_desk(Path(name), home, own), text)


def renew(needs: Needs, home: Path, own: Path) -> None:
    """What the agent renewed comes back, what the person's own session renewed goes in. Raises
    OSError.
    """
    with alone(own):
        for path in map(Path, needs.login):
            if not path.is_dir():
                _settle(path, _desk(path, home, own))


def _desk(path: Path, home: Path, own: Path) -> Path:
    """Where a copy of that file lies."""
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
        theirs = logins.renewed(before, after) or before
        if theirs != before:
            _write(real, theirs)
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in (copy, laid):
        if theirs is None:
            place.unlink(missing_ok=True)
        elif _read(place) != theirs:
            _write(place, theirs)


@contextlib.contextmanager
def alone(own: Path, *, wait: bool = True) -> Iterator[bool]:
    """Of all kerns that share the homes there; without waiting, whether this one is."""
    lock = os.open(own.with_name(f"{own.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    first = True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        first = False
    try:
        yield first
    finally:
        os.close(lock)


def _read(path: Path) -> str | None:
    """None for what is no login: an agent may have left a link, a pipe, or a file without end."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_size <= _MOST:
                return plain.decode(file.read())
    return None


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    if path.is_dir() and not path.is_symlink():  # an agent's doing
        shutil.rmtree(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(plain.encode(text))
    os.replace(temporary, path)
