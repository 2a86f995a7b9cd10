"""Chooses what holds a child on this machine, tries it once, and puts it before each command."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import kern
from kern.errors import KernError, UsageError
from kern.model import Needs
from kern.obeyed import TEMPORARY
from kern.person import Holding, Mode
from kern.sandbox import entry, login, means, wall
from kern.sandbox.means import Means, Overlays
from kern.sandbox.wall import Access, Kind, Mount, Room, Tree
from kern.system import process, workspace

_TRIAL_S = 20.0
ROOT = "KERN_ROOT"  # by it kern finds processes of a tree
# `npm install` installs git's hooks by them, where a child may not.
_UNHOOKED = {"HUSKY": "0", "SKIP_INSTALL_SIMPLE_GIT_HOOKS": "1"}
_OPENED = ((Access.READ, "read"), (Access.WRITE, "write"), (Access.DEVICE, "devices"))
_PROXY = Path("/run/kern/proxy")  # where a child finds the relay's socket


@dataclass(frozen=True, slots=True)
class Confined:
    """A command with what holds it before it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    # For `closed.sentences`, where it fails; empty where nothing holds it.
    before: tuple[str, ...] = ()
    root: Path = Path()
    # Where among its words bubblewrap takes the number of a file descriptor, to which it tells, as
    # JSON, that the command was started; 0: it is not held so.
    status: int = 0


# Puts before a command what holds it: see `Sandbox.confine`.
Hold = Callable[..., Confined]


def unheld(kind: Kind, argv: Sequence[str], env: Mapping[str, str], **more: object) -> Confined:
    """Nothing holds it."""
    assert more.get("room") is None, "there is none without a sandbox"
    return Confined(tuple(argv), env)


@dataclass(frozen=True, slots=True)
class Sandbox:
    tree: Tree
    home: Path  # the person's
    own: Path  # the folder of the homes that lie there instead: `homes`
    grants: Holding = field(default_factory=Holding)
    needs: Mapping[str, Needs] = field(default_factory=dict)  # of each agent, by its name
    programs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    means: Means = Means.NONE
    program: str = ""
    relay: Path | None = None  # the socket of the way out; None: there is none
    overlays: Overlays = Overlays.OWN
    why: str = ""  # there is none, in words

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the person lets children reach, and what the agents of the run cannot do without."""
        asked = self.grants.network
        if asked is None or (asked and all(wall.ports([one]) for one in asked)):
            asked = (*(asked or ()), wall.ANY)  # a port narrows nothing
        return (*asked, *(one for needs in self.needs.values() for one in needs.hosts))

    @property
    def apart(self) -> bool:
        """Whether a child has a network of its own."""
        return wall.EVERYTHING not in (self.grants.network or ())

    @property
    def hold(self) -> Hold:
        return unheld if self.means is Means.NONE else self.confine

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
        """`write`: what it is handed beside the rest. `agent`: whose command it is, by its name;
        empty where it is none's.
        """
        tree, commits = (room and room.home) or self.tree, kind is Kind.COMMITTER
        with workspace.reported(self.own):
            mounts = [*self._mounts(kind, tree, room, agent)]
        mounts += [Mount(Access.WRITE, path) for path in write]
        passed = *self.grants.env, *self.needs.get(agent, Needs()).variables
        env = wall.environment(env, os.environ, passed) | ({} if commits else _UNHOOKED)
        if self.means is Means.SEATBELT:
            own = self.own / kind.home
            mounts = wall.mountable(mounts, {})
            before = means.seatbelt(mounts, self.home, own, online=wall.ANY in self.hosts)
            return Confined((*before, *argv), env | {"HOME": str(own)}, before, tree.root)
        # Where a child sees what lies elsewhere.
        places = {self.home: Path(os.path.realpath(self.home)), self.tree.root: tree.root}
        places = {real: place for real, place in places.items() if real != place}
        env = {k: v if k == ROOT else wall.named(v, places) for k, v in env.items()}
        env |= {"HOME": str(self.home), "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
        env |= dict.fromkeys(TEMPORARY, "/tmp")
        way = list[str]()
        if self.apart and self.relay:
            way = [str(_PROXY), *map(str, wall.ports(self.hosts))]
            mounts.append(Mount(Access.READ, _PROXY, self.relay))
            env |= wall.to_proxy(env)
        # A hook may outlive git, and kern: it has edits to restore.
        how = {"apart": self.apart, "dies": not commits}
        mounts, root = wall.mountable(mounts, places), wall.seen(tree.root, places)
        if self.home in places:
            mounts.append(Mount(Access.LINK, self.home, places[self.home]))
        before = means.bubblewrap(self.program, mounts, root, self.overlays, **how)
        status = before.index(self.program) + 1
        before = (*before, sys.executable, "-I", "-S", entry.__file__, *way, "--")
        words = (wall.named(word, places) for word in argv)
        return Confined((*before, *words), env, before, root, status)

    def _mounts(self, kind: Kind, tree: Tree, room: Room | None, agent: str) -> Iterator[Mount]:
        own = self.own / kind.home
        yield from wall.machine(self.home, tree.root, own, self.programs)
        if needs := self.needs.get(agent):
            yield from login.lay(needs, self.home, own)
        yield from (Mount(Access.EMPTY, path) for path in self.hidden)
        for access, key in _OPENED:
            for name in map(os.path.expanduser, getattr(self.grants, key)):
                is_device = access is Access.WRITE and name.startswith("/dev/")
                yield Mount(Access.DEVICE if is_device else access, Path(name))
        yield from wall.tree(kind, tree, room, self.tree.root)

    def renew(self) -> None:
        """The logins of the run's agents, here and there."""
        for needs in self.needs.values() if self.means is not Means.NONE else ():
            for kind in (Kind.READER, Kind.WORKER):
                with contextlib.suppress(OSError, KernError):  # a full disk: the next child tells
                    login.renew(needs, self.home, self.own / kind.home)


