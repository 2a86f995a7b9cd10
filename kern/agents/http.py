"""An endpoint of chat completions as an agent: Ollama, vLLM, llama.cpp, a gateway, a vendor.

There is no CLI: kern's own Python runs `http_loop`, whose one tool is a shell.
"""

import json
import sys
from collections.abc import Iterable

from kern.agents import faults, places, protocol, transcript
from kern.agents.places import Place
from kern.agents.protocol import Agent, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.errors import UsageError
from kern.model import Act, Stage
from kern.models import Endpoint

_LOOP = f"{__file__.removesuffix('.py')}_loop.py"
_EDIT = '[agent.http] in kern.toml: url = "http://localhost:11434/v1"; model = "qwen3-coder"'
_COMMAND_S = 120.0  # of a role that only looks
_MOST_TURNS = 200  # of a stage
_MAY = {False: "In this stage nothing can be changed: use it to look and to search.", True: ""}


def agent(endpoint: Endpoint) -> Agent:
    """By what `[agent.http]` says."""
    url, key = endpoint.url, endpoint.key

    def start(call: Call) -> Start:
        """Raises UsageError where no endpoint or no model is named."""
        model = call.model or endpoint.model
        if not url or not model:
            what = "no model is named" if url else "no url is named"
            raise UsageError(f"{call.role} stage: {what}", hint=_EDIT)
        request = {
            **{"url": url, "key": key, "model": model, "turns": _MOST_TURNS},
            "effort": {"xhigh": "high", "max": "high"}.get(call.effort, call.effort),
            "contract": call.contract,
            "patience": call.patience or _COMMAND_S,
            "may": _MAY[call.role is Stage.IMPLEMENT],
        }
        return Start([call.program, "-I", "-S", _LOOP, json.dumps(request)])

    def read(objects: Iterable[Object], end: Ended) -> Answer:
        """Its last message is the answer."""
        lines = [one for one in objects if one.get("type") in ("assistant", "error")]
        replies = [one for one in lines if one["type"] == "assistant"]
        if not lines or (end.code and lines[-1] in replies):
            raise faults.unanswered(own, end)
        tokens = transcript.tokens(one["usage"] for one in replies)
        answer = Answer(lines[-1]["text"], turns=len(replies), tokens=tokens)
        if lines[-1] in replies:
            return answer
        status = lines[-1]["status"]
        if status < 0:
            raise protocol.Failed(f"the agent was ended: {answer.text}", answer=answer)
        raise faults.of_api(own, answer.text, status=status or None, answer=answer)

    host = places.host(url)
    own = protocol.brought(
        "http",
        start=start,
        read=read,
        watch=watch,
        program=sys.executable,
        login=f"see that {url} answers, and set {key or 'the key'}: kern help settings",
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


AGENT = agent(Endpoint())  # as long as no settings name another
