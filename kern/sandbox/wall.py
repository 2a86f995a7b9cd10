"""What a child of kern may see, write and reach: mounts in their order, variables by name, hosts.

In place of the person's home lies one that is kern's. So no list of secrets can be too short, and
each tool that writes below ~ works.
"""

import contextlib
import hashlib
import os
import pwd
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Kind(StrEnum):
    READER = "reader"  # research, the judge, the planner
    WORKER = "worker"  # implement
    CHECK = "check"  # gates: what the worker wrote runs there
    HIDDEN = "hidden"  # a hidden gate: what it leaves in its home no other gate can print
    COMMITTER = "committer"  # git with the person's hooks

    @property
    def home(self) -> str:
        """Who shares one: what implement leaves in its own, no judge and no gate finds."""
        return "gates" if self in (Kind.CHECK, Kind.COMMITTER) else f"{self}s"


class Access(StrEnum):
    """As bubblewrap has it."""

    READ = "--ro-bind"
    WRITE = "--bind"
    DEVICE = "--dev-bind"
    EMPTY = "--tmpfs"  # a folder in memory, gone when the child ends
    LINK = "--symlink"  # to what its source names


class Mount(NamedTuple):
    access: Access
    target: Path  # where the child sees it
    source: Path | None = None  # what lies there, if it is not what lies there anyway
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
    laid: Path | None = None  # a folder of the person's, whose files lie over its own


EVERYTHING = "*"  # the machine's network as it is
ANY = "*.*"  # any host but this machine
KEPT = Path("/run/kern/kept")  # what outlives a child of its home
_BENEATH = Path("/run/kern/added")  # where the person's folders of `_added` lie
_LOCAL = ("localhost", "127.0.0.1", "::1", "[::1]")
_SEEN = tomllib.loads(Path(__file__).with_name("seen.toml").read_text("utf-8"))
CACHES = {name: name.replace("/", "-") for name in _SEEN["caches"]}  # with the name in what is kept
_PREFIX = ("pyvenv.cfg", "lib", "libexec", "lib64", "VERSION", "release")  # X/bin is of such an X
# What git obeys or kern remembers, of a git folder that hooks may otherwise write.
_KEPT_IN_GIT = (
    *("hooks", "config", "config.worktree", "info", "kern", "worktrees", "modules", "commondir"),
)


# ---------------------------------------------------------------- what it sees


def machine(home: Path, root: Path, own: Path, programs: Iterable[Path]) -> Iterator[Mount]:
    """The system, and in place of the person's home an empty one with programs, in which the caches
    in `own` are kept.
    """
    # The last leads to what resolves names.
    system = [*map(Path, _SEEN["system"]), Path(os.path.realpath("/etc/resolv.conf"))]
    yield from (Mount(Access.READ, path) for path in system)
    yield from (Mount(Access.EMPTY, Path(path)) for path in _SEEN["empty"])
    yield Mount(Access.WRITE, KEPT, own)
    for place in _homes(home):
        yield Mount(Access.EMPTY, place)
        yield from (Mount(Access.LINK, place / name, KEPT / own) for name, own in CACHES.items())
    yield from _added(home)
    there, real = {*system} - {Path("/var")}, Path(os.path.realpath(home))
    for path in filter(os.path.exists, dict.fromkeys((*programs, *toolchains(home, root)))):
        is_system = not there.isdisjoint((path, *path.parents))  # a link there bears no mount
        if not is_system and not real.is_relative_to(os.path.realpath(path)):
            yield Mount(Access.READ, path)


def mountable(candidates: Iterable[Mount], places: Mapping[Path, Path]) -> list[Mount]:
    """What is there, where a child sees it. No link lies where something else is mounted, or on the
    way to it.
    """
    there = [
        Mount(access, seen(target, places), source or target, lower)
        for access, target, source, lower in candidates
        if access is Access.LINK or os.path.exists(source or target)
    ]
    real = {one.target for one in there if one.access is not Access.LINK}
    covered = real.union(*(target.parents for target in real))
    return [one for one in there if one.access is not Access.LINK or one.target not in covered]


