"""Chooses what holds a child on this machine, tries it once, and puts it before each command."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import kern
from kern.errors import KernError, UsageError
from kern.model import Needs
from kern.obeyed import TEMPORARY
from kern.person import Mode
from kern.sandbox import bubblewrap, entry, login, seatbelt, wall
from kern.sandbox.bubblewrap import Overlays
from kern.sandbox.wall import EVERYTHING, Access, Grants, Kind, Mount, Room, Tree, Wall

_TRIAL_S = 20.0
ROOT = "KERN_ROOT"  # by it kern finds processes of a tree
# `npm install` installs git's hooks by them, where a child may not.
_UNHOOKED = {"HUSKY": "0", "SKIP_INSTALL_SIMPLE_GIT_HOOKS": "1"}
_PROXY = Path("/run/kern/proxy")  # where a child finds the relay's socket


class Means(StrEnum):
    """What holds a child."""

    BWRAP = "bubblewrap"
    SEATBELT = "sandbox-exec"
    NONE = "nothing"


@dataclass(frozen=True, slots=True)
class Confined:
    """A command with what holds it before it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    # Where among its words bubblewrap takes the number of a file descriptor, to which it tells, as
    # JSON, that the command was started; 0: it is not held so.
    status: int = 0
    wall: Wall | None = None  # for `closed.sentences`, where it fails


class Hold(Protocol):
    """Puts before a command what holds it. `write`: what it is handed beside the rest. `agent`:
    whose command it is, by its name; empty where it is none's.
    """

    def __call__(
        self,
        kind: Kind,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        write: Sequence[Path] = (),
        agent: str = "",
        room: Room | None = None,
    ) -> Confined: ...


def unheld(kind: Kind, argv: Sequence[str], env: Mapping[str, str], **more: object) -> Confined:
    """Nothing holds it."""
    assert more.get("room") is None, "there is none without a sandbox"
    return Confined(tuple(argv), env)


