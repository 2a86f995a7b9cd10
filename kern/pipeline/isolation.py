"""The sandbox of a run: what the person opens, and what a repository closes; and
whether each role's agent is held to it, by that or by itself.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kern import config, person, plain
from kern.agents import protocol
from kern.agents.protocol import Agent, Program
from kern.config import Holding, Settings
from kern.errors import UsageError
from kern.events import Sink, Warned
from kern.git import backups, protected_files, submodules
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Role, Stage
from kern.person import Mode, Person
from kern.pipeline import agents
from kern.sandbox import bounds, confine
from kern.sandbox.bounds import Kind, Repository, Wishes
from kern.sandbox.confine import Means, Sandbox
from kern.sandbox.relay import Relay
from kern.stages.call import Caller
from kern.stages.template import Template
from kern.system import process, temporary, workspace
from kern.system.workspace import Scope

VARIABLE = "KERN_SANDBOX"
_INSTALL = "it may need bubblewrap, user namespaces, and a home folder outside of /tmp"


def mode(option: str, own: Person) -> Mode:
    """The command line's word, the environment's, the person's. Raises UsageError."""
    for value, where in ((option, "--sandbox"), (os.environ.get(VARIABLE), VARIABLE)):
        if value:
            return person.mode(value, where)
    return own.mode


def wishes(own: Holding, theirs: Holding, root: Path) -> Wishes:
    """What the person opens; `theirs`, the repository's, can only close hosts."""
    network = config.narrowed(own.network, theirs.network)
    write = tuple(_path(one, root, Path.home()) for one in own.write)
    hosts = None if network == ("*",) else network
    return Wishes(write, (), hosts, own.env)


def _path(text: str, root: Path, home: Path) -> Path:
    whole = home / text[2:] if f"{text}/".startswith("~/") else Path(text)
    return Path(os.path.normpath(root / whole if not whole.is_absolute() else whole))


def wanted(
    repo: Repo,
    scope: Scope,
    programs: Collection[Program],
    own: Person,
    theirs: Holding | None = None,
) -> Sandbox:
    """Before any means was chosen; see `wishes`. `programs`: the agents of the run."""
    home = Path.home()
    inside = (repo.root / path / ".git" for path in submodules.declared(repo))
    guarded = (repo.root / ".kern", *_obeyed(repo), *inside)
    documents = (repo.root / SPEC, repo.root / LEARNINGS)
    saves = backups.folders(repo)
    return Sandbox(
        Repository(repo.root, repo.git_dir, repo.common_dir, guarded, documents, saves),
        home,
        wishes(own.holding, theirs or Holding(), repo.root),
        {one.agent.NAME: one.agent.needs(os.environ, str(home), agents.begin) for one in programs},
        hidden=(scope.base,),
        programs=confine.programs(*(one.command for one in programs)),
    )


def _obeyed(repo: Repo) -> list[Path]:
    """What git or an agent obeys and no commit would show; a task may change what git tracks."""
    layout = protected_files.Layout(repo)
    found = [layout.at(name) for name, _ in protected_files.TREE]
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
    """The sandbox, with its folder for temporary files and its relays, for as long as the run.
    Raises UsageError.
    """

    def refused(host: str) -> None:
        told = f"the sandbox let nothing reach {host}: sandbox.network in {person.FILE}"
        sink(Warned(told))

    with contextlib.ExitStack() as open_things:
        temp = open_things.enter_context(temporary.folder())
        sockets = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="relay-")))
        held = confine.chosen(mode, replace(wanted, temp=temp))
        if held.means is not Means.NONE:
            _make(wanted)
            held = replace(held, caches=_caches(wanted))
        if held.wishes.hosts is not None and held.means is Means.BWRAP:
            held = replace(held, sockets=sockets)
            for agent in ("", *held.needs):
                kind = Kind.WORKER if agent else Kind.CHECK
                hosts = held.bounds(kind, agent).hosts or ()
                relay = Relay(str(held.socket(agent)), hosts, refused)
                open_things.callback(relay.close)
        yield held


def _caches(wanted: Sandbox) -> Path | None:
    """The project's own; none in a home folder that nobody can write."""
    place = wanted.repository.common_dir
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:8]
    folder = wanted.home / ".cache" / "kern" / f"{wanted.repository.root.name}-{digest}"
    with contextlib.suppress(OSError):
        for kind in Kind:
            (folder / confine.audience(kind)).mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    return None


def _make(wanted: Sandbox) -> None:
    """What is not there cannot be bound: an agent could make it for the next session to obey, and
    pre-commit could not.
    """
    with contextlib.suppress(OSError):  # a home folder that nobody can write: then no agent can
        if (wanted.repository.root / ".pre-commit-config.yaml").exists():
            for folder in wanted.repository.saves:
                folder.mkdir(parents=True, exist_ok=True)
        for needs in wanted.needs.values():
            for folder in bounds.folders(needs):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                for path in map(Path, needs.settings):
                    missing = path.is_relative_to(folder) and not os.path.lexists(path)
                    if missing and ".cache" not in path.parts:
                        _make_one(path)


def _make_one(path: Path) -> None:
    if path.suffix:
        path.write_text("{}\n" if path.suffix == ".json" else "")
    else:
        path.mkdir()


def apply(held: Sandbox, caller: Caller) -> None:
    """To the agents of a run, and with them to its gates and commits."""
    if held.means is not Means.NONE:
        caller.hold = held.confine
        caller.nests = held.means is Means.BWRAP


def lacking(held: Sandbox) -> str:
    """What a run says where the sandbox is none, or the floor; empty where all is well."""
    if not held.why:
        return ""
    if held.means is Means.NONE:
        what = "no sandbox: what agents and gates start can read and write whatever you can"
    else:
        what = f"the sandbox is {held.means} alone: secrets can be read, and .git be written"
    return f"{what}; {held.why} (kern help safety)"


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
    if not agent.unheld(role):
        return ", ".join(agent.tools(role))
    return "words the message; kern commits" if role is Stage.COMMIT else "only in a sandbox"


def promised(templates: Mapping[Role, Template], caller: Caller, held: Sandbox) -> None:
    """Raises UsageError where a role would be run by an agent that nothing holds to it."""
    for role, form in templates.items() if held.means is Means.NONE else ():
        # Where an agent commits that nothing holds, kern commits: see `Agent.unheld`.
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
            _check_key(name, command, caller)


def _check_key(name: str, command: str, caller: Caller) -> None:
    """Without a key an agent asks again and again, for minutes, and says that it is logged in."""
    held = caller.hold(Kind.READER, ["sh", "-c", command], process.surroundings(), agent=name)
    code, key, complaint = process.heard(held.argv, 30, env=held.env)
    if code or not key.strip():
        last = next(reversed(complaint.strip().splitlines()), f"exit {code}, and nothing printed")
        raise UsageError(
            f"{name} gets no key in the sandbox: {plain.line(command, 100)}: "
            f"{plain.line(last, 200)}",
            hint=f"open what that command reads, in {person.FILE}: kern help safety",
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
