"""pi, called as `pi -p --mode json`: flags that bind, and what it prints.

Facts measured with 0.74.2 against a scripted API.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kern.agents import faults, protocol, transcript
from kern.agents.protocol import Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Act, Stage

# A project's extensions run, its skills are told; the empty texts stand in the place of
# its .pi/SYSTEM.md and .pi/APPEND_SYSTEM.md, which are read whatever the flags.
_UNTOUCHED = ("--no-extensions", "--no-skills", "--no-prompt-templates", "--system-prompt", "")
# With each token it prints the whole message again: of a file of 20 KB that makes 200 MB.
_SHORT = """"$@" | grep --line-buffered -E '^\\{"type":"(session|message_end)"'"""
_TOKENS = {"input": "input", "output": "output", "cache_read_input": "cacheRead"}
_TOKENS |= {"cache_creation_input": "cacheWrite"}


def start(call: Call) -> Start:
    """It would fetch packages that a project names, and look for a newer self."""
    free = call.role is Stage.IMPLEMENT
    argv = [call.program, "-p", "--mode", "json", "--no-session", "--no-context-files"]
    argv += ["--model", call.model] if call.model else []
    effort = {"max": "xhigh"}.get(call.effort, call.effort)
    argv += ["--thinking", effort] if effort else []
    argv += ["--tools", ",".join(AGENT.offers(call.role)), *(() if free else _UNTOUCHED)]
    argv += ["--append-system-prompt", call.contract] if call.contract or not free else []
    return Start(["sh", "-c", _SHORT, "pi", *argv], AGENT.env)


def watch(value: Object) -> Act | None:
    match value:
        case {"type": "message_end", "message": {"role": "assistant", **said}}:
            asked = (one for one in transcript.parts(said, "content") if "arguments" in one)
            calls = tuple(transcript.call(one.get("name"), one["arguments"]) for one in asked)
            used = transcript.tokens([transcript.part(said, "usage")], _TOKENS)
            return Act(str(said.get("responseId") or said.get("timestamp")), calls, used)
    return None


def read(objects: Iterable[Object], end: Ended) -> Answer:
    """Of the agent's messages the last counts; a request that was tried again is one as well."""
    session, replies = "", list[Mapping[Any, Any]]()
    for value in objects:
        match value:
            case {"type": "session", "id": str(session)}:
                pass
            case {"type": "message_end", "message": {"role": "assistant", **message}}:
                replies.append(message)
    if not replies:
        raise faults.unanswered(AGENT, end)
    last, usage = replies[-1], [transcript.part(message, "usage") for message in replies]
    texts = (str(one["text"]) for one in transcript.parts(last, "content") if "text" in one)
    cost = transcript.total(transcript.part(one, "cost").get("total") for one in usage)
    tokens = transcript.tokens(usage, _TOKENS)
    answer = Answer("\n".join(texts), cost, len(replies), session, tokens)
    reason = last.get("stopReason")
    if reason == "error":
        raise faults.of_api(AGENT, str(last.get("errorMessage") or reason), answer=answer)
    if reason != "stop":
        raise faults.unfinished(reason, answer)
    return answer


AGENT = protocol.brought("pi", start=start, read=read, watch=watch)
