"""What a machine has for tasks that come from elsewhere: kern, git, the agents with their logins,
room. Each finding with its fix; runs on the worker.
"""

import platform
import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kern import __version__
from kern.agents import protocol
from kern.errors import KernError
from kern.fleet import remote
from kern.pipeline import agents, preflight
from kern.pipeline.preflight import Check

_LEAST_MB = 500  # of the disk


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    detail: str
    fix: str = ""  # empty: all is well


@dataclass(frozen=True, slots=True)
class Machine:
    """Of one worker. Plain values: another version of kern may have to read them."""

    host: str
    kern: str
    python: str
    findings: tuple[Finding, ...] = ()


def examine(names: Sequence[str] = (protocol.DEFAULT,)) -> Machine:
    """`names`: the agents that tasks would need."""
    checks = [preflight.tried("git", preflight.git_version), preflight.tried("disk", _disk)]
    for name in names:
        checks += _agent(name)
    found = (Finding(one.name, one.detail, one.fault.hint if one.fault else "") for one in checks)
    return Machine(socket.gethostname(), __version__, platform.python_version(), tuple(found))


def _disk() -> str:
    folder = remote.place("probe").parent  # it stays: another worker may be looking, too
    free = shutil.disk_usage(folder).free // 1_000_000
    if free < _LEAST_MB:
        raise KernError(f"{folder}: {free} MB left", hint="free some space there")
    return f"{folder}: {free:,} MB left"


def _agent(name: str) -> Iterator[Check]:
    try:
        agent = protocol.find(name)
    except KernError as exc:
        yield Check(name, str(exc), exc)
        return
    there, user = agents.checks(agent, None)
    if there.fault or not agent.OLDEST:  # who knows what a command does that is asked for a version
        yield there
        return
    runs = preflight.tried(
        name, lambda: agents.running(agent, there.detail, *agents.version(there.detail))
    )
    yield from (runs, user)
    if not runs.fault:
        yield agents.login(agent, there.detail)


def version() -> Machine:
    """Of a machine that carries out no task itself."""
    return Machine(socket.gethostname(), __version__, platform.python_version())
