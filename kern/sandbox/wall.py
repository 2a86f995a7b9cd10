"""What a child of kern may see, write and reach: a list of mounts, variables by name, hosts.

In place of the person's home lies one that is kern's. So no list of secrets can be too short, and
each tool that writes below ~ works.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from kern.frozen import frozen
from kern.model import Needs


class Kind(StrEnum):
    READER = "reader"  # research, the judge, the planner
    WORKER = "worker"  # implement
    CHECK = "check"  # gates and probes: what the worker wrote runs there
    COMMITTER = "committer"  # git with the person's hooks


class Access(StrEnum):
    READ = "read"
    WRITE = "write"
    EMPTY = "empty"  # a folder in memory, gone when the child ends
    DEVICE = "device"


@frozen
class Mount:
    access: Access
    target: Path  # where the child sees it
    source: Path | None = None  # what lies there; None of an empty one
    lower: Path | None = None  # what is seen beneath it and not changed: then it is an overlay


@frozen
class Tree:
    """The working tree of a run and the git folder that belongs to it."""

    root: Path
    git_dir: Path
    common_dir: Path
    kept: tuple[Path, ...] = ()  # in it, and not for a task to write
    documents: tuple[Path, ...] = ()  # SPEC.md and LEARNINGS.md, which a hook may format or stash
    saves: tuple[Path, ...] = ()  # where hooks save what is not staged while they run


@frozen
class Grants:
    """What the person's own settings open."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    env: tuple[str, ...] = ()
    network: tuple[str, ...] | None = None  # hosts; None: any; EVERYTHING: without a wall


EVERYTHING = "*"
AGENTS = (Kind.READER, Kind.WORKER)
_SEEN = tomllib.loads(Path(__file__).with_name("seen.toml").read_text("utf-8"))
_PREFIX = ("pyvenv.cfg", "lib", "libexec", "lib64", "VERSION", "release")  # X/bin is of such an X
_NAME = re.compile(r"[A-Z][A-Z0-9_]{3,}")


# ---------------------------------------------------------------- what it sees


def mounts(kind: Kind, tree: Tree, home: Path, own: Path, grants: Grants) -> list[Mount]:
    """Of any child; the outer ones first. `home`: the person's, by its path alone; `own` lies
    there instead.
    """
    read = [*map(Path, _SEEN["system"]), *_names(), *toolchains(home, tree.root)]
    found = [Mount(Access.READ, path, path) for path in read]
    found += [Mount(Access.EMPTY, Path(path)) for path in _SEEN["empty"]]
    for path in (home, Path(os.path.realpath(home))):
        found.append(Mount(Access.WRITE, path, own))
    found += _tree(kind, tree)
    for access, paths in (
        (Access.READ, grants.read),
        (Access.WRITE, grants.write),
        (Access.DEVICE, grants.devices),
    ):
        found += [Mount(access, path, path) for path in paths]
    return ordered(found)


def ordered(found: Iterable[Mount]) -> list[Mount]:
    """What is there, the outer ones first; of two for one place the later."""
    there = {one.target: one for one in found if os.path.exists(one.source or one.target)}
    return sorted(there.values(), key=lambda one: len(one.target.parts))


def caches(home: Path, folder: Path) -> list[Mount]:
    """The person's, each beneath one of the children's in that folder, which is made."""
    found = []
    for name in _SEEN["caches"]:
        if (home / name).is_dir():
            place = folder / name.replace("/", "-")
            for part in ("upper", "work"):
                (place / part).mkdir(mode=0o700, parents=True, exist_ok=True)
            found.append(Mount(Access.WRITE, home / name, place / "upper", home / name))
    return found


def make_room(found: Iterable[Mount]) -> None:
    """In the homes for what is to lie in them: a child may have left a file or a link in the place
    of a folder, or the place of an earlier mount is there, of another kind.
    """
    homes = {one.target: one.source for one in found if one.source not in (None, one.target)}
    for one in found:
        outer = next((path for path in one.target.parents if path in homes), None)
        if outer is None or one.source is None:
            continue
        place = homes[outer]
        assert place
        *way, name = one.target.relative_to(outer).parts
        for part in way:
            place /= part
            if place.is_symlink() or place.is_file():
                place.unlink()
        place /= name
        if place.is_symlink() or (place.is_file() and one.source.is_dir()):
            place.unlink()
        elif place.is_dir() and not one.source.is_dir():
            shutil.rmtree(place)


