"""A tree of kern's own that children see in the place of the person's: in one an agent works, in
another gates prove exactly what is to be committed. What git ignored in the person's tree when the
run began lies in it, too.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from kern.git import checkout, index, submodules
from kern.git.faults import GitFailed
from kern.git.ignore import DOCUMENTS
from kern.git.repository import SUBMODULE, Repo
from kern.system import workspace

MOST_MOUNTS = 100  # the outer ones first
MOST_BYTES = 50 << 20  # of an ignored file that is copied
# Tools make them anew, and some believe what they find there.
_OWN = (*DOCUMENTS, ".kern")
_REMADE = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/")


class Room:
    """What a child leaves there is gone with the next filling."""

    def __init__(self, repo: Repo, name: str = "room", home: Repo | None = None) -> None:
        """`home`: the person's tree, where a worker's own is another."""
        self.repo, self.home = repo, home or repo
        self.place = repo.git_dir / "kern" / name
        self.tree = self.place / "tree"
        self.index = self.place / "index"
        self.over = self.place / "over"  # what children write over the ignored folders
        self.git = self.place / "git"  # a shadow of git's folder
        self.own: tuple[str, ...] = _OWN  # in no candidate
        self.mounts: tuple[str, ...] = ()  # ignored folders, and files too large to be copied
        self.absent: tuple[str, ...] = ()  # ignored, and without a place here
        self._ignored = self._listed()
        self._submodules = submodules.declared(self.home)  # what an agent adds may obey it
        self.uncommitted: list[str] = []  # in them
        self._held = ""  # the tree that it is known to hold

    def _listed(self) -> list[str]:
        how = ("-z", "--others", "--ignored", "--exclude-standard", "--directory")
        found: list[str] = []
        for path in sorted(self.home.paths("ls-files", *how)):
            inside = found and found[-1].endswith("/") and path.startswith(found[-1])
            if not inside and not path.endswith(_REMADE):
                found.append(path)
        return found

    def new(self) -> list[str]:
        """What git ignores in the person's tree by now and did not when the run began, and what is
        not committed in its submodules.
        """
        return sorted({*self._listed(), *self.uncommitted} - {*self._ignored})

    def fill(self, tree: str) -> None:
        """Without a tree with all that lies in the person's. Raises KernError where the disk is
        full.
        """
        _remove(self.over)
        with workspace.reported(self.tree):
            fresh = not self.index.exists()
            self.tree.mkdir(parents=True, exist_ok=True)
            wanted = tree or visible(self.home)
            try:
                self._read(wanted)
            except GitFailed:  # a killed git left it half-way
                _remove(self.place)
                fresh = True
                self.tree.mkdir(parents=True)
                self._read(wanted)
            if fresh:
                self._date()
            ignored = self._ignored if tree else self._listed()
            mounted = [path.rstrip("/") for path in ignored if not self._copy(path)]
            mounted.sort(key=lambda path: (path.count("/"), path))
            self.absent = tuple(mounted[MOST_MOUNTS:])
            self.mounts = (*mounted[:MOST_MOUNTS], *self._fill_submodules(wanted, as_is=not tree))

            for name in (".git", *self.mounts):
                self.make_place(name)

    def make_place(self, name: str) -> None:
        """For what is mounted there, in a tree that a child may not write."""
        place = self.tree / name
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            if (self.home.root / name).is_dir():
                place.mkdir(exist_ok=True)
            else:
                place.touch()

    def candidate(self) -> str:
        """The tree that it holds by now. kern's documents and prompts are as they were filled in,
        and what was ignored is not in it, whatever the rules say by now.
        """
        left = self._closed()
        beside = (f":(top,exclude,literal){path}" for path in left)
        how = ("--pathspec-from-file=-", "--pathspec-file-nul")
        given = os.fsencode("\0".join((":/", *beside)))
        self._git("add", "--all", *how, given=given)
        self._held = self._git("write-tree").decode().strip()
        return self._held

    def unlisted(self) -> list[str]:
        """What it holds by now that git ignores and did not in the person's tree."""
        how = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        found = os.fsdecode(self._git(*how)).split("\0") if self.tree.is_dir() else []
        return [p for p in found if p and p not in self._ignored and not p.endswith(_REMADE)]

    def _closed(self) -> set[str]:
        """Submodules, and what of the excluded git would add: it takes no exception for what it
        ignores.
        """
        return self._whole_submodules() | self._not_ignored(self._excluded())

    def _whole_submodules(self) -> set[str]:
        return {path for path in self._submodules if (self.tree / path).exists()}

    def _excluded(self) -> set[str]:
        """kern's own, and the person's ignored files."""
        return {*self.own, *(path for path in self._ignored if not path.endswith("/"))}

    def _not_ignored(self, paths: set[str]) -> set[str]:
        given = os.fsencode("\0".join(paths))
        ignored = self._git("check-ignore", "-z", "--stdin", given=given, fine=(0, 1))
        return paths - {*os.fsdecode(ignored).split("\0")}

    def _read(self, tree: str) -> None:
        if tree != self._held or not self.tree.is_dir():
            self._git("read-tree", "--reset", "-u", tree)
        self._held = ""
        self._git("clean", "-ffdxq", "--", ":/")

    def _fill_submodules(self, tree: str, *, as_is: bool) -> list[str]:
        """One that the person has as it is to be committed lies there as an ignored folder does,
        with what it ignores: those are returned.
        """
        same, self.uncommitted = list[str](), []
        for path in self._submodules:
            inner, entry = submodules.at(self.home.root, path), self.repo.entry(tree, path)
            if not inner or not entry or entry.mode != SUBMODULE:
                continue
            changed = [f"{path}/{name}" for name in submodules.uncommitted(inner)]
            self.uncommitted += changed
            if as_is or (not changed and submodules.commit(inner) == entry.blob):
                same.append(path)
            else:
                folder = self.tree / path
                _remove(folder)
                with contextlib.suppress(GitFailed):  # then it is empty
                    submodules.fill(inner, entry.blob, folder, self.place / "submodule")
        return same

    def _git(self, *argv: str, given: bytes = b"", fine: Collection[int] = (0,)) -> bytes:
        places = {"GIT_DIR": self.repo.git_dir, "GIT_WORK_TREE": self.tree}
        env = {name: str(path) for name, path in places.items()}
        code, out, told = self.repo.run(
            *("-C", str(self.tree), *argv),
            given=given,
            env={**env, "GIT_INDEX_FILE": str(self.index)},
        )
        if code not in fine:
            raise GitFailed(argv, code, told)
        return out

    def _date(self) -> None:
        """What is the person's byte for byte gets its time: else a build takes all for changed."""
        here = {*self._git("ls-files", "-z", "--stage").split(b"\0")}
        for row in {*self.home.git("ls-files", "-z", "--stage").split(b"\0")} & here:
            path = os.fsdecode(row.partition(b"\t")[2])
            with contextlib.suppress(OSError):
                theirs, ours = os.lstat(self.home.root / path), os.lstat(self.tree / path)
                if stat.S_ISREG(theirs.st_mode) and theirs.st_size == ours.st_size:
                    os.utime(self.tree / path, ns=(theirs.st_atime_ns, theirs.st_mtime_ns))
        self._git("update-index", "-q", "--refresh")

    def _copy(self, path: str) -> bool:
        """Whether nothing of it is left to mount."""
        source, target = self.home.root / path, self.tree / path
        with contextlib.suppress(FileNotFoundError):
            info = os.lstat(source)
            file = stat.S_ISREG(info.st_mode)
            if stat.S_ISDIR(info.st_mode):
                return False
            if file and (info.st_size > MOST_BYTES or not os.access(source, os.R_OK)):
                return False
            if file or stat.S_ISLNK(info.st_mode):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        return True


def visible(repo: Repo) -> str:
    """The tree that a person would commit who adds all that git sees."""
    with index.private(repo, copy=True) as env:
        add_visible(repo, env)
        return repo.text("write-tree", env=env)


def add_visible(repo: Repo, env: Mapping[str, str]) -> None:
    """All that git sees, but for large files, to the index that the environment names."""
    repo.git("add", "--update", "--", ":/", env=env)
    listed = repo.paths("ls-files", "-z", "--others", "--exclude-standard", env=env)
    small = [path for path in listed if path[-1] != "/" and _is_small(repo.root / path)]
    given = os.fsencode("\0".join(small))
    repo.git("update-index", "--add", "--remove", "-z", "--stdin", given=given, env=env)


def _is_small(place: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.lstat(place).st_size <= MOST_BYTES
    return False


def _remove(folder: Path) -> None:
    """An overlay leaves a folder that its owner must open before it can go, tools leave read-only
    ones. A gate may have left links: none is followed.
    """
    for above, names, _ in os.walk(folder):
        for name in names:
            checkout.open_folder(Path(above, name))
    shutil.rmtree(folder, ignore_errors=True)
