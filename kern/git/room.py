"""A tree of kern's own that children see in the place of the person's: in one an agent works, in
another gates prove exactly what is to be committed. What git ignored in the person's tree when the
run began lies in it, too.
"""

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kern.git.environment import GitFailed
from kern.git.repository import DOCUMENTS, SUBMODULE, Repo, left_out
from kern.system import workspace

MOST_MOUNTS = 100  # the outer ones first
MOST_BYTES = 50 << 20  # of an ignored file that is copied
# Tools make them anew, and some believe what they find there.
_REMADE = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/")
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
Run = Callable[..., tuple[int, bytes, str]]


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
        self.own: tuple[str, ...] = (*DOCUMENTS, ".kern")  # in no candidate
        self.mounts: tuple[str, ...] = ()  # ignored folders, and files too large to be copied
        self.absent: tuple[str, ...] = ()  # ignored, and without a place here
        self.ignored = outermost(self.home)
        self._submodules = _submodules(self.home)  # what an agent adds may obey it
        self.differing: list[str] = []  # of them, which the person has otherwise
        self._filled = ""  # the tree of the last filling
        self.pristine = False  # since which no child could write there

    def new(self) -> list[str]:
        """What git ignores in the person's tree by now and did not when the run began."""
        return sorted({*outermost(self.home)} - {*self.ignored})

    def fill(self, tree: str) -> None:
        """Without a tree with all that lies in the person's. Raises KernError where the disk is
        full.
        """
        _remove(self.over)
        with workspace.reported(self.tree):
            tree = tree or visible(self.home)
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
            mounted = [path.rstrip("/") for path in self.ignored if not self._copy(path)]
            mounted.sort(key=lambda path: (path.count("/"), path))
            self.absent = tuple(mounted[MOST_MOUNTS:])
            there = [path for path in self._submodules if self._commit(tree, path)]
            self.differing = [path for path in there if self._fill_differing(tree, path)]
            same = (path for path in there if path not in self.differing)
            self.mounts = (*mounted[:MOST_MOUNTS], *same)
            for name in (".git", *self.mounts):
                self.make_place(name)

    def accept(self, tree: str) -> None:
        """A tree that it holds, or that is kept elsewhere."""

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
        """The tree that it holds by now. kern's documents and prompts and submodules are as they
        were filled in, and what was ignored is not in it, whatever the rules say by now.
        """
        whole = (path for path in self._submodules if (self.tree / path).exists())
        _add(self._run, (*self.own, *self.ignored, *whole))
        return self._git("write-tree").decode().strip()

    def unlisted(self) -> list[str]:
        """What it holds by now that git ignores and did not in the person's tree."""
        paths = os.fsdecode(self._git(*_IGNORED)).split("\0") if self.tree.is_dir() else []
        return [p for p in paths if p and p not in self.ignored and not p.endswith(_REMADE)]

    def _read(self, tree: str) -> None:
        if self.pristine and tree == self._filled:
            return
        self._git("read-tree", "--reset", "-u", tree)
        self._git("clean", "-ffdxq", "--", ":/")
        self._filled = tree

    def _commit(self, tree: str, path: str) -> str:
        """Of a submodule; empty where it is none any more, or the person does not have it."""
        entry = self.repo.entry(tree, path)
        there = entry and entry.is_submodule and (self.home.root / path / ".git").exists()
        return entry.blob if entry and there else ""

    def _fill_differing(self, tree: str, path: str) -> bool:
        """Of a submodule that the person has as it is to be committed what lies there is mounted,
        with all that it ignores; of another there are the files of its commit.
        """
        how = ("--quiet", "--ignore-submodules=none", tree, "--", f":(top,literal){path}")
        if not self.home.run("diff-index", *how)[0]:
            return False
        place, index = self.tree / path, self.place / "submodule"
        _remove(place)
        place.mkdir(parents=True)
        index.unlink(missing_ok=True)
        theirs = str(self.home.root / path)
        inner = self.home.text("-C", theirs, "rev-parse", "--absolute-git-dir")
        # The work tree by name: the settings of a submodule name the person's.
        env = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": str(index), "GIT_DIR": inner}
        self.home.run("read-tree", "--reset", "-u", self._commit(tree, path), env=env)
        (place / ".git").write_text(f"gitdir: {inner}\n")
        return True

    def _run(self, *argv: str, given: bytes = b"") -> tuple[int, bytes, str]:
        places = {"GIT_DIR": self.repo.git_dir, "GIT_WORK_TREE": self.tree}
        env = {name: str(path) for name, path in places.items()}
        env["GIT_INDEX_FILE"] = str(self.index)
        return self.repo.run("-C", str(self.tree), *argv, given=given, env=env)

    def _git(self, *argv: str) -> bytes:
        code, out, complaint = self._run(*argv)
        if code:
            raise GitFailed(argv, code, complaint)
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
            large = file and (info.st_size > MOST_BYTES or not os.access(source, os.R_OK))
            if large or stat.S_ISDIR(info.st_mode):
                return False
            if file or stat.S_ISLNK(info.st_mode):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)  # of an earlier filling: a link, or read-only
                shutil.copy2(source, target, follow_symlinks=False)
        return True


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


def visible(repo: Repo) -> str:
    """The tree that a person would commit who adds all that git sees."""
    with repo.private_index() as env:
        add_visible(repo, env)
        return repo.text("write-tree", env=env)


def add_visible(repo: Repo, env: Mapping[str, str]) -> None:
    """All that git sees, but for large files, to the index that the environment names."""

    def run(*argv: str, given: bytes) -> tuple[int, bytes, str]:
        return repo.run(*argv, given=given, env=env)

    listed = repo.paths("ls-files", "-z", "--others", "--exclude-standard", env=env)
    _add(run, [path for path in listed if path[-1] == "/" or _is_large(repo.root / path)])


def _is_large(place: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.lstat(place).st_size > MOST_BYTES
    return True


def _add(run: Run, apart: Iterable[str]) -> None:
    pathspecs = (":/", *(f":(top,exclude,literal){path.rstrip('/')}" for path in apart))
    argv = ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
    code, _, complaint = run(*argv, given=os.fsencode("\0".join(pathspecs)))
    # It has added the rest, and complains of what is excluded and ignored as well.
    if code and (code != 1 or re.search("(?m)^(error|fatal): ", complaint)):
        raise GitFailed(argv, code, complaint)


def _submodules(repo: Repo) -> list[str]:
    rows = repo.paths("ls-files", "-z", "--stage")
    return [row.partition("\t")[2] for row in rows if row.startswith(SUBMODULE)]


def _remove(folder: Path) -> None:
    """An overlay leaves a folder that its owner must open before it can go, tools leave read-only
    ones. A gate may have left links: none is followed.
    """
    for above, names, _ in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                if not os.path.islink(place := os.path.join(above, name)):
                    os.chmod(place, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