def _tree(kind: Kind, tree: Tree) -> Iterator[Mount]:
    access = Access.READ if kind is Kind.READER else Access.WRITE
    yield Mount(access, tree.root, tree.root)
    commits = kind is Kind.COMMITTER
    for folder in dict.fromkeys((tree.common_dir, tree.git_dir)):
        yield Mount(Access.WRITE if commits else Access.READ, folder, folder)
        for name in _KEPT_IN_GIT if commits else ():
            yield Mount(Access.READ, folder / name, folder / name)
        if not commits and (folder / "lfs").is_dir():  # its filters write there, in `git diff` too
            yield Mount(Access.EMPTY, folder / "lfs")
    closed = (*tree.kept, *(() if commits else tree.documents))
    for path in filter(None, (_inside(path, tree.root) for path in closed)):
        yield Mount(Access.READ, path, path)
    for path in (tree.git_dir, *tree.saves) if commits else ():
        yield Mount(Access.WRITE, path, path)


# What git obeys or kern remembers, of a git folder that hooks may otherwise write.
_KEPT_IN_GIT = (
    *("hooks", "config", "config.worktree", "info", "kern", "worktrees", "modules", "commondir"),
    *("info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout"),  # of `saves`
)


def _inside(path: Path, root: Path) -> Path | None:
    """Where it really lies, if that is in the tree: elsewhere there is nothing to keep."""
    real = Path(os.path.realpath(path))
    return real if real.is_relative_to(os.path.realpath(root)) and real.exists() else None


def _names() -> list[Path]:
    """What /etc/resolv.conf leads to, wherever that is."""
    return [Path(os.path.realpath("/etc/resolv.conf"))]


def toolchains(home: Path, root: Path) -> list[Path]:
    """Programs outside of the system's folders: by a table, by PATH, of virtual environments that
    links at the tree's top lead to.
    """
    known = [home / name for name in _SEEN["toolchains"]]
    path = [Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one[:1] == "/"]
    return [*known, *(installation(one, home, root) for one in path), *linked(root)]


def installation(folder: Path, home: Path, root: Path) -> Path:
    """With X/bin all of X, as a virtual environment needs it; but where X is no installation, or a
    folder of settings (~/.fly/bin), only what is named.
    """
    whole = folder.parent if folder.name in ("bin", "shims", "Scripts") else folder
    if whole == folder or any(one.is_relative_to(whole) for one in (home, root)):
        return folder
    settings = whole.parent == home and whole.name.startswith(".")
    sound = any((whole / name).exists() for name in _PREFIX)
    return whole if sound and not settings else folder


def linked(root: Path) -> Iterator[Path]:
    """Of any other link nobody knows who made it."""
    for name in (".venv", "venv", "node_modules"):
        place = root / name
        real = Path(os.path.realpath(place))
        if place.is_symlink() and (real.name == "node_modules" or (real / "pyvenv.cfg").exists()):
            yield real
        yield from _base(real)


def _base(venv: Path) -> Iterator[Path]:
    """The installation of Python that a virtual environment was made of."""
    python = Path(os.path.realpath(venv / "bin" / "python"))
    if (venv / "pyvenv.cfg").exists() and python.parent.name == "bin":
        yield python.parents[1]


# ---------------------------------------------------------------- of agents


def settings(needs: Needs, blank: Path) -> list[Mount]:
    """Its settings. What is not there lies there empty: an agent could leave it for the next one to
    obey. `blank`: the folder of `blanks`.
    """
    found = []
    for path in map(Path, needs.settings):
        there = path.exists()
        found.append(Mount(Access.READ, path, path if there else blank / _blank(path)))
    return found


def _blank(path: Path) -> str:
    return "file.json" if path.suffix == ".json" else "file" if path.suffix else "folder"


def blanks(folder: Path) -> None:
    """An empty file, one of JSON, and a folder."""
    (folder / "folder").mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text("")
    (folder / "file.json").write_text("{}\n")


# ---------------------------------------------------------------- variables


def environment(
    env: Mapping[str, str], outside: Mapping[str, str], names: Collection[str]
) -> dict[str, str]:
    """Of a child's environment what kern itself set, what is known to be harmless, and `names`: one
    that ends in `_` is a beginning. `outside`: kern's own.
    """
    passed = {*_SEEN["variables"], *names}
    beginnings = tuple(name for name in passed if name.endswith("_"))
    return {
        name: value
        for name, value in env.items()
        if outside.get(name) != value or name in passed or name.startswith(beginnings)
    }


def missing(output: str, outside: Collection[str], given: Collection[str]) -> list[str]:
    """The person's variables that an output names and the child did not get."""
    named = dict.fromkeys(_NAME.findall(output))
    return [name for name in named if name in outside and name not in given]
