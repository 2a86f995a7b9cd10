"""Copies of guarded files: what each was, told by mode, size and hash; the bytes beside the
repository's other private files, never in an object that a push could take along.
"""

import base64
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from kern.frozen import frozen
from kern.system import workspace

LARGEST = 8 << 20  # bytes of one file; of a larger one only a change is seen
LINK, LARGE, ODD = "120000", "large", "odd"
_MOST_STORED = 256 << 20


@frozen
class Copy:
    """What stood in a place."""

    mode: str  # as git writes it, or why there are no bytes of it
    size: int
    digest: str
    bits: int = 0o644  # permissions; a change of these alone is none

    def same(self, other: "Copy | None") -> bool:
        mine = (self.mode, self.size, self.digest)
        return other is not None and mine == (other.mode, other.size, other.digest)


Contents = dict[str, bytes]  # by their hash


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def of(data: bytes, mode: str) -> Copy:
    return Copy(mode, len(data), digest(data), 0o755 if mode == "100755" else 0o644)


def look(place: Path, contents: Contents, known: Copy | None = None) -> Copy | None:
    """What stands there now, its bytes added to `contents`; None for nothing, or a folder. With
    `known` only as closely as it takes to tell the two apart. Never waits for a pipe.
    """
    try:
        info = place.lstat()
        if stat.S_ISDIR(info.st_mode):
            return None
        if stat.S_ISLNK(info.st_mode):
            target = os.fsencode(os.readlink(place))
            contents[digest(target)] = target
            return of(target, LINK)
    except OSError:
        return None
    if not stat.S_ISREG(info.st_mode):
        return Copy(ODD, 0, str(stat.S_IFMT(info.st_mode)))
    mode = "100755" if info.st_mode & stat.S_IXUSR else "100644"
    bits = stat.S_IMODE(info.st_mode)
    stamp = f"{info.st_mtime_ns}-{info.st_ctime_ns}-{info.st_ino}"
    unread = Copy(LARGE, info.st_size, stamp, bits)
    if known and known.mode == LARGE:
        return unread
    if known and (known.mode, known.size) != (mode, info.st_size):
        return Copy(mode, info.st_size, "", bits)
    data = read(place, LARGEST) if info.st_size <= LARGEST else None
    if data is None:
        return unread
    contents[digest(data)] = data
    return Copy(mode, len(data), digest(data), bits)


def read(place: Path, most: int) -> bytes | None:
    """A file's bytes, where it is one, can be read and holds no more."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None


# -------------------------------------------------------------------- in a file, and told by text


def listed(hooks: str, places: Iterable[tuple[str, str]], files: Mapping[str, Copy]) -> bytes:
    """The places and what stood there, without a byte of it. In ASCII, whatever the names hold."""
    told = {name: [c.mode, c.size, c.digest, c.bits] for name, c in files.items()}
    whole = {"hooks": hooks, "places": [*map(list, places)], "files": told}
    return json.dumps(whole, sort_keys=True, indent=0).encode()


def unlisted(data: bytes) -> tuple[str, list[tuple[str, str]], dict[str, Copy]]:
    whole = json.loads(data)
    places = [(name, how) for name, how in whole["places"]]
    return whole["hooks"], places, {name: Copy(*values) for name, values in whole["files"].items()}


def stored(file: Path) -> Contents:
    """What an earlier kern stored. What does not bear out its hash has been changed: left out."""
    try:
        raw = json.loads(read(file, _MOST_STORED) or b"{}")
        pairs = [(name, base64.b64decode(text)) for name, text in raw.items()]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return {name: data for name, data in pairs if digest(data) == name}


def store(file: Path, contents: Mapping[str, bytes]) -> None:
    """Add to what is stored, whole or not at all."""
    there = stored(file)
    if not contents.keys() <= there.keys():
        _write(file, {**there, **contents})


def prune(file: Path, wanted: Collection[str]) -> None:
    """Drop what no start ref names any more."""
    if not wanted:
        with contextlib.suppress(OSError):  # an agent can have made a folder of it
            file.unlink(missing_ok=True)
        return
    there = stored(file)
    if there.keys() - {*wanted}:
        _write(file, {name: data for name, data in there.items() if name in wanted})


def _write(file: Path, contents: Mapping[str, bytes]) -> None:
    texts = {name: base64.b64encode(data).decode() for name, data in sorted(contents.items())}
    with workspace.reported(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir() and not file.is_symlink():
            file.rename(file.with_name(f"{file.name}-{os.getpid()}"))
    workspace.replace(file, json.dumps(texts).encode())
