"""A tree of kern's own that children see in the place of the person's: an agent works in it, then
gates prove there exactly what is to be committed. What git ignored in the person's tree when the
run began lies in it, too.
"""

import contextlib
import filecmp
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from time import time_ns

from kern.git import submodules
from kern.git.environment import GitFailed
from kern.git.repository import DOCUMENTS, REMADE, Repo
from kern.system import process, workspace

MOST_MOUNTS = 100  # the outer ones first
_YOUNG_NS = 2_000_000_000  # later nothing is touched in the second that git knows
MOST_COPIED = 50 << 20  # bytes of an ignored file
# Whatever the person's settings let git overlook.
_EXACTLY = ("-c", "core.trustctime=1", "-c", "core.checkStat=default", "-c", "core.ignoreStat=0")
_AS_NAMED = ("-c", "core.quotePath=false", "-c", "core.ignorecase=false")
# What git neither lists nor removes: pipes, and repositories made in the tree's own folders.
_ODD = "( -name .git -o ! -type f ! -type d ! -type l )"
_UNSEEN = f"find . ! -path ./.git {_ODD} -prune -exec rm -rf {{}} +"
_FIND_S = 600


class Room:
    """What a child leaves there is gone with the next filling."""

    def __init__(self, repo: Repo, name: str, home: Repo, ignored: Collection[str]) -> None:
        """`home`: the person's tree, which is another than a worker's; `ignored`: what is
        `outermost` there.
        """
        self.repo, self.home, self.ignored = repo, home, ignored
        self.place = repo.git_dir / "kern" / name
        self.tree = self.place / "tree"
        # Of the last filling; what it wrote; the person's, as it was then.
        self.index, self.recent, self.seen = (self.place / n for n in ("index", "recent", "seen"))
        places = (("DIR", repo.git_dir), ("WORK_TREE", self.tree), ("INDEX_FILE", self.index))
        self.env = {f"GIT_{name}": str(path) for name, path in places}
        self.over = self.place / "over"  # what children write over the ignored folders
        self.own: tuple[str, ...] = (*DOCUMENTS, ".kern")  # in no candidate
        self._staged = ""  # the tree of the index, which no child can write
        self.mounts: tuple[str, ...] = ()  # ignored folders, and files too large to be copied
        self._submodules = submodules.listed(home)  # what an agent adds may obey it

    def fill(self, tree: str, *, proves: bool = True) -> list[str]:
        """What it held beside a tree, which is gone. Raises KernError where the disk is full.
        `proves`: no build of an edit of the person's may pass there for one of the tree.
        """
        workspace.remove(self.over)
        with workspace.reported(self.tree):
            removed, written = self._read(tree)
            if proves or not written <= {*self.own}:
                self._date(tree, written)
            mounted = [path.rstrip("/") for path in self.ignored if not self._copy(path)]
            mounted.sort(key=lambda path: (path.count("/"), path))
            self.absent = mounted[MOST_MOUNTS:]
            same, self.differing = submodules.fill(self._submodules, self.home, tree, self.tree)
            self.mounts = (*mounted[:MOST_MOUNTS], *same)
            for name in (".git", *self.mounts):
                self.make_place(name)
        return [one.removeprefix("Removing ") for one in removed if not one.endswith(REMADE)]

    def accept(self, tree: str) -> None:
        """A tree that it holds, or that is kept elsewhere."""

    def make_place(self, name: str) -> None:
        """For what is mounted there, in a tree that a child may not write."""
        place = self.tree / name
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir() if (self.home.root / name).is_dir() else place.touch(exist_ok=False)

    def candidate(self) -> str:
        """The tree that it holds by now: kern's documents and prompts and submodules are as they
        were filled in, and what was ignored is not in it, whatever the rules say by now. Its index
        stays that of the last filling, so that the next one writes anew what a child has touched.
        """
        whole = (path for path in self._submodules if (self.tree / path).exists())
        apart = (*self.own, *self.ignored, *whole)
        there = (path for path in apart if not self._is_behind_link(self.tree / path))
        with self.repo.private_index(self.index) as env:
            return self.repo.added({**self.env, **env}, there)

    def follow(self, tree: str) -> None:
        """Its index, to a tree of which the files are to follow, or show nothing to an agent."""
        was, self._staged = self._staged or self.repo.text("write-tree", env=self.env), ""
        change = self.repo.changed(was, tree)
        self.repo.update_index({path: new for path, (_, new) in change.items()}, self.env)
        self._staged = tree

    def _read(self, tree: str) -> tuple[list[str], set[str]]:
        """What git says of what else was there, and what it wrote."""
        self.index.with_name("index.lock").unlink(missing_ok=True)  # of a git that was killed
        if not self.index.exists():
            return [], self._begin(tree)
        try:
            self._remove_unseen()
            self._remove_young()
            self.follow(tree)
            out = self.repo.text(*_AS_NAMED, "clean", "-ffdx", env=self.env)
            # What a child has merely touched as well.
            look = ("diff-files", "-z", "--name-only", submodules.UNSEEN)
            if written := self.repo.paths(*_EXACTLY, *look, env=self.env):
                anew = (*_EXACTLY, "checkout-index", "--force", "-z", "--stdin")
                self.repo.git(*anew, stdin=os.fsencode("\0".join(written)), env=self.env)
        except (GitFailed, OSError):  # at what is closed to git
            self.index.unlink()
            return [], self._begin(tree)
        return out.splitlines(), {*written}

    def _begin(self, tree: str) -> set[str]:
        workspace.remove(self.tree)
        self.tree.mkdir(parents=True)
        self._staged = ""
        empty = self.repo.text("write-tree", env=self.env)
        self.repo.git("read-tree", "-m", "-u", empty, tree, env=self.env)
        if self.repo.is_set("core.sparsecheckout"):  # what a task changes outside of it
            new = self.repo.git("diff-tree", "-r", "-z", "--name-only", "HEAD", tree)
            whole = ("checkout-index", "-q", "--ignore-skip-worktree-bits", "-z", "--stdin")
            self.repo.run(*whole, stdin=new, env=self.env)
        self._staged = tree
        return {*self.repo.changed(empty, tree)}

    def _remove_unseen(self) -> None:
        env = {**os.environ, **process.tree_last(self.home.root)}
        code, _, why = process.capture(_UNSEEN.split(), _FIND_S, str(self.tree), env)
        if code:
            raise OSError(why)

    def _remove_young(self) -> None:
        """What a child has changed since the last filling, of what that wrote: git knows a file by
        its size and seconds.
        """
        filled = os.stat(self.index).st_ctime_ns
        for path in filter(None, os.fsdecode(workspace.read(self.recent) or b"").split("\0")):
            place = self.tree / path
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if os.lstat(place).st_ctime_ns > filled and not self._is_behind_link(place):
                    place.unlink()
        if filled < time_ns() - _YOUNG_NS:
            self.recent.write_bytes(b"")

    def _date(self, tree: str, written: Collection[str]) -> None:
        """What is the person's byte for byte gets its time: else a build takes all for changed. The
        rest is newer than what they have built of their edits, which is none of this. The others
        are as they were `seen` at the last filling.
        """
        with self.home.private_index() as now:
            env = {"GIT_INDEX_FILE": str(self.seen)} if self.seen.exists() else now
            look = ("diff-index", "-z", "--name-only", "--diff-filter=a", submodules.UNSEEN, tree)
            edited = {*self.home.paths(*look, env=env)}.difference(self.own)
            there = [path for path in edited.union(written) if os.path.isfile(self.tree / path)]
            edited.difference_update(filecmp.cmpfiles(self.home.root, self.tree, edited)[0])
            for one in there:
                with contextlib.suppress(OSError):
                    when = time_ns() if one in edited else os.stat(self.home.root / one).st_mtime_ns
                    os.utime(self.tree / one, ns=(when, when), follow_symlinks=False)
            if names := os.fsencode("\0".join(there)):
                with self.recent.open("ab") as file:
                    file.write(b"\0" + names)
                self.repo.run(*_EXACTLY, "update-index", "-z", "--stdin", stdin=names, env=self.env)
            with contextlib.suppress(FileNotFoundError):  # of a clone that has checked out nothing
                os.replace(now["GIT_INDEX_FILE"], self.seen)
        os.utime(self.index)  # which git leaves as it is where the second is the same

    def _copy(self, path: str) -> bool:
        """Whether nothing of it is left to mount."""
        source, target = self.home.root / path, self.tree / path
        if os.path.lexists(target) or self._is_behind_link(target):
            return True  # it may lead out
        with contextlib.suppress(FileNotFoundError, PermissionError):
            small = os.path.isfile(source) and os.path.getsize(source) <= MOST_COPIED
            if small or os.path.islink(source):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
                return True
        return not os.path.exists(source)

    def _is_behind_link(self, place: Path) -> bool:
        return any(os.path.islink(one) for one in place.parents if one.is_relative_to(self.tree))
