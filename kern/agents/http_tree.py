"""The working tree as an endpoint's model may touch it: no path leads out of it, git's own folders
are closed, and what kern writes can only be read.

Where a path leads is resolved first. The place is then opened folder by folder, through no link: a
link that something puts there in between leads nowhere.
"""

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence

from kern import plain

KERNS = ("spec.md", "learnings.md", "kern.toml", ".kern")  # at the top, whatever their case
_SKIPPED = {"node_modules", "__pycache__"}
_SIGNS = {"CACHEDIR.TAG", "pyvenv.cfg"}  # of a folder that a tool fills for itself
LARGEST = 8_000_000  # bytes of a file that is read
_LONGEST = 1000  # bytes of a path
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not be waited for


class Refused(Exception):
    """Why a tool does not do it, in words for the model."""


class Closed(Refused):
    """Because it may not be."""


class Tree:
    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._top = os.open(self.root, _FOLDER)
        self._gits = _gits(self.root)

    def read(self, path: str) -> bytes:
        with self._file(path, os.O_RDONLY) as file:
            size = os.fstat(file).st_size
            if size > LARGEST:
                raise Refused(f"{path} has {size // 1_000_000} MB: too much to be read at once")
            with open(file, "rb", closefd=False) as opened:
                return opened.read(LARGEST)

    def text(self, path: str) -> str | None:
        """Empty where it cannot be read or is too large, None where it is no text."""
        data = b""
        with contextlib.suppress(Refused):
            data = self.read(path)
        return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")

    def write(self, path: str, data: bytes) -> bool:
        """With the folders above it; whether the file is new. One with other names elsewhere is
        replaced, not written to.
        """
        *above, name = self._parts(path, writing=True) or (".",)
        with _said(path), self._folder(above, make=True) as folder:
            before = None
            with contextlib.suppress(FileNotFoundError):
                before = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if before and not stat.S_ISREG(before.st_mode):
                raise Refused(f"{path} is no file")
            mode = stat.S_IMODE(before.st_mode) if before else 0o666
            if before and before.st_nlink > 1:
                os.unlink(name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FILE
            with open(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
                file.write(data)
        return before is None

    def entries(self, path: str) -> list[str]:
        """Of one folder, by name: folders with a slash, links with where they lead."""
        parts = self._parts(path)
        with _said(path), self._folder(parts) as folder, os.scandir(folder) as found:
            return sorted(
                f"{one.name} -> {os.readlink(one.name, dir_fd=folder)}"
                if one.is_symlink()
                else f"{one.name}/"
                if one.is_dir(follow_symlinks=False)
                else one.name
                for one in found
                if not self._is_git((*parts, one.name))
            )

    def files(self, path: str) -> Iterator[str]:
        """Those at a path and below it, by their paths from the top, in order; through no link, and
        without what tools keep for themselves.
        """
        parts = self._parts(path)
        with _said(path):
            if parts and not self._is_folder(parts):
                yield "/".join(parts)
                return
            with self._folder(parts) as top:
                for place, folders, names, _ in os.fwalk(".", dir_fd=top):
                    inner = place.split(os.sep)[1:]
                    below = (*parts, *inner)
                    if inner and _SIGNS.intersection(names):
                        folders.clear()
                        continue
                    folders[:] = sorted(
                        one
                        for one in folders
                        if one not in _SKIPPED and not self._is_git((*below, one))
                    )
                    for name in sorted(names):
                        if not self._is_git((*below, name)):
                            yield "/".join((*below, name))

    def _parts(self, path: str, *, writing: bool = False) -> tuple[str, ...]:
        """The names that lead from the top to where the path really ends."""
        try:
            if len(os.fsencode(path)) > _LONGEST:
                raise ValueError
            real = os.path.realpath(os.path.join(self.root, path))
        except (OSError, ValueError):  # a name with a zero byte
            raise Refused(f"{plain.line(path, 200)} is no path") from None
        if real == self.root:
            return ()
        if not real.startswith(self.root.rstrip(os.sep) + os.sep):
            raise Closed(f"{path} lies outside of the working tree, which is all that is open")
        parts = tuple(real[len(self.root.rstrip(os.sep)) + 1 :].split(os.sep))
        if self._is_git(parts):
            raise Closed(f"{path} belongs to git, and is closed")
        if writing and _plain(parts[0]) in KERNS:
            raise Closed(f"{path} may be read; kern or a person writes it, and nobody else")
        return parts

    def _is_git(self, parts: Sequence[str]) -> bool:
        if any(_plain(part) == ".git" for part in parts):
            return True
        return any(tuple(parts[: len(one)]) == one for one in self._gits)

    def _is_folder(self, parts: Sequence[str]) -> bool:
        with self._folder(parts[:-1]) as folder:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            return stat.S_ISDIR(found.st_mode)

    @contextlib.contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        folder = os.dup(self._top)
        try:
            for name in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _file(self, path: str, flags: int) -> Iterator[int]:
        *above, name = self._parts(path) or (".",)
        with _said(path), self._folder(above) as folder:
            file = os.open(name, flags | _FILE, dir_fd=folder)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise Refused(f"{path} is no file")
                yield file
            finally:
                os.close(file)


@contextlib.contextmanager
def _said(path: str) -> Iterator[None]:
    """A fault of the file system, as the model reads it."""
    try:
        yield
    except FileNotFoundError:
        raise Refused(f"{path} is not there") from None
    except IsADirectoryError:
        raise Refused(f"{path} is a folder") from None
    except OSError as exc:
        raise Refused(f"{path}: {exc.strerror}") from None


def _plain(name: str) -> str:
    """As file systems compare names that know no case, and pass over what cannot be seen."""
    return plain.UNSAFE.sub("", name).casefold()


def _gits(root: str) -> Collection[tuple[str, ...]]:
    """Where a `.git` that is a file says that git's folder is, if within the tree; and the one that
    worktrees share.
    """
    found = []
    with contextlib.suppress(OSError):
        with open(os.path.join(root, ".git"), "rb") as file:
            named = file.read(LARGEST).decode("utf-8", "surrogateescape")
        folder = os.path.join(root, named.removeprefix("gitdir:").strip())
        found.append(os.path.realpath(folder))
        with open(os.path.join(folder, "commondir"), "rb") as file:
            shared = file.read(LARGEST).decode("utf-8", "surrogateescape").strip()
        found.append(os.path.realpath(os.path.join(folder, shared)))
    inside = [one for one in found if one.startswith(root + os.sep)]
    return [tuple(one[len(root) + 1 :].split(os.sep)) for one in inside]
