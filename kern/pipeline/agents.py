"""The agents' programs made sure of, before the first token is spent and within the sandbox."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from kern import person, plain
from kern.agents import places, protocol
from kern.agents.protocol import Agent, Program
from kern.errors import KernError, UsageError
from kern.model import Needs
from kern.pipeline.preflight import Check, demand, tried
from kern.sandbox import closed
from kern.sandbox.confine import Hold, Sandbox
from kern.sandbox.wall import Kind
from kern.stages.prompts import Template
from kern.system import process

_MOST = 1 << 20  # bytes of a file that are looked at
_PATIENCE_S = 30
_TEMPORARY = ': > "$TMPDIR/kern-doctor" && rm "$TMPDIR/kern-doctor"'
_ELSEWHERE = 'cd / && exec "$0" "$@"'  # the project's settings name programs that it would ask
# Whatever is answered, and by whomever it is signed.
_REACH = """
import ssl, sys, urllib.request as u
try: u.urlopen(sys.argv[1], timeout=10, context=ssl._create_unverified_context())
except u.HTTPError: pass
"""


def chosen(templates: Iterable[Template]) -> list[Agent]:
    """All that may have to run, each once. Raises UsageError for one that kern does not know."""
    names = [by.agent for form in templates for by in form.runners]
    return [protocol.find(name) for name in dict.fromkeys(names)]


def command(agent: Agent) -> str:
    """Its program, the usual one unless a person names another."""
    return os.environ.get(agent.variable) or agent.program


def is_own(agent: Agent) -> bool:
    """Whether it is the agent itself, and not a program that a person put in its place."""
    if agent.program == sys.executable:  # kern itself
        return not os.environ.get(agent.variable)
    return os.path.basename(command(agent)) == agent.name


def installed() -> list[Program]:
    """The agent CLIs that are here."""
    agents = (one for one in map(protocol.find, protocol.AGENTS) if one.program != sys.executable)
    programs = ((agent, shutil.which(command(agent))) for agent in agents)
    return [Program(agent, place) for agent, place in programs if place]


# ---------------------------------------------------------------- it starts


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


def checks(agent: Agent, root: Path | None) -> Iterator[Check]:
    """The program is there, none of the repository's files, and will not refuse this user."""
    yield tried("agent", lambda: program(agent, root))
    yield tried("user", lambda: _user(agent))


def program(agent: Agent, root: Path | None) -> str:
    """Where the agent's program is, seen from where kern is started. A run starts this one,
    whatever PATH holds later. By PATH alone it is none of the files below `root`.
    """
    name = command(agent)
    if not (path := shutil.which(name)):
        hint = f"{agent.install}; then run `{agent.name}` once and log in"
        if name != agent.name:
            hint = f"{agent.variable} names it: correct it, or unset it for `{agent.name}`"
        raise UsageError(f"{name} is not installed, or not on PATH", hint=hint)
    place = os.path.abspath(path)
    is_within = root and any(Path(p).is_relative_to(root) for p in (place, os.path.realpath(place)))
    is_meant = os.sep in name and name == os.environ.get(agent.variable)
    if is_within and not is_meant and agent.program != sys.executable:  # by which kern itself runs
        raise UsageError(
            f"{name} is a file of this repository, which an agent could change: {place}",
            hint=f"take its folder off PATH; or, if it is meant: {agent.variable}={place}",
        )
    return place


def _user(agent: Agent) -> str:
    lacks = agent.as_root and not os.environ.get(agent.as_root)
    if lacks and os.getuid() == 0 and is_own(agent):
        hint = f"run kern as an ordinary user; in a container, set {agent.as_root}=1"
        raise KernError(f"{agent.name} refuses to work unattended as root", hint=hint)
    return f"{agent.name} accepts this user"


def version(agent: Agent, place: str) -> str:
    """Where it is and what it says of its version. Raises KernError for one that does not run, or
    is too old.
    """
    code, *printed = process.capture([place, "--version"], 30, cwd="/")  # see `login`
    output = "".join(printed)
    if code or protocol.version(output) < agent.oldest:
        detail = f"{place} does not run: {output}" if code else f"{place}, {plain.line(output, 60)}"
        oldest = ".".join(map(str, agent.oldest))
        raise KernError(detail, hint=f"kern needs {oldest} or newer: {agent.install}")
    return f"{place}, {plain.line(output, 60)}"


# ---------------------------------------------------------------- it is logged in, or has a key


def needs(agent: Agent) -> Needs:
    """What its own program needs of this machine to work."""
    return places.needs(agent.places, os.environ, str(Path.home()), _text)


