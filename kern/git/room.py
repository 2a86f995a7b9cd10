"""A tree of kern's own that holds exactly what is to be committed, and what git ignored in the
person's tree when the run began: there gates prove it.
"""

import contextlib
import os
import shutil
import stat
from pathlib import Path

from kern.git import checkout, submodules
from kern.git.faults import GitFailed
from kern.git.repository import SUBMODULE, Repo
from kern.system import workspace

MOST_FOLDERS = 100  # the outer ones first
MOST_BYTES = 50 << 20  # of an ignored file that is copied
# Tools make them anew, and some believe what they find there.
_REMADE = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/")


class Room:
    """One for a working tree. What a gate leaves there is gone with the next filling."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.place = repo.git_dir / "kern" / "room"
        self.tree = self.place / "tree"
        self.index = self.place / "index"
        self.over = self.place / "over"  # what children write over the ignored folders
        self._ignored = found = self._listed()
        folders = [path[:-1] for path in found if path.endswith("/")]
        folders.sort(key=lambda path: (path.count("/"), path))
        self._folders = tuple(folders[:MOST_FOLDERS])
        self.folders = self._folders
        self.absent = folders[MOST_FOLDERS:]  # what was ignored and has no place here
        self._submodules = submodules.declared(repo)  # what an agent adds may obey it
        self._uncommitted = list[str]()  # in them
        self._files = [path for path in found if not path.endswith("/")]

    def _listed(self) -> list[str]:
        how = ("-z", "--others", "--ignored", "--exclude-standard", "--directory")
        return [path for path in self.repo.paths("ls-files", *how) if not path.endswith(_REMADE)]

    def new(self) -> list[str]:
        """What git ignores in the person's tree by now and did not when the run began, and what is
        not committed in its submodules.
        """
        return sorted({*self._listed(), *self._uncommitted} - {*self._ignored})

    def fill(self, tree: str) -> None:
        """Raises KernError where the disk is full."""
        _remove(self.over)
        with workspace.reported(self.tree):
            fresh = not self.index.exists()
            self.tree.mkdir(parents=True, exist_ok=True)
            try:
                self._read(tree)
            except GitFailed:  # a killed git left it half-way
                _remove(self.place)
                fresh = True
                self.tree.mkdir(parents=True)
                self._read(tree)
            if fresh:
                self._date()
            self._fill_submodules(tree)
            for path in self._files:
                if not self._copy(path) and path not in self.absent:
                    self.absent.append(path)

    def candidate(self) -> str:
        """The tree that it holds by now."""
        beside = (f":(top,exclude,literal){path}" for path in self._submodules)
        self._git("add", "--all", "--", ":/", *beside)
        return self._git("write-tree").decode().strip()

    def _read(self, tree: str) -> None:
        self._git("read-tree", "--reset", "-u", tree)
        self._git("clean", "-ffdxq", "--", ":/")

    def _fill_submodules(self, tree: str) -> None:
        """One that the person has as it is to be committed lies there as an ignored folder does,
        with what it ignores.
        """
        same, self._uncommitted = list[str](), []
        for path in self._submodules:
            inner, entry = submodules.at(self.repo.root, path), self.repo.entry(tree, path)
            if not inner or not entry or entry.mode != SUBMODULE:
                continue
            changed = [f"{path}/{name}" for name in submodules.uncommitted(inner)]
            self._uncommitted += changed
            if not changed and submodules.commit(inner) == entry.blob:
                same.append(path)
            else:
                folder = self.tree / path
                _remove(folder)
                with contextlib.suppress(GitFailed):  # then it is empty
                    submodules.fill(inner, entry.blob, folder, self.place / "submodule")
        self.folders = (*self._folders, *same)

    def _git(self, *argv: str) -> bytes:
        places = {"GIT_DIR": self.repo.git_dir, "GIT_WORK_TREE": self.tree}
        env = {name: str(path) for name, path in places.items()}
        return self.repo.git(
            "-C", str(self.tree), *argv, env={**env, "GIT_INDEX_FILE": str(self.index)}
        )

    def _date(self) -> None:
        """What is the person's byte for byte gets its time: else a build takes all for changed."""
        here = {*self._git("ls-files", "-z", "--stage").split(b"\0")}
        for row in {*self.repo.git("ls-files", "-z", "--stage").split(b"\0")} & here:
            path = os.fsdecode(row.partition(b"\t")[2])
            with contextlib.suppress(OSError):
                theirs, ours = os.lstat(self.repo.root / path), os.lstat(self.tree / path)
                if stat.S_ISREG(theirs.st_mode) and theirs.st_size == ours.st_size:
                    os.utime(self.tree / path, ns=(theirs.st_atime_ns, theirs.st_mtime_ns))
        self._git("update-index", "-q", "--refresh")

    def _copy(self, path: str) -> bool:
        """Whether there is nothing left of it to copy."""
        source, target = self.repo.root / path, self.tree / path
        try:
            info = os.lstat(source)
            small = stat.S_ISREG(info.st_mode) and info.st_size <= MOST_BYTES
            if small or stat.S_ISLNK(info.st_mode):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
                return True
        except FileNotFoundError:
            return True
        except PermissionError:
            pass
        return False


def _remove(folder: Path) -> None:
    """An overlay leaves a folder that its owner must open before it can go, tools leave read-only
    ones. A gate may have left links: none is followed.
    """
    for above, names, _ in os.walk(folder):
        for name in names:
            checkout.open_folder(Path(above, name))
    shutil.rmtree(folder, ignore_errors=True)
