"""Copies of what git ignores: taken before an attempt, restored after one that failed, named after
one that succeeded. Nobody else has a copy of an `.env` or of a development database.

The bytes of an attempt's copies are one file in the git folder, since to make 10,000 takes a disk
some seconds. They count once their list is there: a kill leaves a whole copy or none. What a person
is told of is laid out beside it. No link is followed. Left out: what is more than fits, the largest
first; repositories; sockets, pipes and devices.
"""

import contextlib
import errno
import glob
import itertools
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from kern.git import archive, checkout, refs
from kern.git.archive import Copy
from kern.git.ignore import left_out
from kern.git.repository import Repo
from kern.model import Key
from kern.plain import some
from kern.system import process, workspace

MOST_BYTES, MOST_FILES = 64 << 20, 10_000
_BEYOND = f"beyond {MOST_BYTES >> 20} MB or {MOST_FILES:,} files"
# Written anew by whoever needs them: restored without a word.
_CACHES = {
    *("node_modules", ".venv", "venv", "target", "build", "dist", "out", "coverage", "htmlcov"),
    *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".cache"),
    *(".tox", ".nox", ".gradle", ".next", ".nuxt", ".turbo", ".nyc_output", ".coverage", "tmp"),
}
_CACHED = (".log", ".pyc", ".tmp", ".swp", ".tsbuildinfo")
_JOURNALS = ("-wal", "-shm", "-journal")  # SQLite applies one to whatever database is there


