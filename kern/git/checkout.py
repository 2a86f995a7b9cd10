"""Paths of the working tree made what a tree's entries say, one file after the other."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from kern.errors import KernError
from kern.git.repository import LINK, SUBMODULE, Entry, Repo

Modes = Callable[[str, Entry], int]


def plain_mode(_: str, entry: Entry) -> int:
    """The permissions that git would give a file."""
    umask = os.umask(0)
    os.umask(umask)
    return (0o777 if entry.mode == "100755" else 0o666) & ~umask


def put_back(repo: Repo, wanted: Mapping[str, Entry | None], modes: Modes = plain_mode) -> None:
    """Make each path on the disk what the entry says, None for absent. Deletions first: a folder
    may stand where a file stood. A submodule is no file and is left as it is.
    """
    disk = _Disk(repo, modes)
    try:
        for path in sorted((p for p, e in wanted.items() if e is None), reverse=True):
            disk.remove(path)
        new = [(p, e) for p, e in sorted(wanted.items()) if e and e.mode != SUBMODULE]
        for path, entry in new:
            disk.write(path, entry)
    finally:
        disk.close()


def leads_out(path: str) -> bool:
    """Whether it is no plain path below the top level, or one of git's own."""
    return os.path.normpath(path) != path or bool({"", "..", ".", ".git"} & {*path.split("/")})


def in_real_folder(root: Path, path: str, real: dict[str, bool]) -> bool:
    """Whether all folders above the path are folders: behind a symbolic link lies something else.
    `real` remembers them.
    """
    folder = os.path.dirname(path)
    known = real.get(folder)
    if known is None:
        try:
            mode = os.lstat(root / folder).st_mode
        except (FileNotFoundError, NotADirectoryError):
            mode = stat.S_IFDIR
        known = real[folder] = stat.S_ISDIR(mode) and in_real_folder(root, folder, real)
    return known


def open_folder(folder: Path, need: int = os.R_OK | os.W_OK | os.X_OK) -> int | None:
    """Let the owner read, enter and write it again; its mode before, None where nothing was due."""
    try:
        mode = os.lstat(folder).st_mode
        if stat.S_ISDIR(mode) and not os.access(folder, need):
            os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)
            return stat.S_IMODE(mode)
    except OSError:  # what needs it fails, and says so
        pass
    return None


class _Disk:
    """The working tree under `put_back`: folders that are closed to writing open meanwhile."""

    def __init__(self, repo: Repo, modes: Modes) -> None:
        self.repo = repo
        self.modes = modes
        self.opened: dict[Path, int | None] = {repo.root: None}

    def close(self) -> None:
        for folder, mode in reversed(self.opened.items()):
            if mode is not None and folder.is_dir() and not folder.is_symlink():
                folder.chmod(mode)

    def _open(self, folder: Path) -> None:
        if folder not in self.opened:
            self._open(folder.parent)
            self.opened[folder] = open_folder(folder)

    def remove(self, path: str) -> None:
        if not in_real_folder(self.repo.root, path, {"": True}):
            return
        full = self.repo.root / path
        self._open(full.parent)
        try:
            if full.is_dir() and not full.is_symlink():
                return
            full.unlink(missing_ok=True)
        except OSError as exc:
            raise self._failed(full, exc) from exc
        parent = full.parent
        while parent != self.repo.root:
            self._open(parent.parent)
            try:
                parent.rmdir()
            except OSError:
                return
            parent = parent.parent

    def write(self, path: str, entry: Entry) -> None:
        full = self.repo.root / path
        if not in_real_folder(self.repo.root, path, {"": True}):
            raise self._in_the_way(path)
        self._open(full.parent)
        if full.is_dir() and not full.is_symlink():
            try:
                full.rmdir()
            except OSError:
                raise self._in_the_way(path) from None
        self.repo.scratch.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix="put-back-", dir=self.repo.scratch)) / "file"
        try:
            full.parent.mkdir(parents=True, exist_ok=True)
            if entry.mode == LINK:
                os.symlink(b"".join(self.repo.pieces(entry.blob)), os.fsencode(temporary))
            else:
                with temporary.open("wb") as file:
                    file.writelines(self.repo.pieces(entry.blob))
                temporary.chmod(self.modes(path, entry))
            _move(temporary, full)
        except NotADirectoryError:
            raise self._in_the_way(path) from None
        except OSError as exc:
            raise self._failed(full, exc) from exc
        finally:
            shutil.rmtree(temporary.parent, ignore_errors=True)

    def _failed(self, full: Path, exc: OSError) -> KernError:
        return KernError(
            f"cannot restore {full}: {exc.strerror}",
            hint="fix it, then run kern again: it resumes",
        )

    def _in_the_way(self, path: str) -> KernError:
        return KernError(
            f"cannot restore {path}: something that git does not track stands in its way",
            hint=f"move what is at {self.repo.root / path} away, then run kern again: it resumes",
        )


def _move(new: Path, place: Path) -> None:
    """What stands in the place, a link or a pipe too, is replaced and never written through."""
    try:
        os.rename(new, place)
    except OSError as exc:
        if exc.errno != errno.EXDEV:  # the git directory may lie on another disk
            raise
        place.unlink(missing_ok=True)
        shutil.move(new, place)


def aside_in(repo: Repo) -> Path:
    """Where lies what was moved out of the working tree."""
    return repo.git_dir / "kern" / "aside"


def aside(source: Path, target: Path) -> None:
    """Move a file or folder to where nothing is."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        open_folder(source.parent)
        if not source.is_symlink():
            open_folder(source)
        shutil.move(source, target)
    except OSError as exc:  # shutil's own error too
        raise KernError(
            f"cannot move {source} to {target}: {exc.strerror or exc}",
            hint="move it out of the working tree, then run kern again: it resumes",
        ) from exc
