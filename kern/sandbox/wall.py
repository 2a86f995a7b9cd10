"""What a child of kern may see, write and reach: a list of mounts, variables by name, hosts.

In place of the person's home lies one that is kern's. So no list of secrets can be too short, and
each tool that writes below ~ works.
"""

import contextlib
import functools
import hashlib
import os
import pwd
import re
import shutil
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

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
    LINK = "link"  # to what its source names, laid into a home
    FOLDER = "folder"  # in an empty one


@dataclass(frozen=True, slots=True)
class Mount:
    access: Access
    target: Path  # where the child sees it
    source: Path | None = None  # what lies there; None of an empty one
    # What is seen beneath it and not changed, the highest first: then it is an overlay.
    lower: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """The working tree of a run and the git folder that belongs to it."""

    root: Path
    git_dir: Path
    common_dir: Path
    kept: tuple[Path, ...] = ()  # in it, and not for a task to write
    documents: tuple[Path, ...] = ()  # SPEC.md and LEARNINGS.md, which a hook may format or stash


@dataclass(frozen=True, slots=True)
class Room:
    """A tree that children see in the place of the working tree, and what of that lies in it."""

    tree: Path
    index: Path  # git's, of that tree
    over: Path  # a folder for what is written over the others
    shown: tuple[str, ...] = ()  # of the working tree: folders, changed in the room alone; files
    under: tuple[Path, ...] = ()  # other `over`s, seen beneath this one, the newest first
    git: Path | None = None  # seen in the place of git's folder; without it that is read-only
    shared: tuple[tuple[Path, Path], ...] = ()  # of git's folder: the place, what lies there
    home: Tree | None = None  # where it is seen, if that is not the place of the run's own tree


@dataclass(frozen=True, slots=True)
class Grants:
    """What the person's own settings open."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    env: tuple[str, ...] = ()
    network: tuple[str, ...] | None = None  # hosts; None: any; EVERYTHING: without a wall


EVERYTHING = "*"
ANY = "*.*"  # any host but this machine
_LOCAL = ("localhost", "127.0.0.1", "::1", "[::1]")
AGENTS = (Kind.READER, Kind.WORKER)
_SEEN = tomllib.loads(Path(__file__).with_name("seen.toml").read_text("utf-8"))
_BENEATH = Path("/run/kern/added")  # where the person's folders of `_added` lie
KEPT = Path("/run/kern/kept")  # and what outlives a child of its home
_PREFIX = ("pyvenv.cfg", "lib", "libexec", "lib64", "VERSION", "release")  # X/bin is of such an X
_NAME = re.compile(r"[A-Z][A-Z0-9_]{3,}")


# ---------------------------------------------------------------- what it sees


def mounts(kind: Kind, tree: Tree, home: Path, own: Path, grants: Grants) -> list[Mount]:
    """Of any child. `home`: the person's, by its path alone: an empty one
    lies there instead, in which the caches in `own` are kept.
    """
    names = Path(os.path.realpath("/etc/resolv.conf"))  # leads to what resolves them
    read = [*map(Path, _SEEN["system"]), names, *toolchains(home, tree.root)]
    found = [Mount(Access.READ, path, path) for path in read]
    found += [Mount(Access.EMPTY, Path(path)) for path in _SEEN["empty"]]
    found += [Mount(Access.WRITE, KEPT, own)]
    for one in _homes(home):
        found += _home(one)
    found += _added(home)
    found += _tree(kind, tree)
    for access, paths in (
        (Access.READ, grants.read),
        (Access.WRITE, grants.write),
        (Access.DEVICE, grants.devices),
    ):
        found += [Mount(access, path, path) for path in paths]
    return found


def ordered(found: Iterable[Mount]) -> list[Mount]:
    """What is there, the outer ones first; of two for one place the later. Each costs a child some
    0.3 ms: without those that an outer one shows just so.
    """
    there = {
        one.target: one
        for one in found
        if one.access is Access.LINK or os.path.exists(one.source or one.target)
    }
    kept: dict[Path, Mount] = {}
    real = (one for one in there.values() if one.access is not Access.LINK)
    outer_ones = {path for one in real for path in one.target.parents}
    for one in sorted(there.values(), key=lambda one: len(one.target.parts)):
        outer = next((kept[path] for path in one.target.parents if path in kept), None)
        # A link is made where all is the child's own; what lay beneath it would lie elsewhere.
        own = (Access.EMPTY, Access.FOLDER)
        made = (outer is None or outer.access in own) and one.target not in outer_ones
        if made if one.access is Access.LINK else not (outer and _plain(outer) and _plain(one)):
            kept[one.target] = one
    return [*kept.values()]


def moved(found: Iterable[Mount], places: Mapping[Path, Path]) -> list[Mount]:
    """The same, seen elsewhere: what lies at a path or below is at another."""
    return [replace(one, target=seen(one.target, places)) for one in found] if places else [*found]


def seen(path: Path, places: Mapping[Path, Path]) -> Path:
    for real, place in places.items():
        if path.is_relative_to(real):
            return place / path.relative_to(real)
    return path


def named(text: str, places: Mapping[Path, Path]) -> str:
    """A command's word, or the value of a variable, by the paths that a child sees."""
    for path, place in places.items():
        text = str(place).join(re.split(rf"{re.escape(str(path))}(?![\w.-])", text))
    return text


