"""A tree of kern's own that children see in the place of the person's: an agent works in it, then
gates prove there exactly what is to be committed. What git ignored in the person's tree when the
run began lies in it, too.
"""

import contextlib
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from kern.git.environment import GitFailed
from kern.git.repository import DOCUMENTS, SUBMODULE, Entry, Repo, left_out
from kern.system import workspace

MOST_MOUNTS = 100  # the outer ones first
MOST_COPIED = 50 << 20  # bytes of an ignored file
# Tools make them anew, and some believe what they find there.
_REMADE = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/")
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")


class Room:
    """What a child leaves there is gone with the next filling."""

    def __init__(self, repo: Repo, name: str, home: Repo, ignored: Collection[str]) -> None:
        """`home`: the person's tree, which is another than a worker's; `ignored`: what is
        `outermost` there.
        """
        self.repo, self.home, self.ignored = repo, home, ignored
        self.place = repo.git_dir / "kern" / name
        self.tree = self.place / "tree"
        self.index = self.place / "index"  # of the last filling
        places = (("DIR", repo.git_dir), ("WORK_TREE", self.tree), ("INDEX_FILE", self.index))
        self.env = {f"GIT_{name}": str(path) for name, path in places}
        self.over = self.place / "over"  # what children write over the ignored folders
        self.own: tuple[str, ...] = (*DOCUMENTS, ".kern")  # in no candidate
        self.mounts: tuple[str, ...] = ()  # ignored folders, and files too large to be copied
        rows = home.paths("ls-files", "-z", "--stage")  # what an agent adds may obey it
        self._submodules = [row.partition("\t")[2] for row in rows if row.startswith(SUBMODULE)]
        self.differing: list[str] = []  # of them, which the person has otherwise
        self.pristine = ""  # the tree that it holds, where no child could write there since

    def fill(self, tree: str) -> list[str]:
        """What it held beside a tree, which is gone. Raises KernError where the disk is full."""
        remove(self.over)
        pristine, self.pristine = self.pristine, ""
        if tree == pristine:
            self._date(tree)
            return []
        with workspace.reported(self.tree):
            gone = self._read(tree)
            mounted = [path.rstrip("/") for path in self.ignored if not self._copy(path)]
            mounted.sort(key=lambda path: (path.count("/"), path))
            self.absent = mounted[MOST_MOUNTS:]
            self.mounts = (*mounted[:MOST_MOUNTS], *self._fill_submodules(tree))
            for name in (".git", *self.mounts):
                self.make_place(name)
        return gone

    def lay(self, folder: Path) -> None:
        """The folder's files over its own, until it is filled again. No link leads them out."""
        for above, _, names in os.walk(folder):
            place = self.tree / Path(above).relative_to(folder)
            if place.is_symlink() or place.is_file():
                place.unlink()
            place.mkdir(exist_ok=True)
            for name in names:
                if (target := place / name).is_dir() and not target.is_symlink():
                    remove(target)
                target.unlink(missing_ok=True)
                shutil.copy(Path(above, name), target)

    def accept(self, tree: str) -> None:
        """A tree that it holds, or that is kept elsewhere."""

    def make_place(self, name: str) -> None:
        """For what is mounted there, in a tree that a child may not write."""
        place = self.tree / name
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir() if (self.home.root / name).is_dir() else place.touch()

    def candidate(self) -> str:
        """The tree that it holds by now. Its index stays that of the last filling, so that the next
        one writes anew what a child has touched.
        """
        with self.repo.private_index(self.index) as env:
            return self._added(env)

    def _added(self, env: Mapping[str, str]) -> str:
        """kern's documents and prompts and submodules are as they were filled in, and what was
        ignored is not in it, whatever the rules say by now.
        """
        whole = (path for path in self._submodules if (self.tree / path).exists())
        apart = (*self.own, *self.ignored, *whole)
        there = (path for path in apart if not self._is_behind_link(self.tree / path))
        return self.repo.added({**self.env, **env}, there)

    def _read(self, tree: str) -> list[str]:
        self.tree.mkdir(parents=True, exist_ok=True)
        self.index.with_name("index.lock").unlink(missing_ok=True)  # of a git that was killed
        fresh = not self.index.exists()
        try:
            if not fresh:
                self._forget_touched()
            self.repo.git("read-tree", "--reset", "-u", tree, env=self.env)
            out = self.repo.text("-c", "core.quotePath=false", "clean", "-ffdx", env=self.env)
            gone = {line.removeprefix("Removing ") for line in out.splitlines()}
            if any(path[-1] != "/" for path in gone.difference(self.ignored)):
                # It may have been a link in a folder's place, and git took what lay behind for it.
                self.repo.git("read-tree", "--reset", "-u", tree, env=self.env)
        except GitFailed:
            if fresh:
                raise
            remove(self.tree)  # with what is closed to git
            self.index.unlink()
            return self._read(tree)
        self._date(tree)
        return [path for path in gone if not path.endswith(_REMADE)]

    def _forget_touched(self) -> None:
        """What a child has touched since the last filling is written anew: git knows a file by its
        size and seconds, and some settings let it know even less.
        """
        filled, touched = os.stat(self.index).st_ctime_ns, dict[str, Entry | None]()
        for row in self.repo.paths("ls-files", "-z", "--stage", env=self.env):
            known, _, path = row.partition("\t")
            with contextlib.suppress(OSError):
                if os.lstat(f"{self.tree}/{path}").st_ctime_ns > filled:
                    touched[path] = Entry(*known.split(" ")[:2])
        self.repo.update_index(touched, self.env)

    def _date(self, tree: str) -> None:
        """What is the person's byte for byte gets its time: else a build takes all for changed. The
        rest is newer than what they have built of their edits, which is none of this.
        """
        with self.home.private_index() as env:
            self.home.run("update-index", "-q", "--refresh", env=env)
            other = {*self.home.paths("diff-index", "-z", "--name-only", tree, env=env)}
        here = {*self.repo.paths("ls-files", "-z", env=self.env)}
        for path in here & other:
            with contextlib.suppress(OSError):
                os.utime(self.tree / path, follow_symlinks=False)
        for path in here - other:
            with contextlib.suppress(OSError):
                when = os.lstat(f"{self.home.root}/{path}").st_mtime_ns
                if when != os.lstat(place := f"{self.tree}/{path}").st_mtime_ns:
                    os.utime(place, ns=(when, when), follow_symlinks=False)
        self.repo.git("update-index", "-q", "--refresh", env=self.env)
        os.utime(self.index)

    def _copy(self, path: str) -> bool:
        """Whether nothing of it is left to mount."""
        source, target = self.home.root / path, self.tree / path
        if not self._is_free(target):
            return True
        link, file = os.path.islink(source), os.path.isfile(source)
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if link or (file and os.path.getsize(source) <= MOST_COPIED):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
                return True
        return not (file or os.path.isdir(source))

    def _is_free(self, place: Path) -> bool:
        """Whether the tree has nothing there, no link on the way above all, which may lead out."""
        return not (os.path.lexists(place) or self._is_behind_link(place))

    def _is_behind_link(self, place: Path) -> bool:
        above = (one for one in place.parents if one.is_relative_to(self.tree))
        return any(map(os.path.islink, above))

    def _fill_submodules(self, tree: str) -> list[str]:
        """Of one that the person has as it is to be committed what lies there is to be mounted,
        with all that it ignores; of another there are the files of its commit.
        """
        same, self.differing = [], []
        for path in self._submodules:
            entry, theirs = self.repo.entry(tree, path), self.home.root / path
            if not (entry and entry.is_submodule and (theirs / ".git").exists()):
                continue
            how = ("--quiet", "--ignore-submodules=none", tree, "--", f":(top,literal){path}")
            if not self.home.run("diff-index", *how)[0]:
                same.append(path)
                continue
            self.differing.append(path)
            remove(place := self.tree / path)
            place.mkdir(parents=True)
            env = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": str(self.place / "submodule")}
            self.home.run("-C", str(theirs), "read-tree", "--reset", "-u", entry.blob, env=env)
            if (theirs / ".git").is_file():
                shutil.copyfile(theirs / ".git", place / ".git")
        return same


# ---------------------------------------------------------------- what git sees, and ignores


def outermost(repo: Repo) -> list[str]:
    """The files and, with a slash at the end, whole folders that git ignores, but for kern's own
    and what tools make anew.
    """
    found: list[str] = []
    for path in sorted(repo.paths(*_IGNORED)):
        inside = found and found[-1].endswith("/") and path.startswith(found[-1])
        if not inside and not left_out(path) and not path.endswith(_REMADE):
            found.append(path)
    return found


def remove(folder: Path) -> None:
    """An overlay leaves a folder that its owner must open before it can go, tools leave read-only
    ones. A gate may have left links: none is followed.
    """
    for above, names, _ in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                if not os.path.islink(place := os.path.join(above, name)):
                    os.chmod(place, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
