"""An agent's login within its sandbox: a copy, which it can renew in whatever way it writes files,
and of which only what it renewed comes back; and its settings, which it can only read.
"""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from kern import plain
from kern.model import Needs
from kern.sandbox.wall import KEPT, Access, Mount
from kern.system import workspace

_MOST = 10_000_000  # bytes
# What a renewal changes, as the CLIs name it. Whatever else stands in such a file may name a
# command, a server or another account, which the person's next session would obey.
_RENEWED = {
    *("accessToken", "refreshToken", "expiresAt", "scopes", "access", "refresh", "expires"),
    *("access_token", "refresh_token", "id_token", "expiry_date", "last_refresh"),
}


def lay(needs: Needs, home: Path, own: Path) -> Iterator[Mount]:
    """What an agent needs of the home, laid before each child, whatever an earlier one left there.
    `own`: the home that lies in place of
    `home`; the folder of a login is apart from it, so that a link that an agent makes there leads
    nowhere from where kern reads. Raises OSError, KernError.
    """
    renew(needs, home, own)
    for name, keys in needs.excerpts.items():
        settings = _object(_read(Path(os.path.realpath(name))))
        asked = {key: settings[key] for key in keys if key in settings}
        _write(_copy(Path(name), home, own), json.dumps(asked))
    folders = dict[Path, Path]()
    for path in map(Path, (*needs.login, *needs.excerpts)):
        if path.is_dir():
            yield Mount(Access.WRITE, path)
        elif path.parent == home:
            yield Mount(Access.LINK, path, KEPT / path.name)
        else:
            folders[path.parent] = _copy(path, home, own).parent
    yield from (Mount(Access.WRITE, folder, copy) for folder, copy in folders.items())
    for path in map(Path, needs.settings):
        # What is not there lies there empty: an agent could leave it for the next one to obey.
        name = "file.json" if path.suffix == ".json" else "file" if path.suffix else "folder"
        source = path if path.exists() else own.parent / "blank" / name
        for one in (*reversed(path.parents), path):  # on its way as well
            for folder in folders.keys() & {*one.parents}:
                place = folders[folder] / one.relative_to(folder)
                clear(place, folder=one != path or source.is_dir())
        yield Mount(Access.READ, path, source)


def blanks(folder: Path) -> None:
    """What lies in the place of settings that are not there."""
    (folder / "folder").mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text("")
    (folder / "file.json").write_text("{}\n")


def clear(place: Path, *, folder: bool) -> None:
    """What a child left there in the place of a mount: bubblewrap would follow a link."""
    if place.is_symlink() or (place.exists() and place.is_dir() is not folder):
        _remove(place)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        workspace.remove(place)
    else:
        place.unlink(missing_ok=True)


# ---------------------------------------------------------------- what it renews


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
    apart = own.with_name(f"{own.name}{str(path.parent).replace('/', '-')}")
    return (own if path.parent == home else apart) / path.name


def _settle(path: Path, copy: Path) -> None:
    """Where both have changed, the person's counts."""
    laid = copy.parent.with_name(f"{copy.parent.name}-{copy.name}.laid")
    real = Path(os.path.realpath(path))
    theirs, before, after = map(_read, (real, laid, copy))
    if before and after and theirs == before:
        theirs = renewed(before, after)
        _write(real, theirs)
    for place in (copy, laid):
        _write(place, theirs)


def renewed(before: str, after: str) -> str:
    """The login as it was, with the tokens as they are now."""
    old = _object(before)
    merged = _merged(old, _object(after))
    return json.dumps(merged, indent=2) if merged != old else before


def _merged(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    merged = dict(old)
    for key, value in old.items():
        now = new.get(key)
        if isinstance(value, dict) and isinstance(now, dict):
            merged[key] = _merged(value, now)
        elif key in _RENEWED and type(value) is type(now) and now:
            merged[key] = now
    return merged


def _object(text: str | None) -> dict[str, object]:
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text or "")
        return value if isinstance(value, dict) else {}
    return {}


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