def homes(folder: Path) -> None:
    """A child may have left anything in their caches. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # logins lie in it
    for own in (folder / kind.home for kind in Kind):
        own.mkdir(mode=0o700, exist_ok=True)
        for name in wall.CACHES.values():
            login.clear(own / name, folder=True)
            (own / name).mkdir(mode=0o700, exist_ok=True)
    login.blanks(folder / "blank")


def programs(home: Path, *commands: str) -> tuple[Path, ...]:
    """What runs the commands, wherever it lies, and kern with its interpreter."""
    places = [Path(sys.prefix), Path(sys.base_prefix), Path(kern.__file__).parent]
    for real in (Path(os.path.realpath(command)) for command in commands):
        places += [wall.installation(real.parent, home, home), real]
    return tuple(dict.fromkeys(places))


# ---------------------------------------------------------------- the choice


def chosen(mode: Mode, plan: Sandbox, find: Callable[[str], str | None] = shutil.which) -> Sandbox:
    """The sandbox that the mode calls for, tried once. Raises UsageError where a mode that was
    named cannot be.
    """
    if mode is Mode.OFF:
        return plan
    mac = sys.platform == "darwin"
    program = find(means.SEATBELT if mac else means.BWRAP) or ""
    try:
        _check(plan, program)
        return _tried(replace(plan, means=Means.SEATBELT if mac else Means.BWRAP, program=program))
    except UsageError as exc:
        if mode is Mode.BWRAP:
            raise UsageError(f"KERN_SANDBOX=bwrap cannot be: {exc}", hint=exc.hint) from None
        return replace(plan, why=f"{exc}: {exc.hint}")


def _check(plan: Sandbox, program: str) -> None:
    """Raises UsageError where there can be none."""
    home, root = Path(os.path.realpath(plan.home)), Path(os.path.realpath(plan.tree.root))
    ways = Path(program).parent.resolve(), Path(program).resolve()
    planted = any(one.is_relative_to(root) for one in ways)
    own, elsewhere = "your home folder is", "set HOME to another folder"
    for is_so, why, hint in (
        (home == Path("/"), f"{own} /, which cannot be kept from a child", elsewhere),
        (home.is_relative_to(root), f"{own} the repository, or lies in it", elsewhere),
        (not program, "bubblewrap is not installed", means.INSTALL),
        (planted, f"{program} is a file of this repository", "take its folder off PATH"),
    ):
        if is_so:
            raise UsageError(why, hint=hint)


def _tried(sandbox: Sandbox) -> Sandbox:
    """Held as an agent is, but for what a repository has a say in; with the overlays that can lie
    over folders of the disk on which the repository is. Raises UsageError.
    """
    near = sandbox.tree.git_dir if os.access(sandbox.tree.git_dir, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=near) as place:
        root, lower = Path(place), Path(place, "lower")
        lower.mkdir()
        room = Room(root, root / "index", root / "over", (lower.name,))
        bare = replace(sandbox, tree=Tree(root, root, root), grants=Holding(), relay=None)
        for over in Overlays:
            argv = ["true"] if over is Overlays.NONE else ["touch", f"{lower}/x"]
            trial = replace(bare, overlays=over).confine(Kind.WORKER, argv, os.environ, room=room)
            code, _, complaint = process.capture(trial.argv, _TRIAL_S, env=trial.env)
            if not code:
                return replace(sandbox, overlays=over)
    raise means.failure(code, complaint)
