"""Paths of the working tree made what a tree's entries say, one file after the other."""

import errno
import os
import shutil
import stat
from pathlib import Path

from kern.errors import KernError
from kern.git.repository import Repo


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
