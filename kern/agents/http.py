"""An endpoint of chat completions as an agent: Ollama, vLLM, llama.cpp, a gateway, a vendor.

There is no CLI: kern's own Python runs `http_loop`, whose one tool is a shell.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from functools import partial

from kern.agents import faults, places, protocol, transcript
from kern.agents.places import Place
from kern.agents.protocol import Agent, AgentError, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.model import Act, Aide, Stage

_LOOP = f"{__file__.removesuffix('.py')}_loop.py"
_EDIT = 'correct it: [agent.http] in kern.toml; url = "http://localhost:11434/v1" is Ollama\'s'
_COMMAND_S = 120.0  # of a role that only looks
_MOST_TURNS = 200  # of a stage
_MAY = {False: "In this stage nothing can be changed: use it to look and to search.", True: ""}


def agent(endpoint: Endpoint) -> Agent:
    """By what `[agent.http]` says."""
    url, key = endpoint.url, endpoint.key
    named = f"set {key} to a key that it takes" if key else "name its key's variable"
    login = f"see that {url} answers, and {named}: kern help settings"

    def start(call: Call) -> Start:
        """Raises UsageError where no model is named."""
        if not (model := call.model or endpoint.model):
            raise UsageError(
                f"no model is named for the {call.role} stage, and {url} has none of its own",
                hint='model = "qwen3-coder" below [agent.http], or kern --model qwen3-coder',
            )
        begun = _begin(
            **{"url": url, "key": key, "turns": _MOST_TURNS, "model": model},
            effort={"xhigh": "high", "max": "high"}.get(call.effort, call.effort),
            contract=call.contract,
            patience=call.patience or _COMMAND_S,
            may=_MAY[call.role is Stage.IMPLEMENT],
        )
        return Start([call.program, *begun])

    def admit(env: Mapping[str, str], *, root: bool) -> None:
        """Also where it is not set up."""
        if not url:
            raise protocol.Unusable("nothing says which endpoint http asks", _EDIT)
        if key and not env.get(key, "").strip():
            said = f"{key} is to hold the key of {url}, and is not set"
            raise protocol.Unusable(said, f"export {key}=…")

    host = places.host(url)
    return Agent(
        name="http",
        start=start,
        read=partial(_read, url, login),
        watch=watch,
        admit=admit,
        program=sys.executable,
        install="correct it under [agent.http] in kern.toml",
        login=login,
        oldest=(3, 11, 0),  # of Python
        status=(*_begin(url=url, key=key), "models") if url else (),
        logged_out=r'"status": ?(0|401|403)\b',
        tools={Stage.IMPLEMENT: ("shell",), Aide.JUDGE: ("shell (read-only)",)},
        unheld="it has a shell",
        places=(Place(variables=(key,) if key else (), hosts=(host,) if host else ()),),
        asks=endpoint.asks,
        keys=(key,) if key else (),
        contract=True,
    )


def _read(url: str, login: str, seen: Iterable[Object], ended: Ended) -> Answer:
    result = next((one for one in seen if one.get("type") == "result"), None)
    if result is None:
        raise faults.unanswered("http", ended, login=login)
    found = protocol.made(
        str(result["result"]),
        turns=result["turns"],
        cost=transcript.number(result["cost"]),
        tokens=result["usage"],
    )
    if about := transcript.part(result, "fault"):
        error = _error(about, url, login)
        error.answer = found
        raise error
    return found


def watch(value: Object) -> Act | None:
    if value.get("type") != "assistant":
        return None
    calls = tuple(transcript.call("sh", {"command": one}) for one in value["commands"])
    return Act(str(value["turn"]), calls, value["usage"])


def _error(about: Object, url: str, login: str) -> AgentError:
    said, status, at = about["said"], about["status"], about["at"]
    if about["bound"]:
        return protocol.Failed(f"the agent was ended: {said}")
    if status in (*range(300, 400), 405) or (status == 404 and "model" not in said.lower()):
        return protocol.Unusable(
            f"{url} answers {status}, and has no chat completions: {said}", _EDIT
        )
    resets_at = round(at + about["after"]) if about["after"] else None
    named = {"status": status or None, "resets_at": resets_at, "at": at}
    return faults.of_api("http", said, login=login, **named)


def _begin(**given: object) -> list[str]:
    return ["-I", "-S", _LOOP, json.dumps(given)]


AGENT = agent(Endpoint())  # as long as no settings name another
