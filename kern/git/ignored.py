"""Copies of what git ignores, in place: taken before an attempt, restored after one that failed,
named after one that succeeded. Nobody else has a copy of an `.env` or of a development database.

They count once their folder has its name: a kill leaves a whole copy or none. No link is followed.
"""

import filecmp
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from kern.git import refs
from kern.git.ignore import outermost
from kern.git.repository import Repo
from kern.model import Key
from kern.plain import some
from kern.system import process, workspace

MOST_BYTES, MOST_FILES = 64 << 20, 10_000
_BEYOND = f"beyond {MOST_BYTES >> 20} MB or {MOST_FILES:,} files"
# Written anew by whoever needs them: restored without a word.
_CACHES = {"node_modules", ".venv", "venv", "target", "build", "dist", "coverage", ".cache", "tmp"}
_JOURNALS = ("-wal", "-shm", "-journal")  # SQLite applies one to whatever database is there


class Ignored:
    """The ignored files of one working tree. `warn` takes a sentence for the person; `told` is what
    a run says once.
    """

    def __init__(self, repo: Repo, warn: Callable[[str], None], told: set[str]) -> None:
        self.repo = repo
        self.warn = warn
        self._told = told

    def take(self, key: Key, attempt: int) -> None:
        """Copy them, the largest left out where there is more than fits, and named once. Raises
        KernError where the disk is full.
        """
        if process.FLEET in os.environ:  # a worker's tree holds copies already
            return
        folder, left = self._folder(key, attempt), list[str]()
        needed = {self._folder(one.task, one.attempt) for _, one in refs.starts(self.repo)}
        for old in folder.parent.glob("*"):
            if old not in needed or old == folder:
                shutil.rmtree(old, ignore_errors=True)
        new = folder.with_name("new")
        with workspace.reported(folder):
            new.mkdir(mode=0o700, parents=True)
            try:
                self._fill(new, left)
                new.rename(folder)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
        if said := [one for one in left if one not in self._told]:
            self._told.update(said)
            self.warn(f"ignored by git, and not restored if an attempt fails: {some(said)}")

    def _fill(self, folder: Path, left: list[str]) -> None:
        size, count = 0, 0
        for bytes_, paths, unit in sorted(map(self._measured, outermost(self.repo))):
            size, count = size + bytes_, count + len(paths)
            if size > MOST_BYTES or count > MOST_FILES:
                left.append(f"{unit} ({_BEYOND})")
                continue
            for path in paths:
                try:
                    _copy(self.repo.root / path, folder / path)
                except PermissionError:
                    left.append(f"{path} (it cannot be read)")

    def _measured(self, unit: str) -> tuple[int, list[str], str]:
        """Its bytes and its files. No more is looked at than fits."""
        paths, size = list[str](), 0
        for path in _files(self.repo.root, unit):
            paths.append(path)
            size += os.lstat(self.repo.root / path).st_size
            if size > MOST_BYTES or len(paths) > MOST_FILES:
                break
        return size, paths, unit

    def restore(self, key: Key, attempt: int, *, again: bool = False) -> None:
        """What an attempt that failed has changed or removed; what it has made stays. Can be
        repeated. `again`: the attempt begins again and needs the copies.
        """
        folder, aside, failed = self._folder(key, attempt), self._aside(key, attempt), list[str]()
        changed = self._changed(folder)
        for path in changed:
            try:
                self._restore(path, folder / path, aside)
            except OSError as exc:
                _copy(folder / path, aside / "before" / path)
                failed.append(f"{path} ({exc.strerror or exc})")
        if back := [path for path in changed if not _is_cache(path)]:
            kept = f"; what stood there is kept in {aside}" if aside.exists() else ""
            self.warn(
                f"{some(back)}: ignored by git, changed during the attempt by the agent or by you; "
                f"restored{kept}"
            )
        if failed:
            self.warn(f"not restored: {some(failed)}; as before: {aside / 'before'}")
        if not again:
            shutil.rmtree(folder, ignore_errors=True)

    def name_changed(self, key: Key, attempt: int) -> None:
        """What an attempt that succeeded has changed or removed, and where its copy is."""
        folder, aside = self._folder(key, attempt), self._aside(key, attempt)
        if names := [path for path in self._changed(folder) if not _is_cache(path)]:
            aside.mkdir(mode=0o700, parents=True)
            for path in names:
                _copy(folder / path, aside / path)
            self.warn(
                f"{some(names)}: ignored by git, changed while the task was carried out; as "
                f"before: {aside}"
            )
        shutil.rmtree(folder, ignore_errors=True)

    def _changed(self, folder: Path) -> list[str]:
        """The paths of which type, permissions or content are others."""
        files = _files(folder, "") if folder.is_dir() else ()
        return sorted(path for path in files if _differs(self.repo.root, path, folder / path))

    def _restore(self, path: str, copy: Path, aside: Path) -> None:
        """Whole in a temporary file first, then in the place of what stands there, which is kept:
        it may be a person's.
        """
        above = [*itertools.accumulate(path.split("/"), os.path.join)]
        for one in (*above[:-1], path, *(path + end for end in _JOURNALS)):
            place = self.repo.root / one
            folder = one in above[:-1] and place.is_dir() and not place.is_symlink()
            if os.path.lexists(place) and not folder:
                (aside / one).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(place, aside / one)
        place = self.repo.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.with_name(f".{place.name[:200]}.kern")
        _copy(copy, made)
        made.replace(place)

    def _folder(self, key: Key, attempt: int) -> Path:
        return self.repo.git_dir / "kern" / "ignored" / f"{refs.slug(key)}-{attempt}"

    def _aside(self, key: Key, attempt: int) -> Path:
        """A new folder, once something lies there."""
        above, name = self.repo.aside, f"{refs.slug(key)}-{attempt}+ignored"
        places = (above / f"{name}{number or ''}" for number in itertools.count())
        return next(place for place in places if not place.exists())


def _files(root: Path, unit: str) -> Iterator[str]:
    """The files and links of it, relative to the root."""
    if unit and (not (root / unit).is_dir() or (root / unit.rstrip("/")).is_symlink()):
        yield unit
    for above, folders, files in os.walk(root / unit):
        links = [name for name in folders if os.path.islink(os.path.join(above, name))]
        for place in (os.path.join(above, name) for name in (*files, *links)):
            if stat.S_IFMT(os.lstat(place).st_mode) in (stat.S_IFREG, stat.S_IFLNK):  # no pipe
                yield os.path.relpath(place, root)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


def _differs(root: Path, path: str, copy: Path) -> bool:
    place = root / path
    try:
        if os.path.realpath(place.parent) != str(place.parent):
            return True  # behind a link lies something else
        now, was = os.lstat(place), os.lstat(copy)
        if now.st_mode != was.st_mode:
            return True
        if stat.S_ISLNK(was.st_mode):
            return os.readlink(place) != os.readlink(copy)
        return now.st_mtime_ns != was.st_mtime_ns or not filecmp.cmp(place, copy, shallow=False)
    except OSError:
        return True


def _is_cache(path: str) -> bool:
    return not _CACHES.isdisjoint(path.split("/"))
