"""Every agent CLI through the same cases: how each is set up beside the scripted server, and what
one call of it by kern came to.

A CLI is known by its row in `CLIS`; the cases are in `test_conformance.py`.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kern.agents import protocol
from kern.agents.protocol import Agent, Program, Reply
from kern.config import Settings, Timeouts
from kern.errors import KernError
from kern.events import Acted, StageRetried
from kern.model import Role
from kern.models import Choice
from kern.stages.call import Caller
from kern.stages.prompt import Prompt
from kern.system import process, workspace

RUN = "conformance"


@dataclass(frozen=True)
class Cli:
    name: str
    model: str
    ready: Callable[[Path, str], Mapping[str, str]]  # home, URL of the server: its environment
    planted: Callable[[Path, str], None]  # a repository's own configuration, which runs a command
    wire: str = "messages"
    cost: bool = False  # it tells what a call costs
    reads_outside: bool = False  # where it may only read, it may everywhere
    keeps: bool = True  # it can be kept from SPEC.md, and from git's commit and push

    @property
    def binary(self) -> str:
        return os.environ.get(f"KERN_TEST_{self.name.upper()}", "")

    @property
    def agent(self) -> Agent:
        return protocol.find(self.name)


def _pi(home: Path, url: str) -> Mapping[str, str]:
    own = home / ".pi" / "agent"
    own.mkdir(parents=True)
    priced = {"input": 1, "output": 5, "cacheRead": 0, "cacheWrite": 0}
    provider = {
        **{"baseUrl": f"{url}/pi/v1", "api": "openai-completions", "apiKey": "FAKE_KEY"},
        "models": [{"id": "small", "cost": priced}],
    }
    (own / "models.json").write_text(json.dumps({"providers": {"fake": provider}}))
    return {"FAKE_KEY": "dummy"}


def _pi_planted(root: Path, command: str) -> None:
    extensions = root / ".pi" / "extensions"
    extensions.mkdir(parents=True)
    run = f'require("node:child_process").execSync({json.dumps(command)})'
    (extensions / "trap.js").write_text(f"module.exports = () => {{ {run}; }};\n")
    settings = {"shellCommandPrefix": command, "npmCommand": ["sh", "-c", command]}
    settings["packages"] = ["npm:nothing-of-this-name"]
    (root / ".pi" / "settings.json").write_text(json.dumps(settings))
    (root / ".pi" / "SYSTEM.md").write_text("TRAPPED\n")


CLIS: Mapping[str, Cli] = {
    "pi": Cli("pi", "fake/small", _pi, _pi_planted, wire="chat", cost=True),
}


@dataclass
class Talk:
    """What one call came to: a reply, with a fault where the stage ran to a bad end; what would be
    tried again; or an error that ends the run.
    """

    reply: Reply | None = None
    fault: str = ""
    again: str = ""
    error: KernError | None = None
    seconds: float = 0.0
    transcript: str = ""
    acts: tuple[str, ...] = ()  # calls that were shown while it ran


def ask(
    cli: Cli,
    root: Path,
    role: Role,
    text: str = "",
    *,
    contract: str = "",
    most: float = 90,
    tick: process.Tick = process.unwatched,
) -> Talk:
    """One call by kern, as a stage makes it, without another try. `most`: seconds."""
    events: list[object] = []
    caller = Caller(
        root=root,
        scope=workspace.scope(root, "main"),
        run=RUN,
        sink=events.append,
        settings=Settings(timeouts=Timeouts(**{role.value: most})),
        sleep=lambda seconds: None,
        tick=tick,
        watched=True,
        scratch=root.parent / "scratch",
        programs={cli.name: Program(cli.agent, cli.binary)},
    )
    by = Choice(cli.model, agent=cli.name)
    prompt = Prompt(role, by, text or heading(role), 0, (), contract=contract)
    talk = Talk()
    began = time.monotonic()
    try:
        said = caller.call(prompt, task="add a greeting", attempt=1, again=lambda: False)
        talk.reply, talk.fault = (said.reply, said.fault) if said else (None, "")
    except KernError as error:
        talk.error = error
    talk.seconds = time.monotonic() - began
    talk.again = next((one.reason for one in events if isinstance(one, StageRetried)), "")
    talk.acts = tuple(call for one in events if isinstance(one, Acted) for call in one.act.calls)
    place = caller.scope.transcript(role)
    talk.transcript = place.read_text(errors="replace") if place.exists() else ""
    return talk


def heading(role: Role) -> str:
    return f"kern {role}\n\nDo it."
