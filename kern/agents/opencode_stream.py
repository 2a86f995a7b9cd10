"""What `opencode run --format json` and kern's plugin print, as values.

Facts measured with 1.18.33 against a scripted API.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kern.agents import faults
from kern.agents import result as results
from kern.agents.opencode_settings import LOGIN
from kern.agents.protocol import Ended, Fault, Grade, Reply
from kern.model import Act

_REFUSALS = ("prevents you from using", "unavailable tool", "outside of the working tree")
_COMPLAINT = 4000  # characters
_TRIES = 3  # of opencode's own, after which kern asks again by itself


def act(line: bytes) -> Act | None:
    """A call is seen when it has ended, tokens when a step has."""
    value = results.parsed(line)
    part = results.part(value, "part")
    match value.get("type"):
        case "tool_use":
            given = results.part(results.part(part, "state"), "input")
            call = results.call(part.get("tool"), given)
            return Act(str(part.get("id")), (call,), {})
        case "step_finish":
            return Act(str(part.get("id")), (), _tokens(part))
    return None


def refused(line: bytes) -> Fault | None:
    """It asks again what waiting would not mend, or for the third time."""
    value = results.parsed(line) if b'"retry"' in line else {}
    if value.get("type") != "retry":
        return None
    at, after = (results.number(value.get(name)) / 1000 for name in ("at", "next"))
    said = str(value.get("message"))
    found = faults.of_api("opencode", said, login=LOGIN, resets_at=round(after) or None, at=at)
    again = results.whole(value.get("attempt")) >= _TRIES
    return found if again or found.grade is not Grade.TRANSIENT else None


def replied(
    seen: Iterable[Mapping[str, Any]], offered: Collection[str], *, reads: bool
) -> Reply | None:
    """The texts of the last step are the answer."""
    session, version, complaint = "", "", ""
    texts: list[str] = []
    steps: list[Mapping[str, Any]] = []
    errors: list[Mapping[str, Any]] = []
    denied: dict[str, None] = {}
    wrote: dict[str, None] = {}
    for value in seen:
        part, error = results.part(value, "part"), results.part(value, "error")
        session = session or str(value.get("sessionID") or "")
        match value.get("type"):
            case "session":
                version = str(value.get("version") or "")
            case "step_start":
                texts.clear()
            case "text":
                texts.append(str(part.get("text")))
            case "step_finish":
                steps.append(part)
                errors.clear()
            case "error" if error:
                errors.append({**error, "at": value.get("at") or value.get("timestamp")})
            case "tool_use":
                name, state = str(part.get("tool")), results.part(part, "state")
                if state.get("status") == "error":
                    complaint = str(state.get("error"))[-_COMPLAINT:]
                    if any(word in complaint for word in _REFUSALS):
                        denied[name] = None
                elif name not in offered:
                    wrote[name] = None
    if not steps and not errors:
        return None
    tokens = results.added([_tokens(step) for step in steps])
    price = sum(results.number(step.get("cost")) for step in steps) or None
    told = [_told(error) for error in errors]
    result = results.made(
        "\n".join(texts),
        cost=price,  # a model without prices costs 0 in its eyes
        turns=len(steps),
        session=session,
        tokens=tokens,
        errors=[one for one in told if "Unexpected server error" not in one][:1] or told[:1],
        stop_reason=str(steps[-1].get("reason")) if steps else "",
        fault=errors[0] if errors else {},
    )
    return Reply(
        result=result,
        text="\n".join(texts),
        cost_usd=price,
        turns=len(steps),
        session=session,
        tokens=tokens,
        version=version,
        denied=tuple(denied),
        complaint=complaint,
        wrote=tuple(wrote) if reads else (),
    )


def fault(reply: Reply | None, ended: Ended) -> Fault | None:
    if reply is None:
        return faults.unanswered("opencode", ended, login=LOGIN)
    error = results.part(reply.result, "fault")
    data = results.part(error, "data")
    if error:
        status, headers = data.get("statusCode"), results.part(data, "responseHeaders")
        at = results.number(error.get("at")) / 1000
        after = str(headers.get("retry-after", ""))
        return faults.of_api(
            "opencode",
            results.said(reply.result),
            status=status if isinstance(status, int) else None,
            login=LOGIN,
            resets_at=round(at) + int(after) if after.isdigit() else None,
            at=at,
        )
    match reply.result.get("stop_reason"):
        case "length":
            return Fault(Grade.FAILED, "the agent's answer was cut at its longest")
        case "content-filter":
            return Fault(Grade.FAILED, "the model refused to answer")
        case "tool-calls":
            return Fault(Grade.TRANSIENT, "the agent was interrupted")
    return None


def _told(error: Mapping[str, Any]) -> str:
    said = results.part(error, "data").get("message")
    full = "context window: " if error.get("name") == "ContextOverflowError" else ""
    return f"{full}{said or error.get('name')}"


def _tokens(step: Mapping[str, Any]) -> dict[str, int]:
    counts = results.part(step, "tokens")
    cache = results.part(counts, "cache")
    return {
        "input": results.whole(counts.get("input")),
        "output": results.whole(counts.get("output")) + results.whole(counts.get("reasoning")),
        "cache_read_input": results.whole(cache.get("read")),
        "cache_creation_input": results.whole(cache.get("write")),
    }