def seen(path: Path, places: Mapping[Path, Path]) -> Path:
    """Where a child sees what lies there, or below one of the places."""
    for real, place in places.items():
        if path.is_relative_to(real):
            return place / path.relative_to(real)
    return path


def named(text: str, places: Mapping[Path, Path]) -> str:
    """A command's word, or the value of a variable, by the paths that a child sees."""
    for path, place in places.items():
        text = str(place).join(re.split(rf"{re.escape(str(path))}(?![\w.-])", text))
    return text


def _homes(home: Path) -> list[Path]:
    """Where programs look for it: most ask HOME, Java and ssh what the system says."""
    homes = {home}
    with contextlib.suppress(KeyError, OSError):
        known = Path(pwd.getpwuid(os.getuid()).pw_dir)
        if known.parent != known and known.stat().st_uid == os.getuid():
            homes.add(known)
    return sorted(homes)


def _added(home: Path) -> Iterator[Mount]:
    """Folders of programs to which a child adds its own: so the person's lies elsewhere, and all
    that is in it has a link.
    """
    for folder in (home / name for name in _SEEN["added"]):
        beneath = _BENEATH / folder.relative_to("/")
        yield Mount(Access.READ, beneath, folder)
        for one in folder.glob("[!.]*"):  # but for a tool's own lock
            source = Path(os.path.realpath(folder), os.readlink(one)) if one.is_symlink() else None
            yield Mount(Access.LINK, one, source or beneath / one.name)


def toolchains(home: Path, root: Path) -> list[Path]:
    """Programs outside of the system's folders: by a table, by variables and PATH, of virtual
    environments that links at the tree's top lead to.
    """
    named = (Path(os.environ.get(name, "")) for name in _SEEN["installed"])
    added = [home / name for name in _SEEN["added"]]
    path = map(Path, os.environ.get("PATH", "").split(os.pathsep))
    whole = [installation(one, home, root) for one in path if one not in added]
    # What lies in the bin of a folder of settings may lead to its lib: ~/.npm-global
    libraries = [one.parent / "lib" for one in whole if one.name == "bin"]
    known = [home / name for name in _SEEN["toolchains"]]
    known += [one for one in (*named, *whole, *libraries) if one.is_absolute()]
    return [*known, *_linked(home, root)]


def installation(folder: Path, home: Path, root: Path) -> Path:
    """With X/bin all of X, as a virtual environment needs it, and all of the node_modules that it
    lies in, to whose programs npm links; but where X is no installation, or a folder of settings
    (~/.fly/bin), only what is named.
    """
    packages = [one for one in (folder, *folder.parents) if one.name == "node_modules"][-1:]
    whole = folder.parent if folder.name in ("bin", "shims", "Scripts") else folder
    (whole,) = packages or [whole]
    apart = not any(one.is_relative_to(whole) for one in (home, root))
    settings = whole.parent == home and whole.name.startswith(".")
    sound = packages or any(os.path.exists(whole / name) for name in _PREFIX)
    return whole if apart and sound and not settings else folder


def _linked(home: Path, root: Path) -> Iterator[Path]:
    """Of any other link nobody knows who made it. With a virtual environment the Python that it was
    made of, where one is there: a repository may name any place.
    """
    for name in (".venv", "venv", "node_modules"):
        real = Path(os.path.realpath(root / name))
        python = Path(os.path.realpath(real / "bin/python"))
        if real.name == "node_modules" or (real / "pyvenv.cfg").exists():
            if (root / name).is_symlink():
                yield real
            if python.parent.name == "bin" and python.is_file():
                yield installation(python.parent, home, root)


# ---------------------------------------------------------------- the tree


