"""Copies of files, their bytes in one file and a list beside it: written, read and laid out for a
person. Of what these files are nothing is known here.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kern.git import checkout
from kern.system import workspace

BYTES, LIST, FILES = "bytes", "list.json", "files"
_BAD_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class Copy(NamedTuple):
    """A file, link or folder as it was; times in nanoseconds."""

    mode: int  # type and permissions
    size: int
    mtime: int
    ctime: int
    inode: int
    content: str  # SHA-256 of a file's, a link's target
    start: int  # of a file's bytes among all


def copy_of(info: os.stat_result, content: str, start: int) -> Copy:
    when = info.st_mtime_ns, info.st_ctime_ns
    return Copy(info.st_mode, info.st_size, *when, info.st_ino, content, start)


def opened(place: str | Path) -> BinaryIO:
    """A file to read: no link is followed, no pipe waited for."""
    return open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def copy_bytes(source: BinaryIO, target: BinaryIO, most: int) -> str:
    """The SHA-256 of what was copied."""
    digest = hashlib.sha256()
    while piece := source.read(min(most, 1 << 20)):
        digest.update(piece)
        target.write(piece)
        most -= len(piece)
    return digest.hexdigest()


def take_out(folder: Path, copy: Copy, target: Path) -> None:
    """One file of the copies, onto the disk."""
    with opened(folder / BYTES) as source, target.open("wb") as file:
        source.seek(copy.start)
        if copy_bytes(source, file, copy.size) != copy.content:
            raise OSError(errno.EBADMSG, "its copy is damaged")
        file.flush()
        os.fsync(file.fileno())


def restore_marks(place: Path, copy: Copy) -> None:
    """Permissions and time, where the content is the same."""
    with contextlib.suppress(OSError):
        now = os.lstat(place)
        if stat.S_ISLNK(now.st_mode) or stat.S_IFMT(now.st_mode) != stat.S_IFMT(copy.mode):
            return
        if now.st_mode != copy.mode:
            place.chmod(stat.S_IMODE(copy.mode))
        if stat.S_ISREG(now.st_mode) and now.st_mtime_ns != copy.mtime:
            os.utime(place, ns=(now.st_atime_ns, copy.mtime))


@contextlib.contextmanager
def noting(path: str, left: dict[str, str]) -> Iterator[None]:
    """Why something cannot be done with this path; a full or broken disk stops everything."""
    try:
        yield
    except OSError as exc:
        if exc.errno in _BAD_DISK:
            raise
        left[path] = exc.strerror or str(exc)


def drop(folder: Path) -> None:
    """But for what a person was told of. The list first: without it the rest does not count."""
    (folder / LIST).unlink(missing_ok=True)
    (folder / BYTES).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it still holds what was laid out
        folder.rmdir()


def lay_out(folder: Path, copies: Mapping[str, Copy], paths: Iterable[str]) -> None:
    """For a person, in the place of what was laid out before."""
    for other in folder.parent.glob(f"*/{FILES}"):
        if other.parent != folder:
            shutil.rmtree(other, ignore_errors=True)
    with workspace.reported(folder):
        for path in paths:
            target = folder / FILES / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with noting(path, {}):
                if stat.S_ISREG(copies[path].mode):
                    take_out(folder, copies[path], target)


def listed(folder: Path) -> dict[str, Copy]:
    """By path; nothing where there is no list, or something else has written it."""
    try:
        rows = json.loads(workspace.read(folder / LIST) or b"{}").items()
        return {path: Copy(*row) for path, row in rows if not checkout.leads_out(path)}
    except (ValueError, TypeError, AttributeError):
        return {}
