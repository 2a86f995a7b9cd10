"""An endpoint of chat completions as an agent: Ollama, vLLM, llama.cpp, a gateway, a vendor.

There is no CLI: kern's own Python runs `http_loop`, whose one tool is a shell.
"""

import json
import sys
from collections.abc import Iterable

from kern.agents import faults, http_loop, places, protocol, transcript
from kern.errors import UsageError
from kern.model import Act
from kern.models import Endpoint

_EDIT = '[agent.http] in kern.toml: url = "http://localhost:11434/v1"; model = "qwen3-coder"'


def agent(endpoint: Endpoint) -> protocol.Agent:
    """By what `[agent.http]` says."""
    url, keys = endpoint.url, tuple(filter(None, [endpoint.key]))

    def start(call: protocol.Call) -> protocol.Start:
        """Raises UsageError where no endpoint or no model is named."""
        body = {"model": call.model or endpoint.model}
        if not url or not body["model"]:
            raise UsageError(f"{call.role}: no {'model' if url else 'url'} is named", hint=_EDIT)
        effort = "high" if call.effort in ("xhigh", "max") else call.effort
        body |= {"reasoning_effort": effort} if effort else {}
        request = {"url": url, "key": endpoint.key, "body": body, "patience": call.patience or 120}
        return protocol.Start([call.program, "-I", "-S", http_loop.__file__, json.dumps(request)])

    def read(objects: Iterable[transcript.Object], ended: protocol.Ended) -> protocol.Answer:
        """Its last message is the answer."""
        replies = [one for one in objects if "usage" in one]
        if ended.stderr.startswith(http_loop.ENDED):
            raise protocol.Failed(ended.stderr.strip())
        if ended.code or not replies:
            raise faults.unanswered(own, ended)
        tokens = transcript.tokens(transcript.part(one, "usage") for one in replies)
        return protocol.Answer(str(replies[-1].get("text")), turns=len(replies), tokens=tokens)

    place = places.Place(variables=keys, hosts=tuple(filter(None, [places.host(url)])))
    own = protocol.brought("http", start, read, watch, keys=keys, places=(place,))
    own.program, own.asks = sys.executable, endpoint.asks
    return own


def watch(value: transcript.Object) -> Act | None:
    calls = (transcript.call("sh", value),) if value.get("command") else ()
    used = transcript.tokens([transcript.part(value, "usage")])
    return Act(str(value.get("turn")), calls, used) if "usage" in value else None


AGENT = agent(Endpoint())  # as long as no settings name another
