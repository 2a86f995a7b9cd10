"""Whether each role's agent is held to it, by a sandbox or by itself, before the first stage."""

import os
from collections.abc import Mapping

from kern import plain
from kern.agents import protocol
from kern.agents.protocol import Agent
from kern.errors import UsageError
from kern.model import Role, Stage
from kern.pipeline import agents
from kern.sandbox.bounds import Kind
from kern.sandbox.confine import Means, Sandbox
from kern.stages.call import Caller
from kern.stages.template import Template
from kern.system import process

_INSTALL = "it may need bubblewrap, user namespaces, and a home folder outside of /tmp"


def of(agent: Agent, role: Role) -> str:
    """What the agent may do in the role, for a person."""
    if not agent.unheld(role):
        return ", ".join(agent.tools(role))
    return "words the message; kern commits" if role is Stage.COMMIT else "only in a sandbox"


def held(templates: Mapping[Role, Template], caller: Caller, sandbox: Sandbox) -> None:
    """Raises UsageError where a role would be run by an agent that nothing holds to it."""
    if sandbox.own:
        _hold_themselves(templates)
    _promised(templates, sandboxed=sandbox.means is not Means.NONE)
    reading = [form for role, form in templates.items() if role is not Stage.IMPLEMENT]
    for agent in agents.chosen(reading) if caller.nests else ():
        if agent.TRIAL and agents.own(agent):
            _works(agent, caller)


def _hold_themselves(templates: Mapping[Role, Template]) -> None:
    """Nothing of kern's is around them."""
    for agent in agents.chosen(templates.values()):
        if not agent.confinement((), (), (), None):
            raise UsageError(
                f"{agent.NAME} has no sandbox of its own, so nothing would hold it",
                hint="kern --sandbox bwrap has kern hold it; kern help agents names others",
            )


def _works(agent: Agent, caller: Caller) -> None:
    """Its own sandbox, within kern's. Where it does not, commands fail, and most models answer all
    the same.
    """
    argv = [caller.programs[agent.NAME].command, *agent.TRIAL]
    held = caller.hold(Kind.READER, argv, os.environ, agent=agent.NAME)
    code, said = process.capture(held.argv, 30)
    if code:
        lines = [line for line in said.splitlines() if line.strip()] or [f"exit {code}"]
        lines = [line for line in lines if not line.startswith("note:")] or lines
        told = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise UsageError(
            f"{agent.NAME}'s own sandbox does not work here: {plain.line(told, 200)}",
            hint=f"see what `{agent.NAME} {' '.join(agent.TRIAL)}` says; {_INSTALL}",
        )


def _promised(templates: Mapping[Role, Template], *, sandboxed: bool) -> None:
    for role, form in templates.items():
        if sandboxed or role is Stage.COMMIT:  # there kern commits, see `Agent.unheld`
            continue
        for by in form.runners:
            if why := protocol.find(by.agent).unheld(role):
                raise UsageError(
                    f"{by.agent} cannot be held to what {role} may do: {why}",
                    hint=f"choose another agent for it (--agent {role}={protocol.DEFAULT}), or "
                    "let a sandbox hold it: kern help safety",
                )