def _plain(one: Mount) -> bool:
    return one.access is Access.READ and one.source == one.target


def _homes(home: Path) -> Iterator[Path]:
    """Where programs look for it: most heed HOME, Java and ssh what the system says."""
    yield home
    with contextlib.suppress(KeyError):
        known = Path(pwd.getpwuid(os.getuid()).pw_dir)
        if known.parent != known and known.is_dir() and known.stat().st_uid == os.getuid():
            yield known


@functools.cache
def _home(place: Path) -> list[Mount]:
    """An empty one, and its caches."""
    kept = [Mount(Access.LINK, place / name, KEPT / _flat(name)) for name in _SEEN["caches"]]
    return [Mount(Access.EMPTY, place), *kept]


def _added(home: Path) -> Iterator[Mount]:
    """Folders of programs to which a child adds its own: so the person's lies elsewhere, and each
    of its programs has a link. A link stays what it is; a folder (a virtual environment) is in its
    own place, which its files name.
    """
    for folder in (home / name for name in _SEEN["added"]):
        beneath = _BENEATH / folder.relative_to("/")
        yield Mount(Access.READ, beneath, folder)
        yield Mount(Access.FOLDER, folder)
        for one in os.scandir(folder) if folder.is_dir() else ():
            path = folder / one.name
            if one.name.startswith("."):  # a tool's own lock
                continue
            if one.is_symlink():
                yield Mount(Access.LINK, path, Path(os.path.realpath(folder), os.readlink(path)))
            elif one.is_dir():
                yield Mount(Access.READ, path, path)
            else:
                yield Mount(Access.LINK, path, beneath / one.name)


def caches(home: Path, folder: Path) -> list[Mount]:
    """The person's, each beneath one of the children's in that folder."""
    names = [name for name in _SEEN["caches"] if (home / name).is_dir()]
    return [overlay(home / name, folder / _flat(name)) for name in names]


def keep(own: Path) -> None:
    """Makes what is kept of a home: a child may have left anything there. Raises OSError."""
    own.mkdir(mode=0o700, exist_ok=True)
    for name in _SEEN["caches"]:
        clear(own, Path(_flat(name)), folder=True)
        (own / _flat(name)).mkdir(mode=0o700, exist_ok=True)


def _flat(name: str) -> str:
    return name.replace("/", "-")


def clear(outer: Path, way: Path, *, folder: bool) -> None:
    """What a child left there in the place of a mount, and of the folders on its way: bubblewrap
    would follow a link.
    """
    for place in (*(outer / one for one in [*way.parents][-2::-1]), outer / way):
        wanted = folder or place != outer / way
        if place.is_symlink() or (os.path.lexists(place) and place.is_dir() is not wanted):
            _remove(place)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


def furnished(found: Iterable[Mount], kind: Kind, tree: Tree, room: Room, own: Path) -> list[Mount]:
    """The same mounts with the room in the place of the tree. Nothing there is to be kept. `own`:
    where kern's documents lie.
    """
    git = (tree.git_dir, tree.common_dir)
    kept = [*without(found, tree.root, git)]
    access = Access.READ if kind is Kind.READER else Access.WRITE
    if room.git:
        for folder in git:
            kept = [*without(kept, folder, ())]
        kept.append(Mount(Access.WRITE, tree.git_dir, room.git))
        kept += [Mount(Access.READ, place, source) for place, source in room.shared]
    else:
        kept.append(Mount(Access.READ, tree.git_dir / "index", room.index))
    kept.append(Mount(access, tree.root, room.tree))
    agents = tree.documents if kind in AGENTS else ()  # a gate sees the committed ones
    for path in agents:
        source = own / path.relative_to(tree.root)
        if (room.tree / path.relative_to(tree.root)).is_file() and source.is_file():
            kept.append(Mount(Access.READ, path, source))
    if tree.git_dir != tree.root / ".git":
        kept.append(Mount(Access.READ, tree.root / ".git", tree.root / ".git"))
    for name in room.shown:
        path, over = tree.root / name, room.over / part(name)
        under = [one / part(name) / "upper" for one in room.under]
        under = [one for one in under if one.is_dir()]
        whole = path.is_dir()
        kept.append(overlay(path, over, *under) if whole else Mount(Access.READ, path, path))
    return kept


