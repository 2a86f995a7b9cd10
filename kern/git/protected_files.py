"""Which files git or an agent obeys by themselves, where they lie, and which of them are there."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path

from kern import obeyed
from kern.git.repository import Repo


class How(StrEnum):
    """What of a place is guarded."""

    FILE = "file"
    FOLDER = "folder"  # its files
    ALL = "all"  # its files at any depth
    HOOKS = "hooks"  # what git runs there, and what lies in folders named like it


Place = tuple[str, How]  # the name says the region, and the path below it
CONFIG: tuple[Place, ...] = (
    ("common:config", How.FILE),
    ("git:config.worktree", How.FILE),
    ("common:info/exclude", How.FILE),
    ("common:info/attributes", How.FILE),
)
PROMPTS = ".kern/prompts"  # in no snapshot, so that no task can change them
TREE: tuple[Place, ...] = (
    (f"tree:{PROMPTS}", How.FOLDER),
    *((f"tree:{name}", How.FILE) for name in (*obeyed.SETTINGS, *obeyed.MAIN, obeyed.OWN)),
    *((f"tree:{name}", How.ALL) for name in (*obeyed.BOOKS, *obeyed.FOLDERS)),
)
_CACHES = {"__pycache__", "node_modules", ".venv", ".git"}  # change by themselves
_HARMLESS = (".sample", ".log", ".gitignore")  # opencode makes the last, unasked
_APPLY = ("applypatch-msg", "pre-applypatch", "post-applypatch")
_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit")
_MOVE = ("pre-rebase", "post-checkout", "post-merge", "post-rewrite", "reference-transaction")
_PUSH = ("pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update")
_REST = ("push-to-checkout", "pre-auto-gc", "post-index-change", "sendemail-validate")
NAMES = {*_APPLY, *_COMMIT, *_MOVE, *_PUSH, *_REST, "fsmonitor-watchman"}  # of git's hooks
_MOST = 200  # files of a folder that is taken for hooks' alone
_MOST_BELOW = 5000  # files that are looked at in one place


class Layout:
    """Where the regions lie: the working tree, git's two folders, and where hooks lie elsewhere."""

    def __init__(self, repo: Repo, hooks: str = "") -> None:
        self.hooks = hooks  # a folder that core.hooksPath names, outside of the tree
        self._root = repo.root
        self._regions = {
            "tree": repo.root,
            "common": repo.common_dir,
            "git": repo.git_dir,
            "hooks": Path(hooks),
        }

    def at(self, name: str) -> Path:
        region, _, path = name.partition(":")
        return self._regions[region] / path

    def shown(self, name: str) -> str:
        place = self.at(name)
        inside = place.is_relative_to(self._root)
        return str(place.relative_to(self._root)) if inside else str(place)

    def path(self, name: str) -> str:
        """Where it really lies, below the top level; empty where that is outside, or kern's own."""
        place = self.at(name)
        real = Path(os.path.realpath(place.parent), place.name)
        path = str(real.relative_to(self._root)) if real.is_relative_to(self._root) else ""
        return "" if path.split("/")[0] in (".git", ".kern") else path

    def there(self, places: Iterable[Place], links: set[str]) -> Iterator[str]:
        """The names of what is there, reached through no links but these."""
        for name, how in places:
            folders = folders_of(name) if how is How.FILE else (*folders_of(name), name)
            if any(self.at(one).is_symlink() and one not in links for one in folders):
                continue
            place = self.at(name)
            if how is How.FILE:
                yield from [name] if os.path.lexists(place) else []
            else:
                gap = "" if name.endswith(":") else "/"
                for path in _IN[how](place):
                    yield f"{name}{gap}{path}"


TURNS = 3


def turn(name: str) -> int:
    """git's configuration is restored before git is asked anything, and the tree at the end: by
    then git ignores what it ignored.
    """
    if name.startswith(("common:config", "common:info", "git:")):
        return 0
    return 2 if in_tree(name) else 1


