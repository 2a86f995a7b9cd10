"""The agent's program made sure of, before the first token is spent."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from kern.agents.protocol import Agent, Payer
from kern.errors import KernError, UsageError
from kern.pipeline.preflight import Check, demand, tried
from kern.system import process

_MOST = 1 << 20  # bytes of a file that are looked at


def checks(agent: Agent, command: str, root: Path | None) -> Iterator[Check]:
    """The program is there, none of the repository's files, and will not refuse this user."""
    yield tried("agent", lambda: program(agent, command, root))
    yield tried("user", lambda: _user(agent, command))


def program(agent: Agent, command: str, root: Path | None) -> str:
    """Where the agent's program is, seen from where kern is started. A run starts this one,
    whatever PATH holds later. By PATH alone it is none of the files below `root`.
    """
    found = shutil.which(command)
    if not found:
        parts = os.environ.get("PATH", "").split(os.pathsep)
        there = any(Path(part, command).exists() for part in parts) or Path(command).exists()
        what = "is not executable" if there else "is not installed, or not on PATH"
        raise UsageError(f"{command} {what}", hint=_missing(agent, command))
    place = os.path.abspath(found)
    inside = root and any(
        Path(one).is_relative_to(root) for one in (place, os.path.realpath(place))
    )
    if inside and os.sep not in command:
        raise UsageError(
            f"{command} is a file of this repository, which an agent could change: {place}",
            hint=f"take its folder off PATH; or, if it is meant: {agent.VARIABLE}={place}",
        )
    return place


def _missing(agent: Agent, command: str) -> str:
    if command != agent.NAME:
        return f"{agent.VARIABLE} names it: correct it, or unset it for `{agent.NAME}`"
    return f"{agent.INSTALL}; then run `{agent.NAME}` once and log in"


def _own(agent: Agent, command: str) -> bool:
    """Whether it is the agent itself, and not a program that a person put in its place."""
    return os.path.basename(command) == agent.NAME


def _user(agent: Agent, command: str) -> str:
    fault = agent.unattended(os.environ, root=os.getuid() == 0) if _own(agent, command) else None
    if fault:
        raise KernError(fault.message, hint=fault.hint)
    return f"{agent.NAME} accepts this user"


def ready(agent: Agent, command: str, root: Path) -> tuple[str, Payer]:
    """The agent's program and who pays for it: checked, and where nothing tells that anybody does,
    that it is logged in.
    """
    demand(checks(agent, command, root))
    found = program(agent, command, root)
    pays = payer(agent, found, root)
    if not pays.who:
        demand([login(agent, found)])
    return found, pays


def payer(agent: Agent, command: str, root: Path) -> Payer:
    if not _own(agent, command):
        return Payer("")
    return agent.payer(os.environ, str(root), str(Path.home()), _begin)


def login(agent: Agent, program: str) -> Check:
    """By what the agent says of itself."""
    how = None
    if _own(agent, program) and agent.STATUS:
        # Not in the project: its settings name programs that the agent would ask.
        how = agent.login(*process.capture([program, *agent.STATUS], 30, cwd="/"))
    if how == "":
        fault = KernError(f"{agent.NAME} is not logged in", hint=agent.LOGIN)
        return Check("login", str(fault), fault)
    unknown = f"unknown: this {agent.NAME} does not tell"
    return Check("login", unknown if how is None else f"by {how}")


def _begin(place: str) -> str:
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            return ""
        with open(place, "rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