@dataclass(frozen=True, slots=True)
class Sandbox:
    tree: Tree
    home: Path  # the person's
    own: Path  # the folder of the homes that lie there instead: `homes`
    grants: Grants = field(default_factory=Grants)
    needs: Mapping[str, Needs] = field(default_factory=dict)  # of each agent, by its name
    programs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    means: Means = Means.NONE
    program: str = ""
    sockets: Path | None = None  # the folder of the relays', one for each agent, one for the rest
    overlays: Overlays = Overlays.OWN
    alone: bool = False  # no other run has its homes: of two overlays none may have one folder
    why: str = ""  # there is none, in words

    def hosts(self, agent: str) -> tuple[str, ...] | None:
        """What it may reach: None for any host but this machine."""
        asked, own = self.grants.network, self.needs.get(agent, Needs()).hosts
        local = tuple(one for one in own if wall.ports([one]))
        if asked is None or (asked and all(wall.ports([one]) for one in asked)):
            return (*(asked or ()), *local, wall.ANY) if asked or local else None
        return (*asked, *own)

    def socket(self, agent: str) -> Path:
        """Of the relay for that agent, or for what is none's. A name may be no file's."""
        assert self.sockets is not None
        known = sorted(self.needs)
        return self.sockets / (f"agent{known.index(agent)}" if agent in known else "commands")

    @property
    def apart(self) -> bool:
        """Whether a child has a network of its own."""
        return EVERYTHING not in (self.grants.network or ())

    @property
    def relayed(self) -> bool:
        """Whether kern is the way out of it."""
        return self.apart and self.sockets is not None

    def confine(
        self,
        kind: Kind,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        write: Sequence[Path] = (),
        agent: str = "",
        room: Room | None = None,
    ) -> Confined:
        if self.means is Means.NONE:
            return unheld(kind, argv, env)
        tree, commits = (room and room.home) or self.tree, kind is Kind.COMMITTER
        places = self._places(tree)
        try:
            mounts = [*self._mounts(kind, tree, write, agent, room)]
        except OSError as exc:
            raise KernError(
                f"cannot write to {self.own}: {exc.strerror}",
                hint="free some space there; then run kern again: it resumes",
            ) from None
        mounts = [replace(one, target=wall.seen(one.target, places)) for one in mounts]
        if self.home in places:
            mounts.append(Mount(Access.LINK, self.home, places[self.home]))
        mounts = wall.mountable(mounts)
        root, hosts = wall.seen(tree.root, places), self.hosts(agent)
        env = self._environment(env, agent, places)
        env |= {} if commits else _UNHOOKED
        env |= {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if room else {}
        seen = Wall(mounts, root, self.home, env, self.apart, hosts)
        if self.means is Means.SEATBELT:
            own = self.own / kind.home
            env["HOME"] = str(own)
            return Confined((*seatbelt.argv(seen, own), *argv), env, wall=seen)
        # A hook may outlive git, and kern: it has edits to restore.
        before = bubblewrap.argv(self.program, seen, dies=not commits, over=self.overlays)
        way = (str(_PROXY), *map(str, wall.ports(hosts))) if self.relayed else ()
        begins = (sys.executable, "-I", "-S", _entry(), *way, "--")
        words = (wall.named(word, places) for word in (*begins, *argv))
        return Confined((*before, *words), env, before.index(self.program) + 1, seen)

    def _places(self, tree: Tree) -> dict[Path, Path]:
        """Where a child sees what lies elsewhere."""
        real, root = Path(os.path.realpath(self.home)), self.tree.root
        found = {self.home: real} if real != self.home and self.means is Means.BWRAP else {}
        return found | ({root: tree.root} if root != tree.root else {})

    def _mounts(
        self, kind: Kind, tree: Tree, write: Sequence[Path], agent: str, room: Room | None
    ) -> Iterator[Mount]:
        own = self.own / kind.home
        warm = self.alone and self.overlays is Overlays.OWN and kind is not Kind.READER
        yield from wall.machine(self.home, tree.root, own, self.programs, warm=warm)
        if needs := self.needs.get(agent):
            login.lay(needs, self.home, own)
            desks = login.mounts(needs, self.home, own)
            yield from (*desks, *wall.settings(needs, self.own / "blank", desks))
        yield from (Mount(Access.EMPTY, path) for path in self.hidden)
        yield from self.grants.mounts()
        yield from wall.tree(kind, tree, room, self.tree.root)
        yield from (Mount(Access.WRITE, path, path) for path in write)
        if self.relayed:
            yield Mount(Access.READ, _PROXY, self.socket(agent))

    def _environment(
        self, env: Mapping[str, str], agent: str, places: Mapping[Path, Path]
    ) -> dict[str, str]:
        passed = *self.grants.env, *self.needs.get(agent, Needs()).variables
        env = wall.environment(env, os.environ, passed)
        if self.means is Means.SEATBELT:
            return env
        env = {k: v if k == ROOT else wall.named(v, places) for k, v in env.items()}
        env |= {"HOME": str(self.home), **dict.fromkeys(TEMPORARY, "/tmp")}
        return env | (wall.to_proxy(env) if self.relayed else {})

    def renew(self) -> None:
        """The logins of the run's agents, here and there."""
        for needs in self.needs.values() if self.means is not Means.NONE else ():
            for kind in (Kind.READER, Kind.WORKER):
                with contextlib.suppress(OSError):  # a full disk: the next child tells
                    login.renew(needs, self.home, self.own / kind.home)


def _entry() -> str:
    """Compiled where it can be: that saves a child 4 ms."""
    cached = importlib.util.cache_from_source(entry.__file__)
    return cached if os.path.exists(cached) else entry.__file__


def homes(folder: Path) -> None:
    """Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for kind in Kind:
        wall.keep(folder / kind.home)
    wall.blanks(folder / "blank")


# ---------------------------------------------------------------- the choice


def chosen(
    mode: Mode, wanted: Sandbox, find: Callable[[str], str | None] = shutil.which
) -> Sandbox:
    """The sandbox that the mode calls for, tried once. Raises UsageError where a mode that was
    named cannot be.
    """
    if mode is Mode.OFF:
        return wanted
    found, remedy = _best(wanted, find)
    if mode is Mode.BWRAP and found.means is not Means.BWRAP:
        raise UsageError(f'sandbox = "bwrap" cannot be: {found.why}', hint=remedy)
    return replace(found, why=found.why and f"{found.why}: {remedy}")


def _best(wanted: Sandbox, find: Callable[[str], str | None]) -> tuple[Sandbox, str]:
    """And what helps where there is none."""
    home, root = Path(os.path.realpath(wanted.home)), os.path.realpath(wanted.tree.root)
    apple = sys.platform == "darwin"
    program = find(seatbelt.PROGRAM if apple else bubblewrap.PROGRAM) or ""
    places = (Path(program), Path(program).resolve())
    why = remedy = ""
    if home == Path("/"):
        why, remedy = "your home folder is /, which cannot be kept from a child", "set another HOME"
    elif home.is_relative_to(root):
        why = "your home folder is the repository, or lies in it"
        remedy = "set HOME to a folder outside of it"
    elif not program:
        why, remedy = "bubblewrap is not installed", bubblewrap.INSTALL
    elif any(one.is_relative_to(wanted.tree.root) for one in places):
        why = f"bwrap is a file of this repository, which an agent could change: {program}"
        remedy = "take its folder off PATH"
    if why:
        return replace(wanted, why=why), remedy
    held = replace(wanted, means=Means.SEATBELT if apple else Means.BWRAP, program=program)
    # Held as an agent is, but for what a repository has a say in.
    tree = replace(held.tree, kept=(), documents=())
    bare = replace(held, tree=tree, grants=Grants(), sockets=None, alone=False)
    trial = bare.confine(Kind.WORKER, ["true"], os.environ)
    code, complaint = _ended(trial.argv, trial.env)
    if code:
        why, remedy = bubblewrap.reason(code, complaint)
        return replace(wanted, why=why), remedy
    return (held if apple or not held.sockets else _with_overlays(held)), ""


def _ended(argv: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and complaint."""
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _TRIAL_S}
    try:
        done = subprocess.run(argv, env=dict(env), check=False, **how)  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        return 124, f"not done after {_TRIAL_S:g} s"
    except OSError as exc:
        return 127, str(exc.strerror)
    return done.returncode, done.stderr.decode("utf-8", "replace")


def _with_overlays(held: Sandbox) -> Sandbox:
    """Those that can lie over folders of the working tree, each tried once."""
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=held.tree.git_dir) as place:
        lower = Path(place, "lower")
        lower.mkdir()
        root = Mount(Access.READ, Path("/"), Path("/"))
        seen = Wall([root, wall.overlay(lower, Path(place, "over"))], lower, held.home)
        for over in (Overlays.OWN, Overlays.BEFORE):
            before = bubblewrap.argv(held.program, seen, over=over)
            if _ended([*before, "touch", str(lower / "x")], os.environ)[0] == 0:
                return replace(held, overlays=over)
    return replace(held, overlays=Overlays.NONE)


def programs(home: Path, *commands: str) -> tuple[Path, ...]:
    """What runs the commands, wherever it lies, and kern with its interpreter."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(kern.__file__).parent]
    for real in (Path(os.path.realpath(command)) for command in commands):
        packages = [one for one in reversed(real.parents) if one.name == "node_modules"]
        folder = next(iter(packages), wall.installation(real.parent, home, home))
        found.append(real if home.is_relative_to(folder) else folder)
    return tuple(dict.fromkeys(found))
