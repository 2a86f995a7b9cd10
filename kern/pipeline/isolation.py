"""The sandbox of a run: what the person's settings open, the homes that children have, and whether
each role's agent is held to it.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kern import person, plain
from kern.agents import protocol
from kern.agents.protocol import Program
from kern.config import Settings
from kern.errors import UsageError
from kern.events import Sink, Warned
from kern.git import refs
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Role, Stage
from kern.person import Holding, Mode, Person
from kern.pipeline import agents
from kern.sandbox import closed, confine
from kern.sandbox.bubblewrap import Overlays
from kern.sandbox.confine import Hold, Means, Sandbox
from kern.sandbox.wall import Grants, Kind, Tree
from kern.stages.call import Caller
from kern.stages.prompts import Template
from kern.system import process, temporary, workspace
from kern.system.workspace import Scope

VARIABLE = "KERN_SANDBOX"
_RENEWAL_S = 30.0
_LONGEST = 70  # characters: the path of a socket has room for 108


def mode(own: Person) -> Mode:
    """The environment's word, or the person's. Raises UsageError."""
    value = os.environ.get(VARIABLE)
    return person.mode(value, VARIABLE) if value else own.mode


def grants(own: Holding) -> Grants:
    """What the person opens."""
    read, write, devices = (
        tuple(map(_path, names)) for names in (own.read, own.write, own.devices)
    )
    return Grants(read, write, devices, own.env, own.network)


def _path(text: str) -> Path:
    return Path(os.path.normpath(Path(text).expanduser()))


def wanted(
    repo: Repo,
    scope: Scope,
    programs: Collection[Program],
    own: Person,
) -> Sandbox:
    """Before any means was chosen. `programs`: the agents of the run."""
    home = Path.home()
    documents = (repo.root / SPEC, repo.root / LEARNINGS)
    return Sandbox(
        Tree(repo.root, repo.git_dir, repo.common_dir, (repo.root / ".kern",), documents),
        home,
        homes(repo),
        grants(own.holding),
        {one.agent.name: agents.needs(one.agent) for one in programs},
        (*confine.programs(home, *(one.command for one in programs)), *_settings_of_git(repo)),
        hidden=(scope.base,),
    )


def homes(repo: Repo) -> Path:
    """The folder of those that children have in place of the person's. In the tree it would be what
    a task leaves.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", "")).expanduser()
    if not state.is_absolute() or Path(os.path.realpath(state)).is_relative_to(repo.root):
        state = Path("~/.local/state").expanduser()
    digest = hashlib.sha256(os.fsencode(repo.common_dir)).hexdigest()[:8]
    name = f"{repo.common_dir.parent.name}-{digest}"
    return state / "kern" / "homes" / name


def _settings_of_git(repo: Repo) -> list[Path]:
    """Files that the person's git reads, its hooks, and the lists of patterns that it names."""
    listed = repo.run("config", "--global", "--includes", "--list", "--show-origin", "-z")[1]
    origins = {one[5:] for one in listed.split(b"\0") if one.startswith(b"file:")}
    lists = {
        repo.run("config", "--type=path", "--get", key)[1].strip()
        for key in ("core.excludesFile", "core.attributesFile")
    }
    paths = [repo.hooks_folder(), *(Path(os.fsdecode(one)) for one in sorted({*origins, *lists}))]
    return [path for path in paths if path.is_absolute() and (path.is_file() or path.is_dir())]


@contextlib.contextmanager
def ready(wanted: Sandbox, mode: Mode, sink: Sink) -> Iterator[Sandbox]:
    """The sandbox with its homes and its relays, for as long as the run. Raises UsageError."""

    def refused(host: str) -> None:
        sink(Warned(f"the sandbox let nothing reach {host}: sandbox.network in {person.FILE}"))

    written = [Path(os.path.realpath(one)) for one in (wanted.tree.root, *wanted.grants.write)]
    if mode is Mode.OFF:
        with temporary.folder(*written):
            yield wanted
        return
    from kern.sandbox.proxy import Relay  # with asyncio, which most commands do without

    with contextlib.ExitStack() as open_things:
        open_things.enter_context(temporary.folder(*written))
        short = None if len(tempfile.gettempdir()) < _LONGEST else "/tmp"
        made = tempfile.TemporaryDirectory(prefix="relay-", dir=short)
        folder = Path(open_things.enter_context(made))
        wanted = replace(wanted, sockets=folder)
        try:
            confine.homes(wanted.own)
        except OSError:  # those of this run, then
            wanted = replace(wanted, own=folder / "homes")
            confine.homes(wanted.own)
        wanted = replace(wanted, alone=open_things.enter_context(_alone(wanted.own)))
        held = confine.chosen(mode, wanted)
        for agent in ("", *held.needs) if held.means is Means.BWRAP and held.relayed else ():
            relay = Relay(str(held.socket(agent)), held.hosts(agent), refused)
            open_things.callback(relay.close)
        open_things.enter_context(_renewing(held))
        yield held


