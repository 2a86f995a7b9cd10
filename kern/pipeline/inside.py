"""What an agent needs, tried from within the sandbox: it is there that a run misses it."""

import sys
from collections.abc import Iterator
from functools import partial

from kern import person, plain
from kern.agents.protocol import Program
from kern.errors import KernError, UsageError
from kern.pipeline import agents
from kern.pipeline.preflight import Check, tried
from kern.sandbox import closed
from kern.sandbox.confine import Hold, Sandbox
from kern.sandbox.wall import Kind
from kern.system import process

_PATIENCE_S = 30
_TEMPORARY = ': > "$TMPDIR/kern-doctor" && rm "$TMPDIR/kern-doctor"'
_ELSEWHERE = 'cd / && exec "$0" "$@"'  # the project's settings name programs that it would ask
# Whatever is answered, and by whomever it is signed.
_REACH = """
import ssl, sys, urllib.request as u
try: u.urlopen(sys.argv[1], timeout=10, context=ssl._create_unverified_context())
except u.HTTPError: pass
"""


def checks(sandbox: Sandbox, program: Program) -> Iterator[Check]:
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
        yield tried("key", partial(key, name, command, sandbox.confine))


def key(name: str, command: str, hold: Hold) -> str:
    """Without a key an agent asks again and again, for minutes, and says that it is logged in."""
    code, printed, why, shut = _run(hold, name, "sh", "-c", command)
    if code or not printed.strip():
        last = plain.line(plain.last(why) or f"exit {code}, and nothing printed", 200)
        raise UsageError(
            f"{name} gets no key in the sandbox: {plain.line(command, 100)}: {last}",
            hint="; ".join((*(shut or ["open what that command reads"]), f"in {person.FILE}")),
        )
    return f"{name} gets its key in the sandbox"


def login(sandbox: Sandbox, program: Program) -> Iterator[Check]:
    """Nothing where the agent does not tell, or is not logged in outside either."""
    agent, place = program.agent, program.command
    if agents.is_own(agent) and agent.status and not agents.login(agent, place).fault:
        asks = "sh", "-c", _ELSEWHERE, place, *agent.status
        code, printed, why, shut = _run(sandbox.confine, agent.name, *asks)
        check = agents.status(agent, code, printed + why)
        why = f"{agent.name} is not logged in there, and is outside of the sandbox"
        fault = KernError("; ".join((why, *shut)), hint="kern help safety says what it has there")
        yield Check("login inside", *((str(fault), fault) if check.fault else (check.detail,)))


def _run(hold: Hold, agent: str, *argv: str) -> tuple[int, str, str, list[str]]:
    """Exit code, output, complaints, and what of those the sandbox closed."""
    confined = hold(Kind.READER, argv, process.surroundings(), agent=agent)
    code, output, why = process.capture(confined.argv, _PATIENCE_S, env=confined.env)
    return code, output, why, closed.sentences(output + why, confined) if code else []
