"""The sandbox of a run: what the person's settings open, the homes that children have, and whether
each role's agent is held to it.
"""

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kern import config, person, plain
from kern.agents import protocol
from kern.agents.protocol import Agent, Program
from kern.config import Holding, Settings
from kern.errors import UsageError
from kern.events import Sink, Warned
from kern.git import protected_files, refs, submodules
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Role, Stage
from kern.person import Mode, Person
from kern.pipeline import agents
from kern.sandbox import closed, confine, login
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
_INSTALL = "it may need bubblewrap, user namespaces, and a home folder outside of /tmp"


def mode(option: str, own: Person) -> Mode:
    """The command line's word, the environment's, the person's. Raises UsageError."""
    for value, where in ((option, "--sandbox"), (os.environ.get(VARIABLE), VARIABLE)):
        if value:
            return person.mode(value, where)
    return own.mode


def grants(own: Holding, theirs: Holding) -> Grants:
    """What the person opens. Of the repository's own counts that it closes hosts."""
    read, write, devices = (
        tuple(map(_path, names)) for names in (own.read, own.write, own.devices)
    )
    return Grants(read, write, devices, own.env, config.narrowed(own.network, theirs.network))


def _path(text: str) -> Path:
    return Path(os.path.normpath(Path(text).expanduser()))


