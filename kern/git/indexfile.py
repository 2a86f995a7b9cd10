"""git's index file, read as it lies there: what git remembers of each file, without a process for
it and without a look at the disk.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kern.git.faults import GitFailed

_HEAD = struct.Struct(">4sII")  # magic, version, number of entries
_MORE = struct.Struct(">H")
_EXTENDED = 0x4000
PLAIN = 2  # the version without more flags
_PADDED = (PLAIN, 3)  # in the fourth each path goes on from the one before
SPARSE = b"sdir\0\0\0\0"  # in an index that has folders in place of their files
LINK = 0o160000  # the mode of a submodule
SKIPPED, INTENDED = 0x4000 << 16, 0x2000 << 16  # by a sparse checkout, by `git add -N`
ASSUMED, UNMERGED = 0x8000, 0x3000  # git takes it for unchanged, one side of a conflict


class Known(NamedTuple):
    """One entry. Where git does not trust what it knows, the size is 0: it reads the file."""

    path: bytes
    mode: int
    blob: bytes  # its id
    size: int
    changed: int  # the file's ctime, in seconds
    flags: int  # SKIPPED and the others


def version(place: Path) -> int:
    """0 where there is no index."""
    try:
        with place.open("rb") as file:
            return int.from_bytes(file.read(_HEAD.size)[4:8], "big")
    except OSError:
        return 0


def read(place: Path, width: int, since: int = 0) -> Iterator[Known]:
    """The entries of an index that is not split; `width`: bytes of an object's name; `since`: of
    files that changed in that second or later.
    """
    try:
        yield from _entries(place.read_bytes(), width, since)
    except (ValueError, IndexError, struct.error):
        raise GitFailed(("ls-files",), 128, "fatal: index file corrupt") from None


def _entries(data: bytes, width: int, since: int) -> Iterator[Known]:
    form = struct.Struct(f">I20xI8xI{width}sH")
    magic, number, count = _HEAD.unpack_from(data)
    if magic != b"DIRC" or not 2 <= number <= 4:
        raise ValueError(number)
    padded = number in _PADDED
    at, path = _HEAD.size, b""
    for _ in range(count):
        changed, mode, size, blob, flags = form.unpack_from(data, at)
        begin = at + form.size
        if flags & _EXTENDED:
            flags |= _MORE.unpack_from(data, begin)[0] << 16
            begin += _MORE.size
        if padded:
            end = data.index(b"\0", begin)
            path = data[begin:end]
            at += ((end - at) // 8 + 1) * 8
        else:
            dropped, begin = _number(data, begin)
            end = data.index(b"\0", begin)
            path = path[: len(path) - dropped] + data[begin:end]
            at = end + 1
        if changed >= since:
            yield Known(path, mode, blob, size, changed, flags)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """As git packs one, and where it ends."""
    found = data[at] & 127
    while data[at] & 128:
        at += 1
        found = (found + 1 << 7) + (data[at] & 127)
    return found, at + 1
