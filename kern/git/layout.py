"""What no git tree holds of a working tree: permissions, empty folders, pipes, and the repositories
that lie in it.
"""

import contextlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path

from kern.errors import KernError
from kern.frozen import frozen
from kern.git import refs, submodules
from kern.git.checkout import Modes, in_real_folder, leads_out, open_folder, plain_mode
from kern.git.repository import SUBMODULE, Entry, Repo
from kern.git.snapshot import Snapshots, entry_mode, left_out
from kern.git.store import FOLDER, Tree
from kern.system import workspace

_FOLDER = "040000"


@frozen
class Layout:
    """Of one snapshot. What git ignored then is no part of it."""

    usual: Mapping[str, int] = field(default_factory=dict)  # permissions, by an entry's mode
    modes: Mapping[str, int] = field(default_factory=dict)  # of the paths that have others
    folders: tuple[str, ...] = ()  # above no file of the tree
    special: tuple[str, ...] = ()  # pipes, sockets, devices
    repositories: Mapping[str, tuple[str, str]] = field(
        default_factory=dict
    )  # git's folder, branch
    inside: Mapping[str, str] = field(default_factory=dict)  # uncommitted in submodules

    def mode(self, path: str, kind: str) -> int | None:
        return self.modes.get(path, self.usual.get(kind))

    def sound(self) -> bool:
        """Whether it can be one: a file holds what anybody wrote there."""
        paths = [*self.modes, *self.folders, *self.special, *self.repositories]
        modes = (*self.modes.values(), *self.usual.values())
        homes = [text for pair in self.repositories.values() for text in (len(pair) == 2, *pair)]
        return (
            not any(leads_out(path) or "\0" in path for path in paths if path != "")
            and all(type(m) is int and 0 <= m <= 0o7777 for m in modes)
            and all(text is True or (isinstance(text, str) and "\0" not in text) for text in homes)
            and all(isinstance(text, str) for text in self.inside.values())
        )

    def of_files(self) -> Modes:
        return lambda path, entry: self.mode(path, entry.mode) or plain_mode(path, entry)


def plain() -> dict[str, int]:
    """The permissions that git would give each kind."""
    usual = {name: plain_mode("", Entry(name, "")) for name in ("100644", "100755")}
    return {**usual, _FOLDER: usual["100755"]}


def kind(mode: int) -> str:
    """As a tree would have it."""
    return _FOLDER if stat.S_ISDIR(mode) else entry_mode(mode)


class Layouts:
    """Of the trees that stage 2 and commands of the project began with."""

    def __init__(self, repo: Repo, snapshots: Snapshots) -> None:
        self.repo = repo
        self.snapshots = snapshots
        self._known: dict[str, Layout] = {}

    @property
    def _file(self) -> Path:
        return self.repo.git_dir / "kern" / "layout.json"

    def of(self, tree: str) -> Layout | None:
        """None where an earlier kern began with the tree, and knew of none."""
        if tree not in self._known and (found := self._saved().get(tree)):
            self._known[tree] = found
        return self._known.get(tree)

    def remember(self, tree: str, *, durable: bool = True) -> None:
        """Of the working tree as it is now. `durable`: a later run needs it too."""
        self._known[tree] = self._scan(tree).found()
        if durable:
            standing = {start.tree for _, start in refs.starts(self.repo)}
            kept = {name: one for name, one in self._saved().items() if name in standing}
            said = {name: asdict(one) for name, one in {**kept, tree: self._known[tree]}.items()}
            workspace.replace(self._file, json.dumps(said).encode())

    def _saved(self) -> dict[str, Layout]:
        try:
            said = json.loads(workspace.read(self._file) or b"{}")
            found = {tree: Layout(**one) for tree, one in said.items()}
            return {tree: self._ours(one) for tree, one in found.items() if one.sound()}
        except (ValueError, TypeError, AttributeError, RecursionError, KernError):
            return {}

    def _ours(self, layout: Layout) -> Layout:
        """No submodule is set up again with a folder of git's that lies just anywhere."""
        places = self.repo.root, self.repo.common_dir / "modules", self.repo.git_dir / "modules"
        roots = [place.resolve() for place in places]
        found = {
            path: (home if any(Path(home).resolve().is_relative_to(r) for r in roots) else "", name)
            for path, (home, name) in layout.repositories.items()
        }
        return replace(layout, repositories=found)

    # ------------------------------------------------------------ the disk

    def repositories(self, tree: str, before: Layout) -> Layout:
        """The layout now, without permissions of files."""
        return self._scan(tree, before, files=False).found()

    def _scan(self, tree: str, before: Layout | None = None, *, files: bool = True) -> "_Look":
        """By the files and the ignore rules of the tree. `before`: what was closed since is opened
        to be read.
        """
        look = _Look(self.repo, tree, before, files=files)
        while look.todo:
            while look.todo:
                look.into(look.todo.pop())
            look.decide(self.snapshots.ignored_by(tree, look.unsure))
        return look

    def put_right(self, tree: str, before: Layout, but: Collection[str]) -> list[str]:
        """As it was before, `but` for some paths, and for repositories; what was removed. None of
        it holds anything that could be lost.
        """
        root = self.repo.root
        look = self._scan(tree, before)
        now = look.found()
        gone = sorted({*now.special} - {*before.special})
        for path in gone:
            with contextlib.suppress(OSError):
                open_folder((root / path).parent)
                os.unlink(root / path)
        for path in sorted({*now.folders} - {*before.folders}, reverse=True):
            with contextlib.suppress(OSError):  # something is in it: git ignored it before
                open_folder((root / path).parent)
                os.rmdir(root / path)
                gone.append(f"{path}/")
        real = {"": True}  # nothing is done behind a link that stands there as yet
        for path in before.folders:
            with contextlib.suppress(OSError):  # nor where a file does
                if in_real_folder(root, path, real):
                    os.makedirs(root / path, exist_ok=True)
        for path in sorted({*look.modes, *before.modes} - {*but}, reverse=True):
            with contextlib.suppress(OSError):
                if not in_real_folder(root, path, real):
                    continue
                now_has = os.lstat(root / path).st_mode
                if stat.S_ISDIR(now_has):
                    same = path in before.folders or self.repo.has_folder(tree, path)
                else:
                    same = _is(self.repo.entry(tree, path), now_has)
                wanted = before.mode(path, kind(now_has)) if same else None
                if wanted not in (None, stat.S_IMODE(now_has)):
                    os.chmod(root / path, wanted)
        return gone