_MODULES = "git:modules/"
_MODULE: tuple[Place, ...] = (
    ("config", How.FILE),
    ("info/exclude", How.FILE),
    ("info/attributes", How.FILE),
    ("hooks", How.ALL),
)


def modules(layout: Layout) -> Iterator[Place]:
    """Those of the submodules' repositories, which lie in the one around them."""
    top = layout.at(_MODULES)
    folders, found = [top], 0
    for folder in folders:
        here = folder != top and (folder / "HEAD").is_file()
        if here and (found := found + 1) <= _MOST:
            name = f"{_MODULES}{folder.relative_to(top)}"
            yield from ((f"{name}/{path}", how) for path, how in _MODULE)
        inner = folder / "modules" if here else folder
        with contextlib.suppress(OSError):
            entries = sorted(os.scandir(inner), key=lambda entry: entry.name)
            folders += [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]


def gone(layout: Layout, name: str) -> bool:
    """Whether a task has taken the whole submodule away."""
    if not name.startswith(_MODULES):
        return False
    above = [layout.at(folder) for folder in folders_of(name)]
    return not any((folder / "HEAD").is_file() for folder in above)


def is_module_config(name: str) -> bool:
    return name.startswith(_MODULES) and name.endswith("/config")


def in_tree(name: str) -> bool:
    return name.startswith("tree:")


def folders_of(name: str) -> Iterator[str]:
    """The names of the folders above, the outermost first."""
    root, _, path = name.partition(":")
    if root == "hooks" and path:
        yield "hooks:"  # the others stand, or nothing works
    parts = path.split("/")
    yield from (f"{root}:{'/'.join(parts[:count])}" for count in range(1, len(parts)))


def folders(places: Iterable[Place]) -> list[str]:
    """All folders in which something is guarded, the outer ones first."""
    found = {one for name, _ in places for one in folders_of(name)}
    return sorted(found | {name for name, how in places if how is not How.FILE})


def hooks_place(repo: Repo) -> tuple[str, Layout]:
    """The name of the folder where git looks for hooks, and the layout in which that is a name."""
    folder = Path(os.path.normpath(repo.hooks_folder()))
    if folder == repo.common_dir / "hooks":
        return "common:hooks", Layout(repo)
    if folder.is_relative_to(repo.root):
        path = str(folder.relative_to(repo.root))
        return f"tree:{'' if path == '.' else path}", Layout(repo)
    return "hooks:", Layout(repo, os.path.realpath(folder))


def hooks_in_tree(repo: Repo) -> Path | None:
    """The folder of the tree where git looks for hooks; None where it looks elsewhere, in its own
    folder as a rule.
    """
    folder = Path(os.path.normpath(repo.hooks_folder()))
    if not folder.is_relative_to(repo.root) or folder.is_relative_to(repo.common_dir):
        return None
    return folder


def alone(folder: Path, root: Path) -> bool:
    """Whether a folder is small enough to be one of hooks and of what belongs to them."""
    with contextlib.suppress(OSError):
        around = root.is_relative_to(folder) or folder == Path(os.path.expanduser("~"))
        return not around and len([*islice(_all(folder), _MOST + 1)]) <= _MOST
    return False


def is_hook(name: str) -> bool:
    return name.split(".")[0] in NAMES and not name.endswith(".sample")


def _files(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if not entry.is_dir(follow_symlinks=False) and not entry.name.endswith(".sample"):
                yield entry.name


def _all(folder: Path) -> Iterator[str]:
    """The outer ones first: they come before the bound."""
    folders, count = [folder], 0
    for inner in folders:
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(inner), key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders += [Path(entry.path)] if entry.name not in _CACHES else []
                elif not entry.name.endswith(_HARMLESS) and count < _MOST_BELOW:
                    count += 1
                    yield os.path.relpath(entry.path, folder)
        if count >= _MOST_BELOW:
            return


def _hooks(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if not is_hook(entry.name):
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield entry.name
                continue
            for above, _, names in os.walk(entry.path):
                yield from (os.path.relpath(Path(above, name), folder) for name in names)


_IN = {How.FOLDER: _files, How.ALL: _all, How.HOOKS: _hooks}
