"""A tree of kern's own that children see in the place of the person's: an agent works in it, then
gates prove there exactly what is to be committed. What git ignored in the person's tree when the
run began lies in it, too.
"""

import contextlib
import filecmp
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from time import time_ns

from kern.git import submodules
from kern.git.environment import GitFailed
from kern.git.repository import DOCUMENTS, REMADE, Repo
from kern.system import workspace

MOST_MOUNTS = 100  # the outer ones first
MOST_NAMED = 100
_YOUNG_NS = 2_000_000_000  # what is older cannot be touched in the second that git knows
MOST_COPIED = 50 << 20  # bytes of an ignored file
# Whatever the person's settings let git overlook.
_EXACTLY = ("-c", "core.trustctime=1", "-c", "core.checkStat=default", "-c", "core.ignoreStat=0")


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
        self.recent = self.place / "recent"  # what it wrote
        self.seen = self.place / "seen"  # the person's index, as it was then
        places = (("DIR", repo.git_dir), ("WORK_TREE", self.tree), ("INDEX_FILE", self.index))
        self.env = {f"GIT_{name}": str(path) for name, path in places}
        self.over = self.place / "over"  # what children write over the ignored folders
        self.own: tuple[str, ...] = (*DOCUMENTS, ".kern")  # in no candidate
        self.mounts: tuple[str, ...] = ()  # ignored folders, and files too large to be copied
        self._submodules = submodules.listed(home)  # what an agent adds may obey it
        self.differing: list[str] = []  # of them, which the person has otherwise

    def fill(self, tree: str) -> list[str]:
        """What it held beside a tree, which is gone. Raises KernError where the disk is full."""
        workspace.remove(self.over)
        with workspace.reported(self.tree):
            removed = self._read(tree)
            mounted = [path.rstrip("/") for path in self.ignored if not self._copy(path)]
            mounted.sort(key=lambda path: (path.count("/"), path))
            self.absent = mounted[MOST_MOUNTS:]
            same, self.differing = submodules.fill(self._submodules, self.home, tree, self.tree)
            self.mounts = (*mounted[:MOST_MOUNTS], *same)
            for name in (".git", *self.mounts):
                self.make_place(name)
        return [path for path in removed if not path.endswith(REMADE)]

    def accept(self, tree: str) -> None:
        """A tree that it holds, or that is kept elsewhere."""

    def make_place(self, name: str) -> None:
        """For what is mounted there, in a tree that a child may not write."""
        place = self.tree / name
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir() if (self.home.root / name).is_dir() else place.touch(exist_ok=False)

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
            out = self.repo.text("-c", "core.quotePath=false", "clean", "-ffdx", env=self.env)
            was = self.repo.text("write-tree", env=self.env)
            if written := [] if fresh else self._touched():
                names = os.fsencode("\0".join(written))
                anew = ("checkout-index", "--force", "--index", "-z", "--stdin")
                self.repo.git(*_EXACTLY, *anew, stdin=names, env=self.env)
            if was != tree:  # where --reset would look at all files once more
                written += self.repo.paths("diff-tree", "-r", "-z", "--name-only", was, tree)
                self.repo.git(*_EXACTLY, "read-tree", "-m", "-u", was, tree, env=self.env)
        except (GitFailed, OSError):
            if fresh:
                raise
            workspace.remove(self.tree)  # with what is closed to git
            self.index.unlink()
            return self._read(tree)
        self._date(tree, written)
        return [line.removeprefix("Removing ") for line in out.splitlines()]

    def _touched(self) -> list[str]:
        """What a child has changed since the last filling, or merely touched. git knows a file by
        its size and seconds: what was written just before is removed.
        """
        filled, young = os.stat(self.index).st_ctime_ns, [""]
        for path in filter(None, os.fsdecode(self.recent.read_bytes()).split("\0")):
            place = self.tree / path
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                changed = os.lstat(place).st_ctime_ns
                if changed > filled and not self._is_behind_link(place):
                    place.unlink()
                elif changed > time_ns() - _YOUNG_NS:
                    young.append(path)
        self.recent.write_bytes(os.fsencode("\0".join(young)))
        return self.repo.paths(*_EXACTLY, "diff-files", "-z", "--name-only", env=self.env)

    def _date(self, tree: str, written: Collection[str]) -> None:
        """What is the person's byte for byte gets its time: else a build takes all for changed. The
        rest is newer than what they have built of their edits, which is none of this. The others
        are as they were `seen` at the last filling.
        """
        with self.home.private_index() as now:
            env = {"GIT_INDEX_FILE": str(self.seen)} if self.seen.exists() else now
            look = ("diff-index", "-z", "--name-only", "--diff-filter=a", tree)
            other = {*self.home.paths(*look, env=env)}.difference(self.own)
            same = {*written} - other  # by git's word
            same.update(filecmp.cmpfiles(self.home.root, self.tree, other)[0])
            dated = same.union(other.difference(written))
            for path in dated:
                with contextlib.suppress(OSError):
                    theirs = self.home.root / path
                    when = os.lstat(theirs).st_mtime_ns if path in same else time_ns()
                    os.utime(self.tree / path, ns=(when, when), follow_symlinks=False)
            with self.recent.open("ab") as file:
                file.write(os.fsencode("\0".join(["", *same.union(other)])))
            self._refresh(dated)
            # The next one names these as well, whatever they are like by then.
            self.home.update_index(dict.fromkeys(other - same), now)
            with contextlib.suppress(FileNotFoundError):
                os.replace(now["GIT_INDEX_FILE"], self.seen)
        os.utime(self.index)

    def _refresh(self, paths: Collection[str]) -> None:
        """So that git knows them by their times; all, where it would look long for each of many."""
        named = [f":(top,literal){path}" for path in paths] if len(paths) <= MOST_NAMED else [":/"]
        argv = ("add", "--refresh", "--pathspec-from-file=-", "--pathspec-file-nul")
        if named:
            self.repo.run(*_EXACTLY, *argv, stdin=os.fsencode("\0".join(named)), env=self.env)

    def _copy(self, path: str) -> bool:
        """Whether nothing of it is left to mount."""
        source, target = self.home.root / path, self.tree / path
        if os.path.lexists(target) or self._is_behind_link(target):
            return True  # it may lead out
        link, file = os.path.islink(source), os.path.isfile(source)
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if link or (file and os.path.getsize(source) <= MOST_COPIED):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
                return True
        return not (file or os.path.isdir(source))

    def _is_behind_link(self, place: Path) -> bool:
        return any(os.path.islink(one) for one in place.parents if one.is_relative_to(self.tree))
