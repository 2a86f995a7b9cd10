"""An endpoint of chat completions as an agent: Ollama, vLLM, llama.cpp, a gateway, a vendor.

There is no CLI: kern's own Python runs `http_loop`, whose one tool is a shell.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kern.agents import faults, protocol, transcript
from kern.agents import result as results
from kern.agents.command import Command
from kern.agents.protocol import Ended, Fault, Grade, Launch, Payer, Reply
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.model import Act, Needs, Role, Stage

_LOOP = f"{__file__.removesuffix('.py')}_loop.py"
_EDIT = 'correct it: [agent.http] in kern.toml; url = "http://localhost:11434/v1" is Ollama\'s'
_COMMAND_S = 120.0  # of a role that only looks
_MAY = {False: "In this stage nothing can be changed: use it to look and to search.", True: ""}


class Http(Command):
    """An `Agent` by what `[agent.http]` says."""

    TAKES_CONTRACT = True
    objects = staticmethod(transcript.objects)

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__("http", [""])
        self.endpoint = endpoint
        self.VARIABLE, self.OLDEST = "KERN_HTTP", (3, 11, 0)  # of Python
        key = (
            f"set {endpoint.key} to a key that it takes"
            if endpoint.key
            else "name its key's variable"
        )
        self.LOGIN = f"see that {endpoint.url} answers, and {key}: kern help agents"
        self.STATUS = (*_begin(url=endpoint.url, key=endpoint.key), "models")

    def unheld(self, role: Role) -> str:
        return "" if role is Stage.IMPLEMENT else "it has a shell"

    def tools(self, role: Role) -> tuple[str, ...]:
        return ("shell" if role is Stage.IMPLEMENT else "shell (read-only)",)

    def argv(self, launch: Launch) -> list[str]:
        """Raises UsageError where no model is named."""
        own = self.endpoint
        if not (model := launch.model or own.model):
            raise UsageError(
                f"no model is named for the {launch.role} stage, and {own.url} has none of its own",
                hint='model = "qwen3-coder" below [agent.http], or kern --model qwen3-coder',
            )
        return _begin(
            **{"url": own.url, "key": own.key, "turns": own.turns, "model": model},
            effort={"xhigh": "high", "max": "high"}.get(launch.effort, launch.effort),
            contract=launch.contract,
            patience=launch.patience or _COMMAND_S,
            may=_MAY[launch.role is Stage.IMPLEMENT],
        )

    def read(self, seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
        result, complaint, counts, costs = None, "", list[dict[str, int]](), list[float]()
        for value in seen:
            match value.get("type"):
                case "assistant":
                    counts.append(value["usage"])
                    costs += [] if value["cost"] is None else [results.number(value["cost"])]
                case "output" if value["failed"]:
                    complaint = str(value["text"])[-results.COMPLAINT :]
                case "result":
                    result = value
        if result is None:
            return None
        made = results.made(
            str(result["result"]),
            turns=len(counts),
            cost=sum(costs) if costs else None,
            tokens=results.added(counts) if any(counts) else {},
            errors=result.get("errors", ()),
            fault=result.get("fault"),
        )
        return replace(results.reply(made), complaint=complaint)

    def act(self, line: bytes) -> Act | None:
        value = results.parsed(line)
        if value.get("type") != "assistant":
            return None
        calls = tuple(results.call("sh", {"command": one}) for one in value["commands"])
        return Act(str(value["turn"]), calls, value["usage"])

    def fault(self, reply: Reply | None, ended: Ended) -> Fault | None:
        if reply is None:
            return faults.unanswered(self.NAME, ended, login=self.LOGIN)
        if not (about := results.part(reply.result, "fault")):
            return None
        said, status, at = about["said"], about["status"], about["at"]
        if about["bound"]:
            return Fault(Grade.FAILED, f"the agent was ended: {said}")
        if status in (*range(300, 400), 405) or (status == 404 and "model" not in said.lower()):
            said = f"{self.endpoint.url} answers {status}, and has no chat completions: {said}"
            return Fault(Grade.PERMANENT, said, _EDIT)
        resets = round(at + about["after"]) if about["after"] else None
        named = {"status": status or None, "resets_at": resets, "at": at}
        return faults.of_api(self.NAME, said, login=self.LOGIN, **named)

    def unattended(self, env: Mapping[str, str], *, root: bool) -> Fault | None:
        """Also where it is not set up."""
        url, key = self.endpoint.url, self.endpoint.key
        if not url:
            return Fault(Grade.PERMANENT, "nothing says which endpoint http asks", _EDIT)
        if key and not env.get(key, "").strip():
            said = f"{key} is to hold the key of {url}, and is not set"
            return Fault(Grade.PERMANENT, said, f"export {key}=…")
        return None

    def login(self, code: int, said: str) -> str | None:
        """By the models that it has."""
        models = said.split()
        if code:
            status = results.part(results.parsed(said.encode()), "fault").get("status")
            return "" if status in (0, 401, 403) else None
        return f"{self.endpoint.url}, which has {', '.join(models[:5])}" if models else None

    def payer(
        self, env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]
    ) -> Payer:
        key = self.endpoint.key
        return Payer(
            f"the key in {key}, by use, at {self.endpoint.url}" if key else self.endpoint.url
        )

    def needs(self, env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
        host, key = protocol.host(self.endpoint.url), self.endpoint.key
        return Needs(variables=(key,) if key else (), hosts=(host,) if host else ())

    def started(self, files: Mapping[str, bytes]) -> list[str]:
        return [*self.endpoint.asks]


def _begin(**given: object) -> list[str]:
    return ["-I", "-S", _LOOP, json.dumps(given)]


AGENT = Http(Endpoint())  # as long as no settings name another