def _is(entry: Entry | None, mode: int) -> bool:
    """Whether a tree would have the file so: what it would not, is not permissions alone."""
    return entry is not None and stat.S_ISREG(mode) and entry.mode == kind(mode)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What is in it, looked at by its name alone: with the whole path a look takes half again as
    long. After that the entries tell no more than what they were asked meanwhile.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(place) as entries:
            yield entries
    finally:
        os.close(place)


class _Look:
    """One walk over the folders that git does not ignore."""

    def __init__(self, repo: Repo, tree: str, before: Layout | None, *, files: bool) -> None:
        """`files`: look at their permissions as well."""
        self.repo = repo
        self.files = files
        self.before = before
        self.trees = {"": repo.tree(tree)}  # of the folders to come that the tree has
        self.usual = {**plain(), **(before.usual if before else {})}
        regular = {stat.S_IFREG | mode for mode in self.usual.values()}
        self.as_usual = {mode for mode in regular if self.usual[kind(mode)] == stat.S_IMODE(mode)}
        self.todo = [""]
        self.unsure: list[str] = []  # ignored or not, git is to say
        self.modes: dict[str, int] = {}
        self.folders: set[str] = set()
        self.special: list[str] = []
        self.repositories: dict[str, tuple[str, str]] = {}
        self.inside: dict[str, str] = {}

    def into(self, folder: str) -> None:
        place = self.repo.root / folder
        tree = self.trees.pop(folder, "")
        try:
            self._note(folder, os.lstat(place).st_mode)
            if self.before and (self.before.mode(folder, _FOLDER) or 0o700) & 0o500 == 0o500:
                open_folder(place, os.R_OK | os.X_OK)
            with _opened(place) as entries:
                found = {one.name: one for one in entries if not self._is_as_usual(one)}
        except OSError:  # gone, or closed to us before as well
            return
        if found.pop(".git", None) and folder:
            self._repository(folder)
            if not tree:
                self.folders.discard(folder)
                return
        above = f"{folder}/" if folder else ""
        for name, entry in found.items():
            if folder or not (left_out(name) or left_out(f"{name}/")):
                held: Tree = self.repo.store.tree(tree) if tree else {}
                with contextlib.suppress(OSError):
                    self._one(above + name, entry, *held.get(os.fsencode(name), (b"", "")))

    def _is_as_usual(self, entry: os.DirEntry[str]) -> bool:
        """As nearly all files are: the tree is not asked for them. `.git` is one in a worktree."""
        try:
            if entry.name == ".git" or not entry.is_file(follow_symlinks=False):
                return False
            return not self.files or entry.stat(follow_symlinks=False).st_mode in self.as_usual
        except OSError:  # gone meanwhile
            return True

    def _note(self, path: str, mode: int) -> None:
        if self.usual[kind(mode)] != stat.S_IMODE(mode):
            self.modes[path] = stat.S_IMODE(mode)

    def _one(self, path: str, entry: os.DirEntry[str], mode: bytes, stored: str) -> None:
        """`mode`, `stored`: what the tree has in the place, if anything."""
        if entry.is_file(follow_symlinks=False):
            if stored and mode != FOLDER:
                self._note(path, entry.stat(follow_symlinks=False).st_mode)
        elif entry.is_dir(follow_symlinks=False):
            if mode == SUBMODULE.encode() and os.path.lexists(self.repo.root / path / ".git"):
                self._repository(path)
                self._uncommitted(path)
            elif mode == FOLDER:
                self.trees[path] = stored
                self.todo.append(path)
            else:
                self.unsure.append(f"{path}/")
        elif not entry.is_symlink():
            self.unsure.append(path)

    def _repository(self, path: str) -> None:
        inner = submodules.at(self.repo.root, path)
        git_dir = str(inner.git_dir) if inner else ""
        self.repositories[path] = git_dir, submodules.branch(inner) if inner else ""

    def _uncommitted(self, path: str) -> None:
        if inner := submodules.at(self.repo.root, path):
            found = submodules.uncommitted(inner)
            self.inside |= {f"{path}/{name}": what for name, what in found.items()}

    def decide(self, hidden: Collection[str]) -> None:
        visible = [path for path in self.unsure if path not in hidden]
        self.unsure = []
        self.special += [path for path in visible if not path.endswith("/")]
        self.todo = [path.rstrip("/") for path in visible if path.endswith("/")]
        self.folders |= {*self.todo}

    def found(self) -> Layout:
        folders, special = tuple(sorted(self.folders)), tuple(sorted(self.special))
        return Layout(self.usual, self.modes, folders, special, self.repositories, self.inside)