def without(found: Iterable[Mount], place: Path, but: Iterable[Path]) -> Iterator[Mount]:
    """What does not lie at that place, or lies in one of the others."""
    for one in found:
        others = any(one.target.is_relative_to(other) for other in but)
        if others or not one.target.is_relative_to(place):
            yield one


def part(name: str) -> str:
    """Where below a room's `over` lies what is written over that folder."""
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def overlay(lower: Path, place: Path, *under: Path) -> Mount:
    """What is written goes into a folder of that place, which is made. `under`: what is seen
    between the two, the highest first.
    """
    for part in ("upper", "work", "merged"):
        (place / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    return Mount(Access.WRITE, lower, place / "upper", (*under, lower))


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
        for outer in path.parents[: len(path.relative_to(tree.root).parts) - 1]:
            yield Mount(access, outer, outer)  # what is mounted cannot be moved away
        yield Mount(Access.READ, path, path)
    if commits:
        yield Mount(Access.WRITE, tree.git_dir, tree.git_dir)
    for path in _sockets(tree.root):
        yield Mount(Access.READ, path, Path(os.devnull))


def _sockets(root: Path) -> Iterator[Path]:
    """By which a service outside listens in the tree."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines():
            path = Path(line.partition(str(root))[1] + line.partition(str(root))[2])
            if path.is_relative_to(root) and path.is_socket():
                yield path


# What git obeys or kern remembers, of a git folder that hooks may otherwise write.
_KEPT_IN_GIT = (
    *("hooks", "config", "config.worktree", "info", "kern", "worktrees", "modules", "commondir"),
)


def _inside(path: Path, root: Path) -> Path | None:
    """Where it really lies, if that is in the tree: elsewhere there is nothing to keep."""
    real = Path(os.path.realpath(path))
    return real if real.is_relative_to(os.path.realpath(root)) and real.exists() else None


def toolchains(home: Path, root: Path) -> list[Path]:
    """Programs outside of the system's folders: by a table, by PATH, of virtual environments that
    links at the tree's top lead to.
    """
    known = [home / name for name in _SEEN["toolchains"]]
    path = [Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one[:1] == "/"]
    path = [one for one in path if one not in [home / name for name in _SEEN["added"]]]
    whole = [installation(one, home, root) for one in path]
    # What lies in the bin of a folder of settings may lead to its lib: ~/.npm-global
    libraries = [one.parent / "lib" for one in whole if one.name == "bin"]
    return [*known, *whole, *libraries, *linked(root)]


def installation(folder: Path, home: Path, root: Path) -> Path:
    """With X/bin all of X, as a virtual environment needs it, and with X/.bin, to whose programs
    npm links; but where X is no installation, or a folder of settings (~/.fly/bin), only what is
    named.
    """
    whole = folder.parent if folder.name in ("bin", ".bin", "shims", "Scripts") else folder
    if whole == folder or any(one.is_relative_to(whole) for one in (home, root)):
        return folder
    settings = whole.parent == home and whole.name.startswith(".")
    sound = whole.name == "node_modules" or any((whole / name).exists() for name in _PREFIX)
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


def settings(needs: Needs, blank: Path, desks: Iterable[Mount]) -> list[Mount]:
    """Its settings. What is not there lies there empty: an agent could leave it for the next one to
    obey. `blank`: the folder of `blanks`; `desks`: of its login, in which most of them lie.
    """
    found = []
    for path in map(Path, needs.settings):
        source = path if path.exists() else blank / _blank(path)
        found.append(Mount(Access.READ, path, source))
        for one in desks:
            if one.source and one.source != one.target and path.is_relative_to(one.target):
                clear(one.source, path.relative_to(one.target), folder=source.is_dir())
    return found


def _blank(path: Path) -> str:
    return "file.json" if path.suffix == ".json" else "file" if path.suffix else "folder"


def blanks(folder: Path) -> None:
    """An empty file, one of JSON, and a folder."""
    (folder / "folder").mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text("")
    (folder / "file.json").write_text("{}\n")


# ---------------------------------------------------------------- hosts


def ports(hosts: Collection[str] | None) -> tuple[int, ...]:
    """Of this machine's loopback, as `localhost:5432` among the hosts names them."""
    found = [one.rpartition(":") for one in hosts or ()]
    return tuple(sorted({int(p) for name, _, p in found if name in _LOCAL and p.isdecimal()}))


def reaches(host: str, hosts: Collection[str] | None) -> bool:
    """`example.com` is itself alone, `*.example.com` all that ends so."""
    host = host.lower().rstrip(".")
    found = (ANY,) if hosts is None else tuple(map(str.lower, hosts))
    wild = (one[1:] for one in found if one.startswith("*."))
    return ANY in found or host in found or host.endswith(tuple(wild))


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
