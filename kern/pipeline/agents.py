"""The agents' programs made sure of, before the first token is spent."""

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kern import plain
from kern.agents import protocol
from kern.agents.protocol import Agent, Payer, Program
from kern.config import Settings
from kern.errors import KernError, UsageError
from kern.model import Role
from kern.pipeline.preflight import Check, demand, tried
from kern.stages import prompts
from kern.stages.prompts import Template
from kern.system import process

_MOST = 1 << 20  # bytes of a file that are looked at


def chosen(templates: Iterable[Template]) -> list[Agent]:
    """All that may have to run, each once. Raises UsageError for one that kern does not know."""
    names = [by.agent for form in templates for by in form.runners]
    return [protocol.find(name) for name in dict.fromkeys(names)]


def foreseen(root: Path, settings: Settings) -> dict[Role, Template]:
    """The prompts that can be read and carried out by now. A killed agent may have left some that
    cannot; see `recover.unplant`. Raises UsageError for an agent that kern.toml or the command line
    names and kern does not know.
    """
    prompts.know_commands(settings)
    named = (*settings.models.values(), *settings.picked.values())
    for name in filter(None, (*settings.agents, *(one.agent for one in named))):
        protocol.find(name)
    found = dict[Role, Template]()
    for role, name in prompts.FILES.items():
        with contextlib.suppress(UsageError):
            form = prompts.template(root, role, name, settings)
            chosen([form])
            found[role] = form
    return found


def read_guidance(form: Template) -> bool:
    """Whether all that may run it read the project's guidance by themselves."""
    return all(protocol.find(by.agent).READS_GUIDANCE for by in form.runners)


def command(agent: Agent) -> str:
    """Its program, the usual one unless a person names another."""
    return os.environ.get(agent.VARIABLE) or agent.PROGRAM or sys.executable


def checks(agent: Agent, root: Path | None) -> Iterator[Check]:
    """The program is there, none of the repository's files, and will not refuse this user."""
    yield tried("agent", lambda: program(agent, root))
    yield tried("user", lambda: _user(agent))


def program(agent: Agent, root: Path | None) -> str:
    """Where the agent's program is, seen from where kern is started. A run starts this one,
    whatever PATH holds later. By PATH alone it is none of the files below `root`.
    """
    named = command(agent)
    found = shutil.which(named)
    if not found:
        parts = os.environ.get("PATH", "").split(os.pathsep)
        there = any(Path(part, named).exists() for part in parts) or Path(named).exists()
        what = "is not executable" if there else "is not installed, or not on PATH"
        raise UsageError(f"{named} {what}", hint=_missing(agent))
    place = os.path.abspath(found)
    inside = root and any(
        Path(one).is_relative_to(root) for one in (place, os.path.realpath(place))
    )
    ours = not agent.PROGRAM  # kern itself runs by it
    if inside and not ours and (os.sep not in named or named != os.environ.get(agent.VARIABLE)):
        raise UsageError(
            f"{named} is a file of this repository, which an agent could change: {place}",
            hint=f"take its folder off PATH; or, if it is meant: {agent.VARIABLE}={place}",
        )
    return place


def version(place: str) -> tuple[int, str]:
    """The exit code and the words of a program that is asked for its version."""
    return process.capture([place, "--version"], 30, cwd="/")  # see `login`


def running(agent: Agent, place: str, code: int, said: str) -> str:
    """Where it is and what it says of its version, see `version`. Raises KernError for one that
    does not run, or is too old.
    """
    if code or protocol.version(said) < agent.OLDEST:
        detail = f"{place} does not run: {said}" if code else f"{place}, {plain.line(said, 60)}"
        oldest = ".".join(map(str, agent.OLDEST))
        raise KernError(detail, hint=f"kern needs {oldest} or newer: {agent.INSTALL}")
    return f"{place}, {plain.line(said, 60)}"


def _missing(agent: Agent) -> str:
    if command(agent) != agent.NAME:
        return f"{agent.VARIABLE} names it: correct it, or unset it for `{agent.NAME}`"
    return f"{agent.INSTALL}; then run `{agent.NAME}` once and log in"


def own(agent: Agent) -> bool:
    """Whether it is the agent itself, and not a program that a person put in its place."""
    if not agent.PROGRAM:
        return not os.environ.get(agent.VARIABLE)
    return os.path.basename(command(agent)) == agent.NAME


def _user(agent: Agent) -> str:
    fault = agent.unattended(os.environ, root=os.getuid() == 0) if own(agent) else None
    if fault:
        raise KernError(fault.message, hint=fault.hint)
    return f"{agent.NAME} accepts this user"


def ready(crew: Iterable[Agent], root: Path) -> tuple[dict[str, Program], Payer]:
    """The agents' programs and who pays for them: checked, and where nothing tells that anybody
    does, that they are logged in.
    """
    programs, payers = dict[str, Program](), dict[str, Payer]()
    for agent in crew:
        demand(checks(agent, root))
        programs[agent.NAME] = Program(agent, program(agent, root))
        payers[agent.NAME] = payer(agent, root)
        if not payers[agent.NAME].who:
            demand([login(agent, programs[agent.NAME].command)])
    return programs, paid(payers)


def paid(payers: Mapping[str, Payer]) -> Payer:
    """One word for all of them, by their names."""
    if len(payers) == 1:
        return next(iter(payers.values()))
    whos = [f"{name}: {one.who or 'not known'}" for name, one in payers.items()]
    warnings = filter(None, (one.warning for one in payers.values()))
    return Payer("; ".join(whos), "; ".join(warnings))


def payer(agent: Agent, root: Path) -> Payer:
    if not own(agent):
        return Payer("")
    return agent.payer(os.environ, str(root), str(Path.home()), begin)


def installed() -> list[Program]:
    """The agent CLIs that are here."""
    found = list[Program]()
    for agent in map(protocol.find, protocol.AGENTS):
        place = shutil.which(command(agent)) if agent.PROGRAM else None
        found += [Program(agent, place)] if place else []
    return found


def login(agent: Agent, program: str) -> Check:
    """By what the agent says of itself."""
    how = None
    if own(agent) and agent.STATUS:
        # Not in the project: its settings name programs that the agent would ask.
        how = agent.login(*process.capture([program, *agent.STATUS], 30, cwd="/"))
    if how == "":
        fault = KernError(f"{agent.NAME} is not logged in", hint=agent.LOGIN)
        return Check("login", str(fault), fault)
    if how is None:
        advice = f"run `{agent.NAME}` by hand once, and see that it answers"
        return Check("login", f"unknown: this {agent.NAME} does not tell", advice=advice)
    return Check("login", f"by {how}")


def begin(place: str) -> str:
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            return ""
        with open(place, "rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