def tree(kind: Kind, tree: Tree, room: Room | None, own: Path) -> Iterator[Mount]:
    """The working tree with git's folder, or a room in its place, where nothing is to be kept.
    `own`: where kern's documents lie.
    """
    commits, access = kind is Kind.COMMITTER, Access.READ if kind is Kind.READER else Access.WRITE
    yield Mount(access, tree.root, room.tree if room else None)
    if room and room.laid:
        yield overlay(room.tree, room.over / "laid", room.laid)._replace(target=tree.root)
    if tree.git_dir != tree.root / ".git":
        yield Mount(Access.READ, tree.root / ".git")
    if room and room.git:
        yield Mount(Access.WRITE, tree.git_dir, room.git)
        yield from (Mount(Access.READ, place, source) for place, source in room.shared)
    else:
        for folder in dict.fromkeys((tree.common_dir, tree.git_dir)):
            yield Mount(Access.WRITE if commits else Access.READ, folder)
            yield from (Mount(Access.READ, folder / name) for name in _KEPT_IN_GIT if commits)
            if not commits and (folder / "lfs").is_dir():  # its filters write there, as in git diff
                yield Mount(Access.EMPTY, folder / "lfs")
    if room:
        yield from _room(kind, tree, room, own)
        return
    for path in (*tree.kept, *(() if commits else tree.documents)):
        real = Path(os.path.realpath(path))  # elsewhere there is nothing to keep
        if real.is_relative_to(os.path.realpath(tree.root)):
            yield Mount(Access.READ, real)


def _room(kind: Kind, tree: Tree, room: Room, own: Path) -> Iterator[Mount]:
    if not room.git:
        yield Mount(Access.READ, tree.git_dir / "index", room.index)
    for path in tree.documents if kind in (Kind.READER, Kind.WORKER) else ():
        name = path.relative_to(tree.root)  # a gate sees the committed one
        if (room.tree / name).is_file():
            yield Mount(Access.READ, path, own / name)
    for shown in room.shown:
        path, under = tree.root / shown, (one / part(shown) / "upper" for one in room.under)
        if path.is_dir():
            yield overlay(path, room.over / part(shown), *filter(Path.is_dir, under))
        else:
            yield Mount(Access.READ, path)


def part(name: str) -> str:
    """Where below a room's `over` lies what is written over that folder."""
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def overlay(lower: Path, place: Path, *under: Path) -> Mount:
    """What is written goes into a folder of that place, which is made. `under`: what is seen
    between the two, the highest first.
    """
    for name in ("upper", "work", "merged"):
        (place / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    return Mount(Access.WRITE, lower, place / "upper", (*under, lower))


# ---------------------------------------------------------------- hosts and variables


def ports(hosts: Collection[str]) -> tuple[int, ...]:
    """Of this machine's loopback, as `localhost:5432` among the hosts names them."""
    pairs = [one.rpartition(":") for one in hosts]
    return tuple(sorted({int(p) for name, _, p in pairs if name in _LOCAL and p.isdecimal()}))


def reaches(host: str, hosts: Collection[str]) -> bool:
    """`example.com` is itself alone, `*.example.com` all that ends so."""
    host, names = host.lower().rstrip("."), tuple(map(str.lower, hosts))
    wild = tuple(one[1:] for one in names if one.startswith("*."))
    return ANY in names or host in names or host.endswith(wild)


def environment(
    env: Mapping[str, str], outside: Mapping[str, str], names: Collection[str]
) -> dict[str, str]:
    """Of a child's environment what kern itself set, what is known to be harmless, and `names`: one
    that ends in `_` is a beginning. `outside`: kern's own.
    """
    passed = {*_SEEN["variables"], *names}
    starts = tuple(name for name in passed if name.endswith("_"))
    own = {name for name, value in env.items() if outside.get(name) != value} | passed
    return {k: value for k, value in env.items() if k in own or k.startswith(starts)}


def to_proxy(env: Mapping[str, str]) -> dict[str, str]:
    """What tells programs of kern's, each in its own way."""
    table = {**_SEEN["proxy"], **{name.lower(): url for name, url in _SEEN["proxy"].items()}}
    java = {name: f"{env.get(name, '')} {_SEEN['java']}".strip() for name in _SEEN["jvms"]}
    return table | java
