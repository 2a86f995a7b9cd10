"""The agents' programs made sure of, before the first token is spent."""

import contextlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kern import plain
from kern.agents import places, protocol
from kern.agents.protocol import Agent, Program, Unusable
from kern.config import Settings
from kern.errors import KernError, UsageError
from kern.model import Needs, Role
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
    return all(protocol.find(by.agent).guidance for by in form.runners)


def command(agent: Agent) -> str:
    """Its program, the usual one unless a person names another."""
    return os.environ.get(agent.variable) or agent.program


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
    ours = agent.program == sys.executable  # kern itself runs by it
    if inside and not ours and (os.sep not in named or named != os.environ.get(agent.variable)):
        raise UsageError(
            f"{named} is a file of this repository, which an agent could change: {place}",
            hint=f"take its folder off PATH; or, if it is meant: {agent.variable}={place}",
        )
    return place


def version(place: str) -> tuple[int, str]:
    """The exit code and the words of a program that is asked for its version."""
    return process.capture([place, "--version"], 30, cwd="/")  # see `login`


def running(agent: Agent, place: str, code: int, said: str) -> str:
    """Where it is and what it says of its version, see `version`. Raises KernError for one that
    does not run, or is too old.
    """
    if code or protocol.version(said) < agent.oldest:
        detail = f"{place} does not run: {said}" if code else f"{place}, {plain.line(said, 60)}"
        oldest = ".".join(map(str, agent.oldest))
        raise KernError(detail, hint=f"kern needs {oldest} or newer: {agent.install}")
    return f"{place}, {plain.line(said, 60)}"


def _missing(agent: Agent) -> str:
    if command(agent) != agent.name:
        return f"{agent.variable} names it: correct it, or unset it for `{agent.name}`"
    return f"{agent.install}; then run `{agent.name}` once and log in"


def own(agent: Agent) -> bool:
    """Whether it is the agent itself, and not a program that a person put in its place."""
    if agent.program == sys.executable:
        return not os.environ.get(agent.variable)
    return os.path.basename(command(agent)) == agent.name


def _user(agent: Agent) -> str:
    try:
        if own(agent):
            agent.admit(os.environ, root=os.getuid() == 0)
    except Unusable as exc:
        raise KernError(exc.message, hint=exc.hint) from None
    return f"{agent.name} accepts this user"


def ready(crew: Iterable[Agent], root: Path) -> dict[str, Program]:
    """The agents' programs, checked, and that they are logged in."""
    programs = dict[str, Program]()
    for agent in crew:
        demand(checks(agent, root))
        programs[agent.name] = Program(agent, program(agent, root))
        # An endpoint that is away is waited for; for a worker the run that started it has looked.
        if agent.program != sys.executable and not os.environ.get(process.FLEET):
            demand([login(agent, programs[agent.name].command)])
    return programs


def needs(agent: Agent) -> Needs:
    """What its own program needs of this machine to work."""
    return places.needs(agent.places, os.environ, str(Path.home()), begin)


def key(agent: Agent) -> str:
    """The variable whose key it takes in place of a login; empty where there is none."""
    if not own(agent):
        return ""
    known = {one for place in agent.places for one in place.variables}
    theirs = (one for one in needs(agent).variables if one not in known)  # of their settings
    return next((one for one in (*agent.keys, *theirs) if os.environ.get(one)), "")


def paid(crew: Iterable[Agent]) -> str:
    """Which keys of the environment pay, as far as that can be known."""
    found = {agent.name: key(agent) for agent in crew}
    named = {
        name: f"the key in {one}, by use" if one.endswith("_KEY") else f"what {one} names"
        for name, one in found.items()
        if one
    }
    if len(found) == 1:
        return "".join(named.values())
    return "; ".join(f"{name}: {payer}" for name, payer in named.items())


def installed() -> list[Program]:
    """The agent CLIs that are here."""
    found = list[Program]()
    for agent in map(protocol.find, protocol.AGENTS):
        place = shutil.which(command(agent)) if agent.program != sys.executable else None
        found += [Program(agent, place)] if place else []
    return found


def login(agent: Agent, program: str) -> Check:
    """By what the agent says of itself, where no key or endpoint makes that needless."""
    # An endpoint is asked itself.
    if (named := key(agent)) and agent.program != sys.executable:
        return Check("login", f"not needed: {named} is set")
    if own(agent) and agent.places and (named := places.own_endpoint(needs(agent), agent.places)):
        return Check("login", f"not asked: its settings lead to {named}")
    if own(agent) and agent.status:
        # Not in the project: its settings name programs that the agent would ask.
        return status(agent, *process.capture([program, *agent.status], 30, cwd="/"))
    advice = f"run `{agent.name}` by hand once, and see that it answers"
    return Check("login", f"unknown: this {agent.name} does not tell", advice=advice)


def status(agent: Agent, code: int, said: str) -> Check:
    """Whether it is logged in, by what its status command printed."""
    if bool(re.search(agent.logged_out, said)) if agent.logged_out else bool(code):
        fault = KernError(f"{agent.name} is not logged in", hint=agent.login)
        return Check("login", str(fault), fault)
    if code or not said.strip():
        advice = f"run `{agent.name}` by hand once, and see that it answers"
        told = plain.line(said, 100) or f"this {agent.name} does not tell"
        return Check("login", f"unknown: {told}", advice=advice)
    return Check("login", f"its own word: {plain.line(' '.join(said.split()), 200)}")


def begin(place: str) -> str:
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            return ""
        with open(place, "rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
