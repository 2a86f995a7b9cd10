"""Chooses the means that this machine has, tries it once, and puts it before each command."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from kern.errors import UsageError
from kern.frozen import frozen
from kern.model import Needs
from kern.obeyed import TEMPORARY
from kern.person import Mode
from kern.sandbox import landlock, means, relay
from kern.sandbox.bounds import AGENTS, Bounds, Kind, Repository, Wishes, bounds, caches, trimmed

_TRIAL_S = 20.0


class Means(StrEnum):
    """What holds a child."""

    BWRAP = "bubblewrap"
    SEATBELT = "sandbox-exec"
    DOCKER = "docker"
    LANDLOCK = "Landlock"
    NONE = "nothing"


@frozen
class Confined:
    """A command with what holds it before it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    # An option that takes the number of a file descriptor: there the means tells, as JSON, that
    # the command was started, and the pid that all of its processes hang below.
    status: str = ""
    ending: tuple[str, ...] = ()  # ends what outlives its client


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
    ) -> Confined: ...


def unheld(
    kind: Kind,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    write: Sequence[Path] = (),
    agent: str = "",
) -> Confined:
    """Nothing holds it."""
    return Confined(tuple(argv), env)


@frozen
class Sandbox:
    repository: Repository
    home: Path
    wishes: Wishes = field(default_factory=Wishes)
    needs: Mapping[str, Needs] = field(default_factory=dict)  # of each agent, by its name
    hidden: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    image: str = ""
    means: Means = Means.NONE
    program: str = ""
    sockets: Path | None = None  # the folder of the relays', one for each agent, one for the rest
    temp: Path | None = None  # for temporary files, where /tmp cannot be a private one
    caches: Path | None = None  # a folder for agents, and one for the rest
    why: str = ""  # it is no better than that, in words

    def bounds(self, kind: Kind, agent: str = "") -> Bounds:
        found = bounds(
            kind,
            self.repository,
            self.home,
            self.wishes,
            needs=self.needs.get(agent, Needs()),
            hidden=self.hidden,
            programs=self.programs,
        )
        return found.and_write(self.caches / audience(kind)) if self.caches else found

    def socket(self, agent: str) -> Path:
        """Of the relay for that agent, or for what is none's. A name may be no file's."""
        assert self.sockets is not None
        known = sorted(self.needs)
        return self.sockets / (f"agent{known.index(agent)}" if agent in known else "commands")

    def confine(
        self,
        kind: Kind,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        write: Sequence[Path] = (),
        agent: str = "",
    ) -> Confined:
        if self.means is Means.NONE:
            return unheld(kind, argv, env)
        temp = self.temp
        if self.means is Means.BWRAP:
            temp = Path("/tmp")  # the child's own
        elif temp:
            write = (*write, temp)
        held = self.bounds(kind, agent).and_write(*write).resolved()
        env = trimmed(env, held.keep)
        env |= dict.fromkeys(TEMPORARY, str(temp)) if temp else {}
        if self.caches:
            env |= caches(self.caches / audience(kind), env, self.home, held)
        folder = self.repository.root
        if held.hosts is not None and self.means is Means.BWRAP:
            assert self.sockets is not None
            held = held.and_read(self.sockets)
            place = str(self.socket(agent))
            argv = (sys.executable, "-I", "-S", relay.__file__, place, "--", *argv)
        match self.means:
            case Means.BWRAP:
                # A hook may outlive git, and kern: it has a person's edits to restore.
                dies = kind is not Kind.COMMITTER
                before = means.bubblewrap(self.program, held, folder, _is_folder, dies=dies)
                return Confined((*before, *argv), env, status="--json-status-fd")
            case Means.DOCKER:
                name = f"kern-{secrets.token_hex(6)}"
                user = f"{os.getuid()}:{os.getgid()}"
                git = {self.repository.common_dir, self.repository.git_dir}
                before = means.docker(self.image, name, user, held, env, folder, _is_folder, git)
                return Confined((*before, *argv), env, ending=(means.DOCKER, "kill", name))
            case Means.SEATBELT:
                return Confined((*means.seatbelt(held), *argv), env)
            case Means.LANDLOCK:
                open_to = [str(path) for path in held.writable()]
                before = [sys.executable, "-I", "-S", landlock.__file__, *open_to, "--"]
                return Confined((*before, *argv), env)


