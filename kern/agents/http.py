"""An endpoint of chat completions as an agent: Ollama, vLLM, llama.cpp, a gateway, a vendor.

There is no CLI: kern's own Python runs `http_loop`, whose one tool is a shell.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any

from kern.agents import faults, places, protocol, transcript
from kern.agents.places import Place
from kern.agents.protocol import Agent, AgentError, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.model import Act, Stage

_LOOP = f"{__file__.removesuffix('.py')}_loop.py"
_EDIT = '[agent.http] in kern.toml: url = "http://localhost:11434/v1"; model = "qwen3-coder"'
_COMMAND_S = 120.0  # of a role that only looks
_MOST_TURNS = 200  # of a stage
_MAY = {False: "In this stage nothing can be changed: use it to look and to search.", True: ""}


def agent(endpoint: Endpoint) -> Agent:
    """By what `[agent.http]` says."""
    url, key = endpoint.url, endpoint.key
    advice = f"set {key} to a key that it takes" if key else "name its key's variable"

    def start(call: Call) -> Start:
        """Raises UsageError where no endpoint or no model is named."""
        model = call.model or endpoint.model
        if not url or not model:
            what = f"no model is named, and {url} has none of its own" if url else "no url is named"
            raise UsageError(f"{call.role} stage: {what}", hint=_EDIT)
        process = _begin(
            **{"url": url, "key": key, "turns": _MOST_TURNS, "model": model},
            effort={"xhigh": "high", "max": "high"}.get(call.effort, call.effort),
            contract=call.contract,
            patience=call.patience or _COMMAND_S,
            may=_MAY[call.role is Stage.IMPLEMENT],
        )
        return Start([call.program, *process])

    def read(objects: Iterable[Object], end: Ended) -> Answer:
        """Its last message is the answer."""
        replies, wrong = list[Object](), dict[str, Any]()
        for one in objects:
            replies += [one] if one.get("type") == "assistant" else []
            wrong = one if one.get("type") == "error" else wrong
        if not wrong and (end.code or not replies):
            raise faults.unanswered(own, end)
        tokens = transcript.tokens(one["usage"] for one in replies)
        answer = Answer("" if wrong else replies[-1]["text"], turns=len(replies), tokens=tokens)
        if wrong:
            raise _error(own, url, wrong, answer)
        return answer

    host = places.host(url)
    own = protocol.brought(
        "http",
        start=start,
        read=read,
        watch=watch,
        program=sys.executable,
        login=f"see that {url} answers, and {advice}: kern help settings",
        status=(*_begin(url=url, key=key), "models") if url else (),
        places=(Place(variables=(key,) if key else (), hosts=(host,) if host else ()),),
        asks=endpoint.asks,
        keys=(key,) if key else (),
    )
    return own


def watch(value: Object) -> Act | None:
    if value.get("type") != "assistant":
        return None
    calls = (transcript.call("sh", value),) if value["command"] else ()
    return Act(str(value["turn"]), calls, transcript.tokens([value["usage"]]))


def _error(own: Agent, url: str, wrong: Object, answer: Answer) -> AgentError:
    message, status = wrong["said"], wrong["status"]
    if status < 0:
        return protocol.Failed(f"the agent was ended: {message}", answer=answer)
    if status in (*range(300, 400), 405) or (status == 404 and "model" not in message.lower()):
        text = f"{url} answers {status}, and has no chat completions: {message}"
        return protocol.Unusable(text, _EDIT, answer)
    return faults.of_api(own, message, status=status or None, after=wrong["after"], answer=answer)


def _begin(**given: object) -> list[str]:
    return ["-I", "-S", _LOOP, json.dumps(given)]


AGENT = agent(Endpoint())  # as long as no settings name another