@contextlib.contextmanager
def _alone(homes: Path) -> Iterator[bool]:
    """Whether this run is the first of those that have these homes."""
    with open(homes / "alone.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextlib.contextmanager
def _renewing(held: Sandbox) -> Iterator[None]:
    """A stage takes longer than a login lasts, and the person's own session needs the new one."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(_RENEWAL_S):
            held.renew()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        held.renew()


def apply(held: Sandbox, caller: Caller) -> None:
    """To the agents of a run, and with them to its gates and commits."""
    if held.means is not Means.NONE:
        caller.hold = held.confine
        caller.nests = False


def proves(held: Sandbox) -> bool:
    """Whether gates can run in a room."""
    return held.means is Means.BWRAP


def rooms(held: Sandbox, repo: Repo, settings: Settings) -> bool:
    """Whether agents can work in a room. A gate that runs in the tree sees nothing of that; a task
    that began in the tree ends there.
    """
    begun = refs.start(repo, repo.head().name)
    return (
        held.means is Means.BWRAP
        and held.overlays is not Overlays.NONE
        and all(gate.room for gate in settings.gates)
        and (begun is None or begun.mounted)
    )


def lacking(held: Sandbox) -> str:
    """What a run says where there is no sandbox; empty where all is well."""
    if not held.why or held.means is not Means.NONE:
        return ""
    open_to = "no sandbox: what agents and gates start can read and write whatever you can"
    return f"{open_to}; {held.why} (kern help safety)"


def described(held: Sandbox) -> str:
    """What a run says where there is one."""
    if held.means is Means.NONE:
        return ""
    return f"{held.means}; your home folder is not in it (kern help safety)"


def foreseen(repo: Repo, own: Person) -> Sandbox:
    """As a run would choose it now. Raises UsageError."""
    scope = workspace.scope(repo.root, repo.branch() or repo.head().name, create=False)
    return confine.chosen(mode(own), wanted(repo, scope, (), own))


def holds(repo: Repo, own: Person) -> bool:
    """Whether what a repository has run here cannot get out. Raises UsageError."""
    return foreseen(repo, own).means in (Means.BWRAP, Means.SEATBELT)


def notices(held: Sandbox, own: Person, theirs: Settings) -> tuple[str, ...]:
    """What a run says first of its sandbox."""
    refused = person.refused(own.holding, theirs.asks) if held.means is not Means.NONE else ()
    return (lacking(held), *refused)


# ---------------------------------------------------------------- what holds each role's agent


def promised(templates: Mapping[Role, Template], caller: Caller, held: Sandbox) -> None:
    """Raises UsageError where a role would be run by an agent that nothing holds to it."""
    for role, form in templates.items() if held.means is Means.NONE else ():
        # What the commit stage does beside its answer counts for nothing.
        for by in form.runners if role is not Stage.COMMIT else ():
            why = protocol.find(by.agent).unheld
            if why and role is not Stage.IMPLEMENT:
                raise UsageError(
                    f"{by.agent} cannot be held to what {role} may do: {why}",
                    hint=f"choose another agent for it (--agent {role}={protocol.DEFAULT}), or "
                    "let a sandbox hold it: kern help safety",
                )
    for name, needs in held.needs.items() if held.means is not Means.NONE else ():
        for command in needs.commands:
            check_key(name, command, caller.hold)


def check_key(name: str, command: str, hold: Hold) -> None:
    """Without a key an agent asks again and again, for minutes, and says that it is logged in."""
    held = hold(Kind.READER, ["sh", "-c", command], process.surroundings(), agent=name)
    code, key, complaint = process.heard(held.argv, 30, env=held.env)
    if code or not key.strip():
        last = next(reversed(complaint.strip().splitlines()), f"exit {code}, and nothing printed")
        shut = closed.sentences(complaint, held.wall) or ["open what that command reads"]
        raise UsageError(
            f"{name} gets no key in the sandbox: {plain.line(command, 100)}: "
            f"{plain.line(last, 200)}",
            hint="; ".join((*shut, f"in {person.FILE}: kern help safety")),
        )
