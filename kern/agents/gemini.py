"""Gemini CLI, called as `gemini -o stream-json`: policies that bind, and what it prints.

Facts measured with 0.61.0 against a scripted API.
"""

import json
import re
from collections.abc import Iterable

from kern.agents import faults, protocol, transcript
from kern.agents.protocol import AgentError, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Act, Stage

_POLICY = "gemini-policy.toml"  # as an administrator's it comes before all others
_RULE = '[[rule]]\ntoolName = {}\ndecision = "{}"\npriority = {}\n\n'
# A project's .env is read whatever the flags; it sets no variable that is there already.
_CLOSED = dict.fromkeys(("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "http_proxy"), "")
_CLOSED |= dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "CODE_ASSIST_ENDPOINT"), "")
_CLOSED |= {"NODE_EXTRA_CA_CERTS": "", "GEMINI_SANDBOX_PROXY_COMMAND": "", "GEMINI_SYSTEM_MD": "0"}
_CLOSED |= {"GEMINI_SANDBOX": "false", "NODE_TLS_REJECT_UNAUTHORIZED": "1"}
_TRIES = 3  # of gemini's own, after which kern asks again by itself
_ATTEMPT = re.compile(r"Attempt (\d+) failed(?: with status (\d+))?\W.*?\w*Error: (.*)")
_NO_LOGIN = 41  # exit code
_TOKENS = {"input": "input", "output": "output_tokens", "cache_read_input": "cached"}


def start(call: Call) -> Start:
    """Without trust in the folder it would not start; where that is not trusted when it begins, the
    project's settings do not count.
    """
    works = call.role is Stage.IMPLEMENT
    allowed = json.dumps([*AGENT.offers(call.role), "update_topic"])
    policy = _RULE.format(allowed, "allow", 500) + _RULE.format('"*"', "deny", 400)
    argv = [call.program, "-o", "stream-json", "--skip-trust"]
    argv += ["--model", call.model] if call.model else []
    argv += ["--approval-mode", "yolo" if works else "default"]
    argv += [] if works else ["--admin-policy", f"{call.folder}/{_POLICY}"]
    argv += [] if works else ["--allowed-mcp-server-names", "kern-none"]
    closed = {} if works else {name: call.given.get(name, own) for name, own in _CLOSED.items()}
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true" if works else "false"}
    return Start(argv, {**AGENT.env, **closed, **trust}, {} if works else {_POLICY: policy})


def watch(value: Object) -> Act | None:
    """While it asks a failing API again, ten times in four minutes, its log alone tells."""
    if again := _ATTEMPT.match(str(value.get("log", ""))):
        error = _error(again[3], int(again[2] or 0))
        if int(again[1]) >= _TRIES or isinstance(error, protocol.AtLimit):
            raise error
    if value.get("type") != "tool_use":
        return None
    call = transcript.call(value.get("tool_name"), value.get("parameters"))
    return Act(str(value.get("tool_id")), (call,), {})


def read(objects: Iterable[Object], end: Ended) -> Answer:
    """What the model said since its last call is the answer."""
    result: Object | None = None
    log, texts = "", list[str]()
    for value in objects:
        match value:
            case {"type": "message", "role": "assistant"}:
                texts.append(str(value.get("content")))
            case {"type": "tool_use"}:
                texts.clear()
            case {"type": "result"}:
                result = value
            case {"log": line}:
                log = f"{log[-8000:]}\n{line}"
    if result is None:
        if end.code == _NO_LOGIN:
            raise protocol.Unusable("gemini is not logged in", AGENT.login)
        raise faults.unanswered(AGENT, end._replace(stderr=log + end.stderr))
    tokens = transcript.tokens([transcript.part(result, "stats")], _TOKENS)
    answer = Answer("".join(texts), tokens=tokens)
    if result.get("status") == "error":
        raise _error(str(transcript.part(result, "error").get("message")), answer=answer)
    return answer


def _error(message: str, status: int = 0, answer: Answer | None = None) -> AgentError:
    """The words may hold the API's own object, in brackets."""
    bracketed = re.search(r"\[API Error: (.*?)\](?:\n|$)", message, re.S)
    inner = bracketed[1] if bracketed else message
    error = transcript.part(transcript.parsed(inner), "error")
    code = transcript.whole(error.get("code")) or status
    text = str(error.get("message") or inner)
    return faults.of_api(AGENT, text, status=code or None, answer=answer)


AGENT = protocol.brought("gemini", start, read, watch)