def audience(kind: Kind) -> str:
    """Who shares a cache: what an agent leaves in its own, no gate builds on."""
    return "agents" if kind in AGENTS else "commands"


def chosen(
    mode: Mode, wanted: Sandbox, find: Callable[[str], str | None] = shutil.which
) -> Sandbox:
    """The sandbox that the mode calls for, tried once. Raises UsageError where a mode that was
    named cannot be.
    """
    match mode:
        case Mode.OFF:
            return wanted
        case Mode.BWRAP:
            best, remedy = _bubblewrap(wanted, find)
            if best.means is Means.NONE:
                raise UsageError(f'sandbox = "bwrap" cannot be: {best.why}', hint=remedy)
            return best
    return _best(wanted, find)[0]


def _best(wanted: Sandbox, find: Callable[[str], str | None]) -> tuple[Sandbox, str]:
    """Namespaces, or the floor, which says why there are none; and what helps."""
    best, remedy = _bubblewrap(wanted, find)
    if best.means is not Means.NONE:
        return best, ""
    return replace(_floor(wanted, find), why=f"{best.why}: {remedy}"), remedy


def _bubblewrap(wanted: Sandbox, find: Callable[[str], str | None]) -> tuple[Sandbox, str]:
    """And what helps where it cannot be."""
    program = find(means.BUBBLEWRAP) or ""
    if not program or sys.platform != "linux":
        return replace(wanted, why="bubblewrap is not installed"), means.INSTALL
    if _is_ours(program, wanted.repository.root):
        why = f"bwrap is a file of this repository, which an agent could change: {program}"
        return replace(wanted, why=why), "take its folder off PATH"
    held = replace(wanted, means=Means.BWRAP, program=program)
    code, complaint = _tried(held, Kind.WORKER)
    if code:
        why, remedy = means.reason(code, complaint)
        return replace(wanted, why=why), remedy
    return held, ""


def _floor(wanted: Sandbox, find: Callable[[str], str | None]) -> Sandbox:
    """What there is without namespaces."""
    found = Means.SEATBELT if find(means.SEATBELT) else Means.LANDLOCK
    if wanted.wishes.hosts is not None and found is Means.LANDLOCK:
        return replace(wanted, why="Landlock cannot hold the network to a list of hosts")
    held = replace(wanted, means=found)
    code, complaint = _tried(held, Kind.CHECK)
    if code:
        return replace(wanted, why=f"{found} does not work here: {_last(code, complaint)}")
    return held


def _tried(held: Sandbox, kind: Kind) -> tuple[int, str]:
    """Exit code and complaint of a command that does nothing, held as that kind is but for what a
    repository has a say in: it must not choose a weaker means.
    """
    tree = replace(held.repository, guarded=(), documents=(), saves=())
    bare = replace(held, repository=tree, wishes=Wishes())
    confined = bare.confine(kind, ["true"], os.environ)
    try:
        done = subprocess.run(
            confined.argv,
            env=dict(confined.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"not done after {_TRIAL_S:g} s"
    except OSError as exc:
        return 127, str(exc.strerror)
    return done.returncode, done.stderr.decode("utf-8", "replace")


def _last(code: int, complaint: str) -> str:
    """What a failed trial said in the end."""
    return next(reversed(complaint.strip().splitlines()), f"it ended with {code}")


def programs(*commands: str) -> tuple[Path, ...]:
    """What runs the commands, wherever it lies: folders on PATH, kern and its interpreter."""
    path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    real = [Path(os.path.realpath(command)).parent for command in commands]
    own = [Path(sys.prefix), Path(sys.base_prefix), Path(relay.__file__).parents[1]]
    return tuple(dict.fromkeys((*path, *real, *own)))


def _is_ours(program: str, root: Path) -> bool:
    return any(Path(one).is_relative_to(root) for one in (program, os.path.realpath(program)))


def _is_folder(path: Path) -> bool | None:
    """None where nothing is, as at the end of a link that leads nowhere or in a circle."""
    return os.path.isdir(path) if os.path.exists(path) else None
