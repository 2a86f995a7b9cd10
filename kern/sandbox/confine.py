"""Chooses what holds a child on this machine, tries it once, and puts it before each command."""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
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
from kern.sandbox.closed import Bounds
from kern.sandbox.wall import EVERYTHING, Access, Grants, Kind, Mount, Room, Tree

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
    # An option that takes the number of a file descriptor: there the means tells, as JSON, that
    # the command was started, and the pid that all of its processes hang below.
    status: str = ""
    bounds: Bounds | None = None  # for `closed.sentences`, where it fails


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
    caches: Path | None = None  # the folder of overlays over the person's, which are bubblewrap's
    overlays: Overlays = Overlays.OWN
    why: str = ""  # there is none, in words

    def seen(self, room: Room | None) -> Tree:
        """The tree where a child sees it."""
        return (room and room.home) or self.tree

    def places(self, room: Room | None) -> dict[Path, Path]:
        """Where a child sees what lies elsewhere."""
        real, root = Path(os.path.realpath(self.home)), self.seen(room).root
        found = {self.home: real} if real != self.home else {}
        return found | ({self.tree.root: root} if root != self.tree.root else {})

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

    def mounts(
        self, kind: Kind, write: Sequence[Path], agent: str, room: Room | None = None
    ) -> list[Mount]:
        found = [Mount(Access.READ, path, path) for path in self.programs]
        tree, places = self.seen(room), self.places(room)
        found += wall.mounts(kind, tree, self.home, self.own / audience(kind), self.grants)
        if needs := self.needs.get(agent):
            desks = login.mounts(needs, self.home, self.own / audience(kind))
            found += [*desks, *wall.settings(needs, self.own / "blank", desks)]
        if self.caches and kind is not Kind.READER:
            found += wall.caches(self.home, self.caches / audience(kind))
        found += [Mount(Access.WRITE, path, path) for path in write]
        found += [Mount(Access.EMPTY, path) for path in self.hidden]
        found += [Mount(Access.READ, _PROXY, self.socket(agent))] if self.relayed else []
        found = wall.furnished(found, kind, tree, room, self.tree.root) if room else found
        if self.means is Means.SEATBELT:
            return wall.ordered(seatbelt.plain(found))
        found = wall.moved(found, places)
        found += [Mount(Access.LINK, *one) for one in places.items() if one[0] == self.home]
        return wall.ordered(found)

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
        needs = self.needs.get(agent, Needs())
        env = wall.environment(env, os.environ, (*self.grants.env, *needs.variables))
        try:
            if needs.login or needs.excerpts:
                login.lay(needs, self.home, self.own / audience(kind))
            mounts = self.mounts(kind, write, agent, room)
        except OSError as exc:
            raise KernError(
                f"cannot write to {self.own}: {exc.strerror}",
                hint="free some space there; then run kern again: it resumes",
            ) from None
        if self.means is Means.SEATBELT:
            home = self.own / audience(kind)
            before = seatbelt.argv(mounts, self.home, home, closed=self.grants.network is not None)
            bounds = Bounds(mounts, self.tree.root, self.home, env)
            return Confined((*before, *argv), env | {"HOME": str(home)}, bounds=bounds)
        hosts, commits = self.hosts(agent), kind is Kind.COMMITTER
        ports = wall.ports(hosts)
        way = (str(_PROXY), *map(str, ports)) if self.relayed else ()
        argv = (sys.executable, "-I", "-S", _entry(), *way, "--", *argv)
        places = self.places(room)
        env = {k: v if k == ROOT else wall.named(v, places) for k, v in env.items()}
        env |= {"HOME": str(self.home), **dict.fromkeys(TEMPORARY, "/tmp")}
        env |= {} if commits else _UNHOOKED
        env |= {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if room else {}
        folder = wall.seen(self.seen(room).root, places)
        before = bubblewrap.argv(
            self.mounting(mounts) if room else self.program,
            mounts,
            folder,
            network=not self.apart,
            dies=not commits,  # a hook may outlive git, and kern: it has edits to restore
            over=self.overlays,
        )
        bounds = Bounds(mounts, folder, self.home, env, self.apart, hosts is not None, ports)
        argv = (*before, *(wall.named(word, places) for word in argv))
        return Confined(argv, env, status="--json-status-fd", bounds=bounds)

    def mounting(self, mounts: Sequence[Mount]) -> str:
        """The program that bubblewrap is started by."""
        if self.overlays is not Overlays.BEFORE or not any(one.lower for one in mounts):
            return self.program
        assert self.sockets
        text = bubblewrap.mounting(self.program, mounts).encode("utf-8", "surrogateescape")
        script = self.sockets / f"overlays-{hashlib.sha256(text).hexdigest()[:12]}"
        if not script.exists():
            script.write_bytes(text)
            script.chmod(0o700)
        return str(script)

    def renew(self) -> None:
        """The logins of the run's agents, here and there."""
        for needs in self.needs.values() if self.means is not Means.NONE else ():
            for kind in wall.AGENTS:
                with contextlib.suppress(OSError):  # a full disk: the next child tells
                    login.renew(needs, self.home, self.own / audience(kind))


def _entry() -> str:
    """Compiled where it can be: that saves a child 4 ms."""
    cached = importlib.util.cache_from_source(entry.__file__)
    return cached if os.path.exists(cached) else entry.__file__


def audience(kind: Kind) -> str:
    """Who shares a home: what implement leaves in its own, no judge and no gate finds."""
    return {Kind.READER: "readers", Kind.WORKER: "workers"}.get(kind, "gates")


def homes(folder: Path) -> None:
    """Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in sorted({audience(kind) for kind in Kind}):
        wall.keep(folder / name)
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
    if why := nowhere(wanted):
        return replace(wanted, why=why), "set HOME to a folder outside of it"
    if sys.platform == "darwin" and (program := find(seatbelt.PROGRAM)):
        held = replace(wanted, means=Means.SEATBELT, program=program)
        code, complaint = _tried(held)
        why = f"sandbox-exec does not work here: {complaint.strip()[-200:]}"
        return (replace(wanted, why=why) if code else held), "kern doctor"
    program = find(bubblewrap.PROGRAM) or ""
    if not program or sys.platform != "linux":
        return replace(wanted, why="bubblewrap is not installed"), bubblewrap.INSTALL
    places = (Path(program), Path(program).resolve())
    if any(one.is_relative_to(wanted.tree.root) for one in places):
        why = f"bwrap is a file of this repository, which an agent could change: {program}"
        return replace(wanted, why=why), "take its folder off PATH"
    held = replace(wanted, means=Means.BWRAP, program=program, caches=None)
    code, complaint = _tried(held)
    if not code and held.sockets:
        held = replace(held, overlays=_overlays(held))
        warm = replace(held, caches=wanted.caches)
        held = warm if held.overlays is Overlays.OWN and not _tried(warm)[0] else held
    why, remedy = bubblewrap.reason(code, complaint) if code else ("", "")
    return (replace(wanted, why=why) if code else held), remedy


def nowhere(wanted: Sandbox) -> str:
    """Why no other home can lie in the place of the person's."""
    home = Path(os.path.realpath(wanted.home))
    if home == Path("/"):
        return "your home folder is /, which cannot be kept from a child"
    if home.is_relative_to(os.path.realpath(wanted.tree.root)):
        return "your home folder is the repository, or lies in it"
    return ""


def _tried(held: Sandbox) -> tuple[int, str]:
    """Exit code and complaint of a command that does nothing, held as an agent is but for what a
    repository has a say in.
    """
    tree = replace(held.tree, kept=(), documents=())
    bare = replace(held, tree=tree, grants=Grants(), sockets=None)
    confined = bare.confine(Kind.WORKER, ["true"], os.environ)
    return _ended(confined.argv, confined.env)


def _ended(argv: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _TRIAL_S}
    try:
        done = subprocess.run(argv, env=dict(env), check=False, **how)  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        return 124, f"not done after {_TRIAL_S:g} s"
    except OSError as exc:
        return 127, str(exc.strerror)
    return done.returncode, done.stderr.decode("utf-8", "replace")


def _overlays(held: Sandbox) -> Overlays:
    """Those that can lie over folders of the working tree, tried once."""
    version = subprocess.run(
        [held.program, "--version"], capture_output=True, text=True, check=False
    )
    own = bubblewrap.overlays(version.stdout)
    held = replace(held, overlays=Overlays.OWN if own else Overlays.BEFORE)
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=held.tree.git_dir) as place:
        lower = Path(place, "lower")
        lower.mkdir()
        root = Mount(Access.READ, Path("/"), Path("/"))
        mounts = [root, wall.overlay(lower, Path(place, "over"))]
        before = bubblewrap.argv(held.mounting(mounts), mounts, lower, over=held.overlays)
        if _ended([*before, "touch", str(lower / "x")], os.environ)[0] == 0:
            return held.overlays
    return Overlays.NONE


def programs(home: Path, *commands: str) -> tuple[Path, ...]:
    """What runs the commands, wherever it lies, and kern with its interpreter."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(kern.__file__).parent]
    for real in (Path(os.path.realpath(command)) for command in commands):
        packages = [one for one in reversed(real.parents) if one.name == "node_modules"]
        folder = next(iter(packages), wall.installation(real.parent, home, home))
        found.append(real if home.is_relative_to(folder) else folder)
    return tuple(dict.fromkeys(found))
