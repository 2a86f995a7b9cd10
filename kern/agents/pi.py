"""pi, called as `pi -p --mode json`: flags that bind, and what it prints.

Facts measured with 0.74.2 against a scripted API.
"""

from collections.abc import Iterable, Mapping

from kern.agents import faults, places
from kern.agents import result as results
from kern.agents.protocol import Agent, Answer, Call, Ended, Failed, Start, TryAgain
from kern.agents.transcript import Object
from kern.model import Act, Aide, Role, Stage

LOGIN = "run `pi` by hand and type /login, or set a provider's key; then run kern again"
TOOLS: Mapping[Role, tuple[str, ...]] = {
    Stage.IMPLEMENT: ("read", "bash", "edit", "write", "grep", "find", "ls"),
    Aide.JUDGE: ("read", "grep", "find", "ls"),
}
# A project's extensions run, its skills are told; the empty texts stand in the place of
# its .pi/SYSTEM.md and .pi/APPEND_SYSTEM.md, which are read whatever the flags.
_UNTOUCHED = ("--no-extensions", "--no-skills", "--no-prompt-templates", "--system-prompt", "")
# With each token it prints the whole message again: of a file of 20 KB that makes 200 MB.
_SHORT = """"$@" | grep --line-buffered -E '^\\{"type":"(session|message_end)"'"""
_KINDS = {"input": "input", "output": "output", "cacheRead": "cache_read_input"}
_KINDS |= {"cacheWrite": "cache_creation_input"}


def start(call: Call) -> Start:
    """It would fetch packages that a project names, and look for a newer self."""
    free = call.role is Stage.IMPLEMENT
    argv = [call.program, "-p", "--mode", "json", "--no-session", "--no-context-files"]
    argv += ["--model", call.model] if call.model else []
    effort = {"max": "xhigh"}.get(call.effort, call.effort)
    argv += ["--thinking", effort] if effort else []
    argv += ["--tools", ",".join(AGENT.offers(call.role)), *(() if free else _UNTOUCHED)]
    argv += ["--append-system-prompt", call.contract] if call.contract or not free else []
    return Start(["sh", "-c", _SHORT, "pi", *argv], {"PI_OFFLINE": "1"})


def watch(value: Object) -> Act | None:
    message = _message(value)
    if message.get("role") != "assistant":
        return None
    parts = results.parts(message, "content")
    asked = [part for part in parts if part.get("type") == "toolCall"]
    calls = tuple(results.call(part.get("name"), part.get("arguments")) for part in asked)
    return Act(str(message.get("responseId") or message.get("timestamp")), calls, _tokens(message))


def read(seen: Iterable[Object], ended: Ended) -> Answer:
    """Of the agent's messages the last counts; a request that was tried again is one as well."""
    session = ""
    said: list[Mapping[str, object]] = []
    for value in seen:
        session = session or str(value.get("id") if value.get("type") == "session" else "")
        message = _message(value)
        said += [message] if message.get("role") == "assistant" else []
    if not said:
        raise faults.unanswered("pi", ended, login=LOGIN)
    last, reason = said[-1], str(said[-1].get("stopReason"))
    costs = [results.part(results.part(message, "usage"), "cost") for message in said]
    texts = (part for part in results.parts(last, "content") if part.get("type") == "text")
    found = results.made(
        "\n".join(str(part.get("text")) for part in texts),
        cost=sum(results.number(cost.get("total")) for cost in costs) or None,  # 0: no price known
        turns=len(said),
        session=session,
        tokens=results.added([_tokens(message) for message in said]),
    )
    if reason == "error":
        at = results.number(last.get("timestamp")) / 1000
        words = str(last.get("errorMessage") or reason)
        raise faults.of_api("pi", words, login=LOGIN, at=at, answer=found)
    if reason == "length":
        raise Failed("the agent's answer was cut at its longest", answer=found)
    if reason != "stop":
        raise TryAgain("the agent was interrupted", answer=found)
    return found


def _message(value: Object) -> Object:
    return results.part(value, "message") if value.get("type") == "message_end" else {}


def _tokens(message: Mapping[str, object]) -> dict[str, int]:
    usage = results.part(message, "usage")
    return {kind: results.whole(usage.get(name)) for name, kind in _KINDS.items()}


AGENT = Agent(
    **places.facts("pi"),
    start=start,
    read=read,
    watch=watch,
    login=LOGIN,
    tools=TOOLS,
    contract=True,
)
