"""What an agent needs, tried from within the sandbox: it is there that a run misses it."""

import subprocess
import sys
from collections.abc import Iterator, Sequence

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
# Prints of each host what is in the way. Of the machine itself something always answers: the relay.
_REACH = """
import os, socket, sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

proxy = urlsplit(os.environ.get("HTTPS_PROXY", ""))

def reach(name):
    host, _, port = name.rpartition(":")
    if not host and proxy.hostname:
        with socket.create_connection((proxy.hostname, proxy.port), 10) as there:
            there.sendall(f"CONNECT {name}:443 HTTP/1.1\\r\\n\\r\\n".encode())
            line = there.recv(200).decode("latin-1").partition("\\r\\n")[0]
            if " 502 " in line:
                return "nor does this machine itself"
            return "" if " 200 " in f"{line} " else line or "no answer"
    place = (host.strip("[]"), int(port)) if host else (name, 443)
    with socket.create_connection(place, 10) as there:
        there.settimeout(1)
        try:
            return "" if not host or there.recv(1) else "nothing listens there"
        except TimeoutError:
            return ""

def told(name):
    try:
        return reach(name)
    except OSError as exc:
        return str(exc)

with ThreadPoolExecutor() as pool:
    for why in pool.map(told, sys.argv[1:]):
        print(why)
"""


def checks(held: Sandbox, program: Program) -> Iterator[Check]:
    agent = program.agent
    yield tried("temporary files", lambda: _temporary(held, agent))
    if hosts := [one for one in held.needs[agent.NAME].hosts if "*" not in one]:
        yield _reach(held, agent, hosts)
    for command in held.needs[agent.NAME].commands:
        yield tried("key", lambda command=command: _key(held, agent, command))  # type: ignore[misc]


def login(held: Sandbox, program: Program) -> Check | None:
    """None where the agent does not tell, or is not logged in outside either."""
    agent = program.agent
    if not (agents.own(agent) and agent.STATUS) or agents.login(agent, program.command).fault:
        return None
    argv = ["sh", "-c", _ELSEWHERE, program.command, *agent.STATUS]
    code, said, shut = _run(held, agent, argv)
    how = agent.login(code, said)
    if how != "":
        return Check("login inside", f"by {how}") if how else None
    why = f"{agent.NAME} is not logged in there, and is outside of the sandbox"
    fault = KernError("; ".join((why, *shut)), hint="kern help safety says what it has there")
    return Check("login inside", str(fault), fault)


def _run(held: Sandbox, agent: Agent, argv: Sequence[str]) -> tuple[int, str, list[str]]:
    """Exit code, output, and what of that the sandbox closed."""
    env = process.surroundings()
    confined = held.confine(Kind.READER, argv, env, agent=agent.NAME)
    code, out, why = process.heard(
        confined.argv, _PATIENCE_S, errors=subprocess.STDOUT, env=confined.env
    )
    said = why or out.decode("utf-8", "replace")
    return code, said, closed.sentences(said, confined.wall) if code else []


def _temporary(held: Sandbox, agent: Agent) -> str:
    code, said, _ = _run(held, agent, ["sh", "-c", _TEMPORARY])
    if code:
        raise UsageError(
            f"none can be written in the sandbox: {plain.line(said, 200)}",
            hint="free some space where your temporary files lie, or set TMPDIR",
        )
    return "can be written in the sandbox"


def _reach(held: Sandbox, agent: Agent, hosts: Sequence[str]) -> Check:
    """The last is the endpoint of the person's own, where one is named."""
    code, said, _ = _run(held, agent, [sys.executable, "-I", "-c", _REACH, *hosts])
    lines = said.splitlines() if not code else [plain.last(said) or f"exit {code}"] * len(hosts)
    faults = {host: why for host, why in zip(hosts, lines, strict=False) if why}
    name = hosts[-1]
    if name not in faults:
        reached = plain.some([host for host in hosts if host not in faults])
        return Check("network", f"{agent.NAME} reaches {reached} from the sandbox")
    fix = f"see that this machine reaches it: curl -sS https://{name}; a proxy: HTTPS_PROXY"
    if ":" in name:
        fix = f"start what is to listen there on this machine: curl -sS http://{name}"
    why = plain.line(faults[name], 200)
    return Check("network", f"{agent.NAME} does not reach {name}: {why}", advice=fix)


def _key(held: Sandbox, agent: Agent, command: str) -> str:
    isolation.check_key(agent.NAME, command, held.confine)
    return f"{agent.NAME} gets its key in the sandbox"
