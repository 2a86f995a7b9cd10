"""What an agent needs, tried from within the sandbox: it is there that a run misses it."""

import sys
from collections.abc import Iterator, Sequence
from functools import partial

from kern import plain
from kern.agents.protocol import Agent, Program
from kern.errors import KernError, UsageError
from kern.pipeline import agents, isolation
from kern.pipeline.preflight import Check, tried
from kern.sandbox import closed
from kern.sandbox.confine import Sandbox
from kern.sandbox.wall import Kind
from kern.system import process

_PATIENCE_S = 30
_TEMPORARY = ': > "$TMPDIR/kern-doctor" && rm "$TMPDIR/kern-doctor"'
_ELSEWHERE = 'cd / && exec "$0" "$@"'  # the project's settings name programs that it would ask
# Whatever is answered, and by whomever it is signed.
_REACH = """
import ssl, sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=10, context=ssl._create_unverified_context())
except urllib.error.HTTPError:
    pass
"""


def checks(sandbox: Sandbox, program: Program) -> Iterator[Check]:
    agent = program.agent
    yield tried("temporary files", lambda: _temporary(sandbox, agent))
    if hosts := [one for one in sandbox.needs[agent.name].hosts if "*" not in one]:
        yield _reach(sandbox, agent, hosts[-1])
    for command in sandbox.needs[agent.name].commands:
        yield tried("key", partial(isolation.check_key, agent.name, command, sandbox.confine))


def login(sandbox: Sandbox, program: Program) -> Check | None:
    """None where the agent does not tell, or is not logged in outside either."""
    agent = program.agent
    if not (agents.is_own(agent) and agent.status) or agents.login(agent, program.command).fault:
        return None
    code, output, shut = _run(
        sandbox, agent, ["sh", "-c", _ELSEWHERE, program.command, *agent.status]
    )
    check = agents.status(agent, code, output)
    if not check.fault:
        return Check("login inside", check.detail)
    why = f"{agent.name} is not logged in there, and is outside of the sandbox"
    fault = KernError("; ".join((why, *shut)), hint="kern help safety says what it has there")
    return Check("login inside", str(fault), fault)


def _run(sandbox: Sandbox, agent: Agent, argv: Sequence[str]) -> tuple[int, str, list[str]]:
    """Exit code, output, and what of that the sandbox closed."""
    confined = sandbox.confine(Kind.READER, argv, process.surroundings(), agent=agent.name)
    code, out, why = process.heard(confined.argv, _PATIENCE_S, env=confined.env)
    output = out.decode("utf-8", "replace") + why
    return code, output, closed.sentences(output, confined) if code else []


def _temporary(sandbox: Sandbox, agent: Agent) -> str:
    code, output, _ = _run(sandbox, agent, ["sh", "-c", _TEMPORARY])
    if code:
        raise UsageError(
            f"none can be written in the sandbox: {plain.line(output, 200)}",
            hint="free some space where your temporary files lie, or set TMPDIR",
        )
    return "can be written in the sandbox"


def _reach(sandbox: Sandbox, agent: Agent, host: str) -> Check:
    """The endpoint of the person's own, where one is named, is on this machine."""
    url = f"http://{host}" if ":" in host else f"https://{host}"
    code, output, _ = _run(sandbox, agent, [sys.executable, "-I", "-c", _REACH, url])
    fix = f"see that this machine reaches it: curl -sS {url}; a proxy: HTTPS_PROXY" if code else ""
    why = f"does not reach {host}: {plain.line(plain.last(output), 200)}"
    reached = f"reaches {host} from the sandbox"
    return Check("network", f"{agent.name} {why if code else reached}", advice=fix)