def _text(path: str) -> str:
    """The beginning of a file, empty where there is none."""
    try:
        with open(path if os.path.isfile(path) else os.devnull, "rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""


def key(agent: Agent) -> str:
    """The variable whose key it takes in place of a login; empty where there is none."""
    standard = {one for place in agent.places for one in place.variables}
    theirs = (one for one in needs(agent).variables if one not in standard)  # of their settings
    names = (*agent.keys, *theirs) if is_own(agent) else ()
    return next(filter(os.environ.get, names), "")


def paid(crew: Iterable[Agent]) -> str:
    """By which variables they are paid for, as far as that can be known."""
    return "; ".join(f"{one.name}: {variable}" for one in crew if (variable := key(one)))


def login(agent: Agent, place: str) -> Check:
    """By what the agent says of itself, where no key or endpoint makes that needless."""
    if where := key(agent):
        return Check("login", f"not needed: {where} is set")
    if is_own(agent) and (where := places.own_endpoint(needs(agent), agent.places)):
        return Check("login", f"not asked: its settings lead to {where}")
    if not (is_own(agent) and agent.status):
        return status(agent, 1, "")
    # Not in the project: its settings name programs that the agent would ask.
    code, *printed = process.capture([place, *agent.status], 30, cwd="/")
    return status(agent, code, "".join(printed))


def status(agent: Agent, code: int, output: str) -> Check:
    """Whether it is logged in, by what its status command printed, if it has one."""
    out = re.search(agent.logged_out, output) if agent.logged_out else code
    if agent.status and is_own(agent) and out:
        fault = KernError(f"{agent.name} is not logged in", hint=agent.login)
        return Check("login", str(fault), fault)
    if code or not output.strip():
        quote = plain.line(output, 100) or f"this {agent.name} does not tell"
        return Check("login", f"unknown: {quote}", advice=agent.login)
    return Check("login", f"its own word: {plain.line(' '.join(output.split()), 200)}")


# ---------------------------------------------------------------- within the sandbox


def inside(sandbox: Sandbox, program: Program) -> Iterator[Check]:
    name, needs = program.agent.name, sandbox.needs[program.agent.name]
    code, _, why, _ = _run(sandbox.confine, name, "sh", "-c", _TEMPORARY)
    detail = f"none can be written in the sandbox: {plain.line(why, 200)}"
    hint = "free some space where your temporary files lie, or set TMPDIR"
    fault = UsageError(detail, hint=hint) if code else None
    yield Check("temporary files", detail if code else "can be written in the sandbox", fault)
    for host in [one for one in needs.hosts if "*" not in one][-1:]:
        # The endpoint of the person's own, where one is named, is on this machine.
        url = f"http://{host}" if ":" in host else f"https://{host}"
        code, _, why, _ = _run(sandbox.confine, name, sys.executable, "-I", "-c", _REACH, url)
        detail = f"does not reach {host}: {plain.line(plain.last(why), 200)}"
        reached = f"reaches {host} from the sandbox"
        hint = f"see that this machine reaches it: curl -sS {url}; a proxy: HTTPS_PROXY"
        yield Check("network", f"{name} {detail if code else reached}", advice=hint * bool(code))
    for command in needs.commands:
        yield tried("key", partial(check_key, name, command, sandbox.confine))


def check_key(name: str, command: str, hold: Hold) -> str:
    """Without a key an agent asks again and again, for minutes, and says that it is logged in."""
    code, printed, why, shut = _run(hold, name, "sh", "-c", command)
    if code or not printed.strip():
        last = plain.line(plain.last(why) or f"exit {code}, and nothing printed", 200)
        raise UsageError(
            f"{name} gets no key in the sandbox: {plain.line(command, 100)}: {last}",
            hint="; ".join((*(shut or ["open what that command reads"]), f"in {person.FILE}")),
        )
    return f"{name} gets its key in the sandbox"


def login_inside(sandbox: Sandbox, program: Program) -> Iterator[Check]:
    """Nothing where the agent does not tell, or is not logged in outside either."""
    agent, place = program.agent, program.command
    if is_own(agent) and agent.status and not login(agent, place).fault:
        asks = "sh", "-c", _ELSEWHERE, place, *agent.status
        code, printed, why, shut = _run(sandbox.confine, agent.name, *asks)
        check = status(agent, code, printed + why)
        why = f"{agent.name} is not logged in there, and is outside of the sandbox"
        fault = KernError("; ".join((why, *shut)), hint="kern help safety says what it has there")
        yield Check("login inside", *((str(fault), fault) if check.fault else (check.detail,)))


def _run(hold: Hold, agent: str, *argv: str) -> tuple[int, str, str, list[str]]:
    """Exit code, output, complaints, and what of those the sandbox closed."""
    confined = hold(Kind.READER, argv, process.surroundings(), agent=agent)
    code, output, why = process.capture(confined.argv, _PATIENCE_S, env=confined.env)
    return code, output, why, closed.sentences(output + why, confined) if code else []