class Ignored:
    """The ignored files of one working tree. `warn` takes a sentence for the person; `told` is what
    a run says once.
    """

    def __init__(self, repo: Repo, warn: Callable[[str], None], told: set[str]) -> None:
        self.repo = repo
        self.warn = warn
        self._told = told

    # ---------------------------------------------------------------- before an attempt

    def take(self, key: Key, attempt: int) -> None:
        """Copy them; what is left out is named once. Raises KernError where the disk is full."""
        if process.FLEET in os.environ:  # a worker's tree holds copies already
            return
        folder, left = _folder(self.repo, key, attempt), dict[str, str]()
        self._make_room(key, folder)
        try:
            with workspace.reported(folder):
                self._fill(folder, self._chosen(left), left)
        except BaseException:
            archive.drop(folder)
            raise
        new = {path: why for path, why in left.items() if path not in self._told}
        self._told.update(new)
        if new:
            self.warn(f"ignored by git, and not restored if an attempt fails: {_named(new)}")

    def _make_room(self, key: Key, folder: Path) -> None:
        """Of earlier copies stays what another task needs and what a person was told of."""
        own = f"{refs.slug(key)}-"
        stay = {name for name in needed(self.repo) if not name.startswith(own)}
        shutil.rmtree(folder / archive.FILES, ignore_errors=True)
        for old in folders(self.repo).glob("*"):
            if old.name not in stay:
                archive.drop(old)

    def _fill(self, folder: Path, chosen: Sequence[str], left: dict[str, str]) -> None:
        if not chosen:
            return
        copies = dict[str, Copy]()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / archive.BYTES).open("wb") as target:
            for path in chosen:
                with archive.noting(path, left):
                    copies[path] = self._copied(path, target)
            target.flush()
            os.fsync(target.fileno())
        workspace.replace(folder / archive.LIST, json.dumps(copies).encode())

    def _chosen(self, left: dict[str, str]) -> list[str]:
        """The paths, without the largest of the outermost ones where there is more than fits."""
        found = sorted((*self._measured(unit), unit) for unit in self._outermost())
        chosen, size = list[str](), 0
        for _, bytes_, paths, odd, unit in found:
            size += bytes_
            if size > MOST_BYTES or len(chosen) + len(paths) > MOST_FILES:
                left[unit], size = _BEYOND, MOST_BYTES
            else:
                chosen += paths
                left.update(odd)
        return sorted(chosen)  # a folder before what is in it

    def _outermost(self) -> list[str]:
        """The files and, with a slash at the end, whole folders that git ignores."""
        how = ("-z", "--others", "--ignored", "--exclude-standard", "--directory")
        found: list[str] = []
        for path in sorted(self.repo.paths("ls-files", *how)):
            inside = found and found[-1].endswith("/") and path.startswith(found[-1])
            if not inside and not left_out(path):
                found.append(path)
        return found

    def _measured(self, unit: str) -> tuple[float, int, list[str], list[tuple[str, str]]]:
        """What share of the bounds it takes, its bytes, its paths, and what is odd about some of
        them. No more is looked at than fits.
        """
        found, odd, size, ahead = list[str](), dict[str, str](), 0, [unit.rstrip("/")]
        while ahead and size <= MOST_BYTES and len(found) <= MOST_FILES:
            path = ahead.pop()
            with archive.noting(path, odd):
                info = os.lstat(f"{self.repo.root}/{path}")
                kind = stat.S_IFMT(info.st_mode)
                names = os.listdir(f"{self.repo.root}/{path}") if kind == stat.S_IFDIR else []
                if ".git" in names:
                    raise OSError(errno.EINVAL, "a repository of its own")
                if kind in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
                    found.append(path)
                    ahead += [f"{path}/{name}" for name in names]
                    size += info.st_size if kind == stat.S_IFREG else 0
        return max(size / MOST_BYTES, len(found) / MOST_FILES), size, found, [*odd.items()]

    def _copied(self, path: str, target: BinaryIO) -> Copy:
        place, start = f"{self.repo.root}/{path}", target.tell()
        info = os.lstat(place)
        if stat.S_ISLNK(info.st_mode):
            return archive.copy_of(info, os.readlink(place), start)
        if stat.S_ISDIR(info.st_mode):
            return archive.copy_of(info, "", start)
        with archive.opened(place) as source:
            copy = archive.copy_of(info, archive.copy_bytes(source, target, info.st_size), start)
        if copy != archive.copy_of(os.lstat(place), copy.content, start):
            raise OSError(errno.EBUSY, "it changed while it was copied")
        return copy

    # ---------------------------------------------------------------- after it

    def restore(self, key: Key, attempt: int, *, again: bool = False) -> None:
        """What an attempt that failed has changed or removed; what it has made stays. Can be
        repeated. `again`: the attempt begins again and needs the copies. Raises KernError where the
        disk is full.
        """
        folder = _folder(self.repo, key, attempt)
        copies = archive.listed(folder)
        changed, left = self._changed(copies), dict[str, str]()
        rooms = (f"{folder.name}+ignored{number or ''}" for number in itertools.count())
        above = checkout.aside_in(self.repo)
        room = next(above / name for name in rooms if not (above / name).exists())
        with workspace.reported(self.repo.root):
            self._restore_all(changed, copies, folder, room, left)
        if back := [path for path in changed if path not in left and not _is_cache(path)]:
            kept = f"; what stood there is kept in {self._shown(room)}" if room.exists() else ""
            self.warn(
                f"{some(back)}: ignored by git, changed during the attempt by the agent or by you; "
                f"restored{kept}"
            )
        if loud := {path: why for path, why in left.items() if not _is_cache(path)}:
            archive.lay_out(folder, copies, loud)
            self.warn(
                f"{_named(loud)}: ignored by git, changed during the attempt and not restored; "
                f"as before: {self._shown(folder / archive.FILES)}"
            )
        if not again:
            archive.drop(folder)

    def _restore_all(
        self,
        changed: Sequence[str],
        copies: dict[str, Copy],
        folder: Path,
        room: Path,
        left: dict[str, str],
    ) -> None:
        busy = {_top(path, copies) for path in _written(self.repo.root)} if changed else set()
        for path in changed:
            with archive.noting(path, left):
                if _top(path, copies) in busy:
                    raise OSError(errno.EBUSY, "open in another program")
                self._restore(path, copies, folder, room)
        for path, copy in reversed(copies.items()):
            if path not in left:
                archive.restore_marks(self.repo.root / path, copy)

    def name_changed(self, key: Key, attempt: int) -> None:
        """What an attempt that succeeded has changed or removed, and where its copy is."""
        folder = _folder(self.repo, key, attempt)
        copies = archive.listed(folder)
        if names := [path for path in self._changed(copies) if not _is_cache(path)]:
            archive.lay_out(folder, copies, names)
            self.warn(
                f"{some(names)}: ignored by git, changed while the task was carried out; as "
                f"before: {self._shown(folder / archive.FILES)}"
            )
        archive.drop(folder)

    def _changed(self, copies: Mapping[str, Copy]) -> list[str]:
        """The paths of which the type or the content is another."""
        real = {"": True}
        return [path for path, copy in copies.items() if self._differs(path, copy, real)]

    def _differs(self, path: str, copy: Copy, real: dict[str, bool]) -> bool:
        place = self.repo.root / path
        try:
            now = os.lstat(place)
            if not checkout.in_real_folder(self.repo.root, path, real):
                return True
            if stat.S_IFMT(now.st_mode) != stat.S_IFMT(copy.mode):
                return True
            if stat.S_ISLNK(now.st_mode):
                return os.readlink(place) != copy.content
            if stat.S_ISDIR(now.st_mode) or archive.copy_of(now, copy.content, copy.start) == copy:
                return False
            with archive.opened(place) as file, open(os.devnull, "wb") as nowhere:
                return archive.copy_bytes(file, nowhere, copy.size + 1) != copy.content
        except OSError:
            return True

    def _restore(self, path: str, copies: Mapping[str, Copy], folder: Path, room: Path) -> None:
        """One path: whole in a temporary file first, then in the place of what stands there."""
        place, copy, scratch = self.repo.root / path, copies[path], self.repo.scratch
        if not checkout.in_real_folder(self.repo.root, path, {"": True}):
            raise OSError(errno.ENOTDIR, "a folder above it is none")
        place.parent.mkdir(parents=True, exist_ok=True)
        checkout.open_folder(place.parent)
        scratch.mkdir(parents=True, exist_ok=True)
        near = scratch.stat().st_dev == place.parent.stat().st_dev
        with tempfile.TemporaryDirectory(dir=scratch if near else place.parent) as temporary:
            made = Path(temporary, "file")
            if stat.S_ISLNK(copy.mode):
                made.symlink_to(copy.content)
            elif stat.S_ISDIR(copy.mode):
                made.mkdir()
            else:
                archive.take_out(folder, copy, made)
            self._set_aside(path, room)
            for journal in (f"{path}{end}" for end in _JOURNALS):
                if journal not in copies:
                    self._set_aside(journal, room)
            os.replace(made, place)

    def _set_aside(self, path: str, room: Path) -> None:
        """Keep what stands there, which may be a person's; but no file of a cache."""
        place = self.repo.root / path
        if os.path.lexists(place) and not (_is_cache(path) and place.is_file()):
            (room / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(place, room / path)

    def _shown(self, place: Path) -> str:
        within = place.is_relative_to(self.repo.root)
        return str(place.relative_to(self.repo.root) if within else place)


# -------------------------------------------------------------------- the folders of copies


def folders(repo: Repo) -> Path:
    """Where each attempt has one."""
    return repo.git_dir / "kern" / "ignored"


def needed(repo: Repo) -> set[str]:
    """The names of those that an attempt in progress goes by."""
    return {_folder(repo, start.task, start.attempt).name for _, start in refs.starts(repo)}


def _folder(repo: Repo, key: Key, attempt: int) -> Path:
    return folders(repo) / f"{refs.slug(key)}-{attempt}"


def _written(root: Path) -> Iterator[str]:
    """The paths below it that some process has open to write, where /proc tells."""
    for place in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            path = os.readlink(place)
            if path.startswith(f"{root}/") and os.lstat(place).st_mode & stat.S_IWUSR:
                yield path.removeprefix(f"{root}/")


# -------------------------------------------------------------------- names


def _top(path: str, copies: Mapping[str, Copy]) -> str:
    """The outermost folder that was copied with it, else itself."""
    parts = path.split("/")
    above = ("/".join(parts[:number]) for number in range(1, len(parts)))
    return next((folder for folder in above if folder in copies), path)


def _is_cache(path: str) -> bool:
    return path.endswith(_CACHED) or not _CACHES.isdisjoint(path.split("/"))


def _named(left: Mapping[str, str]) -> str:
    """A few of the paths with what is the matter, those of caches last."""
    return some(
        [
            f"{path} ({left[path]})"
            for path in sorted(left, key=lambda path: (_is_cache(path), path))
        ]
    )