def wanted(
    repo: Repo,
    scope: Scope,
    programs: Collection[Program],
    own: Person,
    theirs: Holding | None = None,
) -> Sandbox:
    """Before any means was chosen. `programs`: the agents of the run; `theirs`: see `grants`."""
    home = Path.home()
    inside = (repo.root / path / ".git" for path in submodules.declared(repo))
    kept = (repo.root / ".kern", repo.root / ".git", *_obeyed(repo), *inside)
    documents = (repo.root / SPEC, repo.root / LEARNINGS)
    return Sandbox(
        Tree(repo.root, repo.git_dir, repo.common_dir, kept, documents),
        home,
        homes(repo),
        grants(own.holding, theirs or Holding()),
        {one.agent.NAME: one.agent.needs(os.environ, str(home), agents.begin) for one in programs},
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


def _obeyed(repo: Repo) -> list[Path]:
    """What git or an agent obeys and no commit would show; a task may change what git tracks."""
    found = [repo.root / name for name in protected_files.TREE]
    hooks = protected_files.hooks_in_tree(repo)
    if hooks and hooks != repo.root:
        found.append(hooks)
    names = [os.path.relpath(path, repo.root) for path in found]
    tracked = os.fsdecode(repo.git("ls-files", "-z", "--", *names)).split("\0")
    return [
        path
        for path, name in zip(found, names, strict=True)
        if not any(one == name or one.startswith(f"{name}/") for one in tracked)
    ]


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
        wanted = replace(_with_homes(wanted, folder, sink), sockets=folder)
        # No two overlays may have one folder.
        if open_things.enter_context(login.alone(wanted.own / "caches", wait=False)):
            wanted = replace(wanted, caches=wanted.own / "caches")
        held = confine.chosen(mode, wanted)
        for agent in ("", *held.needs) if held.means is Means.BWRAP and held.relayed else ():
            relay = Relay(str(held.socket(agent)), held.hosts(agent), refused)
            open_things.callback(relay.close)
        open_things.enter_context(_renewing(held))
        yield held


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


def _with_homes(wanted: Sandbox, folder: Path, sink: Sink) -> Sandbox:
    """Those of the repository, or where they cannot be made, those of the run."""
    try:
        confine.homes(wanted.own)
    except OSError as exc:
        why = f"{wanted.own} cannot be made ({exc.strerror})"
        if not confine.nowhere(wanted):
            sink(Warned(f"{why}: what tools of this run fetch is not kept for the next"))
        wanted = replace(wanted, own=folder / "homes")
        confine.homes(wanted.own)
    return wanted


def apply(held: Sandbox, caller: Caller) -> None:
    """To the agents of a run, and with them to its gates and commits."""
    if held.means is not Means.NONE:
        caller.hold = held.confine
        # Without capabilities root can make no namespace for users, which a sandbox begins with.
        caller.nests = held.means is Means.BWRAP and os.getuid() != 0


def proves(held: Sandbox) -> bool:
    """Whether gates can run in a room."""
    return held.means is Means.BWRAP


def rooms(held: Sandbox, repo: Repo, settings: Settings) -> bool:
    """Whether agents can work in a room. A gate that runs in the tree sees nothing of that; a task
    that began in the tree ends there.
    """
    begun = dict(refs.starts(repo)).get(repo.head().name)
    return (
        held.means is Means.BWRAP
        and held.overlays is not Overlays.NONE
        and all(gate.room for gate in settings.gates)
        and (begun is None or refs.is_of_room(repo, begun))
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


def foreseen(repo: Repo, own: Person, option: str = "") -> Sandbox:
    """As a run would choose it now. Raises UsageError."""
    scope = workspace.scope(repo.root, repo.branch() or repo.head().name, create=False)
    return confine.chosen(mode(option, own), wanted(repo, scope, (), own))


def holds(repo: Repo, own: Person, option: str = "") -> bool:
    """Whether what a repository has run here cannot get out. Raises UsageError."""
    return foreseen(repo, own, option).means in (Means.BWRAP, Means.SEATBELT)


def notices(held: Sandbox, own: Person, theirs: Settings) -> tuple[str, ...]:
    """What a run says first of its sandbox."""
    closed = person.withheld(own.holding, theirs.holding) if held.means is not Means.NONE else ()
    return (lacking(held), *closed)


# ---------------------------------------------------------------- what holds each role's agent


def allowed(agent: Agent, role: Role) -> str:
    """What the agent may do in the role, for a person."""
    if role is Stage.COMMIT:
        return "words the message; kern commits"
    return "only in a sandbox" if agent.unheld(role) else ", ".join(agent.tools(role))


def promised(templates: Mapping[Role, Template], caller: Caller, held: Sandbox) -> None:
    """Raises UsageError where a role would be run by an agent that nothing holds to it."""
    for role, form in templates.items() if held.means is Means.NONE else ():
        # What the commit stage does beside its answer counts for nothing.
        for by in form.runners if role is not Stage.COMMIT else ():
            if why := protocol.find(by.agent).unheld(role):
                raise UsageError(
                    f"{by.agent} cannot be held to what {role} may do: {why}",
                    hint=f"choose another agent for it (--agent {role}={protocol.DEFAULT}), or "
                    "let a sandbox hold it: kern help safety",
                )
    reading = [form for role, form in templates.items() if role is not Stage.IMPLEMENT]
    for agent in agents.chosen(reading) if caller.nests else ():
        if agent.TRIAL and agents.own(agent):
            _works(agent, caller)
    for name, needs in held.needs.items() if held.means is not Means.NONE else ():
        for command in needs.commands:
            check_key(name, command, caller.hold)


def check_key(name: str, command: str, hold: Hold) -> None:
    """Without a key an agent asks again and again, for minutes, and says that it is logged in."""
    held = hold(Kind.READER, ["sh", "-c", command], process.surroundings(), agent=name)
    code, key, complaint = process.heard(held.argv, 30, env=held.env)
    if code or not key.strip():
        last = next(reversed(complaint.strip().splitlines()), f"exit {code}, and nothing printed")
        shut = closed.sentences(complaint, held.bounds) or ["open what that command reads"]
        raise UsageError(
            f"{name} gets no key in the sandbox: {plain.line(command, 100)}: "
            f"{plain.line(last, 200)}",
            hint="; ".join((*shut, f"in {person.FILE}: kern help safety")),
        )


def _works(agent: Agent, caller: Caller) -> None:
    """Its own sandbox, within kern's. Where it does not, commands fail, and most models answer all
    the same.
    """
    argv = [caller.programs[agent.NAME].command, *agent.TRIAL]
    held = caller.hold(Kind.READER, argv, process.surroundings(), agent=agent.NAME)
    code, out, complaint = process.heard(held.argv, 30, env=held.env)
    if code:
        said = f"{complaint}\n{out.decode('utf-8', 'replace')}"
        lines = [line for line in said.splitlines() if line.strip()] or [f"exit {code}"]
        lines = [line for line in lines if not line.startswith("note:")] or lines
        told = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise UsageError(
            f"{agent.NAME}'s own sandbox does not work here: {plain.line(told, 200)}",
            hint=f"see what `{agent.NAME} {' '.join(agent.TRIAL)}` says; {_INSTALL}",
        )
