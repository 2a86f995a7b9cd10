"""The sandbox of a run: what the person's settings open, the homes that children have, and whether
each role's agent is held to it.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from kern import person
from kern.agents import protocol
from kern.agents.protocol import Program
from kern.config import Settings
from kern.errors import UsageError
from kern.events import Sink, warning
from kern.git import refs
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Role, Stage
from kern.person import Mode
from kern.pipeline import agents, preflight, trust
from kern.sandbox import confine
from kern.sandbox.confine import Sandbox
from kern.sandbox.means import Means, Overlays
from kern.sandbox.wall import Tree
from kern.stages.call import Caller
from kern.stages.prompts import Template
from kern.system import temporary, workspace

VARIABLE = "KERN_SANDBOX"
_RENEWAL_S = 30.0
_FLAT = "no overlay can lie on this disk: kern works in your tree (kern help safety)"


def homes(repo: Repo) -> Path:
    """The folder of those that children have in place of the person's."""
    digest = hashlib.sha256(os.fsencode(repo.common_dir)).hexdigest()[:8]
    return trust.state(repo) / "homes" / f"{repo.common_dir.parent.name}-{digest}"


def chosen(repo: Repo) -> Sandbox:
    """As this machine has it, with no agent in it. Raises UsageError."""
    mode = person.mode(os.environ.get(VARIABLE) or Mode.AUTO, VARIABLE)
    scope = workspace.scope(repo.root, repo.branch() or repo.head().name, create=False)
    home, documents = Path.home(), (repo.root / SPEC, repo.root / LEARNINGS)
    plan = Sandbox(
        Tree(repo.root, repo.git_dir, repo.common_dir, (repo.root / ".kern",), documents),
        home,
        homes(repo),
        preflight.person_settings(repo.root).sandbox,
        programs=(*confine.programs(home), *_settings_of_git(repo)),
        hidden=(scope.base,),
    )
    return confine.chosen(mode, plan)


def _settings_of_git(repo: Repo) -> list[Path]:
    """Files that the person's git reads, its hooks, and the lists of patterns that it names."""
    listed = repo.run("config", "--global", "--includes", "--list", "--show-origin", "-z")[1]
    names = {os.fsdecode(one[5:]) for one in listed.split(b"\0") if one.startswith(b"file:")}
    for key in ("core.excludesfile", "core.attributesfile"):
        names.update(map(os.path.expanduser, repo.config.get(key, [])[-1:]))
    paths = [repo.hooks_folder(), *map(Path, sorted(names))]
    return [path for path in paths if path.is_absolute() and (path.is_file() or path.is_dir())]


@contextlib.contextmanager
def ready(plan: Sandbox, programs: Collection[Program], sink: Sink) -> Iterator[Sandbox]:
    """The sandbox with those agents, its homes and its relay, for as long as the run."""
    opened = map(os.path.expanduser, plan.grants.write)
    writable = [Path(os.path.realpath(one)) for one in (str(plan.tree.root), *opened)]
    with contextlib.ExitStack() as run:
        run.enter_context(temporary.folder(*writable))
        folder = run.enter_context(temporary.for_socket())
        there = confine.programs(plan.home, *(one.command for one in programs))
        sandbox = replace(
            plan,
            needs={one.agent.name: agents.needs(one.agent) for one in programs},
            programs=(*dict.fromkeys((*there, *plan.programs)),),
            relay=Path(folder, "relay"),
        )
        if sandbox.means is not Means.NONE:
            from kern.sandbox.proxy import Relay  # with asyncio, which most commands do without

            with workspace.reported(plan.own):
                confine.homes(plan.own)
            if sandbox.means is Means.BWRAP and sandbox.apart:
                relay = Relay(str(sandbox.relay), sandbox.hosts, partial(_refused, sink))
                run.callback(relay.close)
            done = threading.Event()
            thread = threading.Thread(target=_renew, args=(sandbox, done), daemon=True)
            thread.start()
            run.callback(thread.join)
            run.callback(done.set)
        yield sandbox


def _refused(sink: Sink, host: str) -> None:
    sink(warning(f"the sandbox let nothing reach {host}: sandbox.network in {person.FILE}"))


def _renew(sandbox: Sandbox, done: threading.Event) -> None:
    """A stage takes longer than a login lasts, and the person's own session needs the new one."""
    while not done.wait(_RENEWAL_S):
        sandbox.renew()
    sandbox.renew()


def rooms(sandbox: Sandbox, repo: Repo, settings: Settings) -> bool:
    """Whether agents can work in a room. A gate that runs in the tree sees nothing of that; a task
    that began in the tree ends there.
    """
    start = refs.start(repo, repo.head().name)
    return (
        sandbox.means is Means.BWRAP
        and sandbox.overlays is not Overlays.NONE
        and all(gate.room for gate in settings.gates)
        and (start is None or start.mounted)
    )


# ---------------------------------------------------------------- what a run says of it


def lacking(sandbox: Sandbox) -> str:
    """Where there is no sandbox; empty where all is well."""
    open_to = "no sandbox: what agents and gates start can read and write whatever you can"
    return f"{open_to}; {sandbox.why} (kern help safety)" if sandbox.why else ""


def described(sandbox: Sandbox) -> str:
    """Where there is one."""
    there = sandbox.means is not Means.NONE
    return f"{sandbox.means}; your home folder is not in it (kern help safety)" if there else ""


def notices(sandbox: Sandbox, theirs: Settings) -> tuple[str, ...]:
    """What a run says first of its sandbox."""
    held = sandbox.means is not Means.NONE
    refused = person.refused(sandbox.grants, theirs.sandbox) if held else ()
    flat = sandbox.means is Means.BWRAP and sandbox.overlays is Overlays.NONE
    return (lacking(sandbox), _FLAT * flat, *refused)


# ---------------------------------------------------------------- what holds each role's agent


def promised(templates: Mapping[Role, Template], caller: Caller, sandbox: Sandbox) -> None:
    """Raises UsageError where a role would be run by an agent that nothing holds to it, or an agent
    gets no key.
    """
    if sandbox.means is not Means.NONE:
        for name, needs in sandbox.needs.items():
            for command in needs.commands:
                agents.check_key(name, command, caller.hold)
        return
    for role, form in templates.items():
        # What the commit stage does beside its answer counts for nothing.
        for by in form.runners if role not in (Stage.COMMIT, Stage.IMPLEMENT) else ():
            if why := protocol.find(by.agent).unheld:
                raise UsageError(
                    f"{by.agent} cannot be held to what {role} may do: {why}",
                    hint=f"--agent {role}={protocol.DEFAULT}, or a sandbox: kern help safety",
                )
