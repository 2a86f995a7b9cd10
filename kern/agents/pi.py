"""pi, called as `pi -p --mode json`: flags that bind, and what it prints.

Facts measured with 0.74.2 and 1.6.0 against a scripted API.
"""

from collections.abc import Iterable

from kern.agents import faults, protocol, transcript
from kern.agents.protocol import Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Act, Stage

# A project's extensions run, its skills are told; the empty texts stand in the place of
# its .pi/SYSTEM.md and .pi/APPEND_SYSTEM.md, which are read whatever the flags.
_UNTOUCHED = ("--no-extensions", "--no-skills", "--no-prompt-templates", "--system-prompt", "")
# With each token it prints the whole message again: of a file of 20 KB that makes 200 MB.
_SHORT = """"$@" | grep --line-buffered -E '^\\{"type":"message_end"'"""
_TOKENS = {"input": "input", "output": "output", "cache_read_input": "cacheRead"}
_TOKENS |= {"cache_creation_input": "cacheWrite"}


def start(call: Call) -> Start:
    """It would fetch packages that a project names, and look for a newer self."""
    free = call.role is Stage.IMPLEMENT
    argv = [call.program, "-p", "--mode", "json", "--no-session", "--no-context-files"]
    argv += ["--model", call.model] if call.model else []
    effort = {"max": "xhigh"}.get(call.effort, call.effort)
    argv += ["--thinking", effort] if effort else []
    # Beside a name of that kind none of what a server offers is left.
    tools = [*AGENT.offers(call.role), *([] if free else ["mcp__none"])]
    argv += ["--tools", ",".join(tools), *(() if free else _UNTOUCHED)]
    argv += ["--append-system-prompt", call.contract] if call.contract or not free else []
    return Start(["sh", "-c", _SHORT, "pi", *argv], AGENT.env)


def watch(value: Object) -> Act | None:
    if not (message := _reply(value)):
        return None
    asked = (one for one in transcript.parts(message, "content") if "arguments" in one)
    calls = tuple(transcript.call(one.get("name"), one["arguments"]) for one in asked)
    used = transcript.tokens([transcript.part(message, "usage")], _TOKENS)
    return Act(str(message.get("responseId") or message.get("timestamp")), calls, used)


def _reply(value: Object) -> Object:
    """A message of the agent's; empty where it is none."""
    message = transcript.part(value, "message") if value.get("type") == "message_end" else {}
    return message if message.get("role") == "assistant" else {}


def read(objects: Iterable[Object], end: Ended) -> Answer:
    """Of the agent's messages the last counts; a request that was tried again is one as well."""
    if not (replies := [*filter(None, map(_reply, objects))]):
        raise faults.unanswered(AGENT, end)
    last, usage = replies[-1], [transcript.part(message, "usage") for message in replies]
    texts = (str(one["text"]) for one in transcript.parts(last, "content") if "text" in one)
    cost = transcript.total(transcript.part(one, "cost").get("total") for one in usage)
    answer = Answer("\n".join(texts), cost, len(replies), transcript.tokens(usage, _TOKENS))
    reason = last.get("stopReason")
    if reason == "error":
        raise faults.of_api(AGENT, str(last.get("errorMessage") or reason), answer=answer)
    if reason != "stop":
        raise faults.unfinished(reason, answer)
    return answer


AGENT = protocol.brought("pi", start, read, watch)
