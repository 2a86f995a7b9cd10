"""What `gemini -o stream-json` and what kern loads before it print, as values.

Facts measured with 0.61.0 against a scripted API.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from kern.agents import faults
from kern.agents import result as results
from kern.agents.gemini_settings import LOGIN
from kern.agents.protocol import Ended, Fault, Grade, Reply
from kern.model import Act

_REFUSALS = ("tool_not_registered", "policy_violation", "execution_denied")
_COMPLAINT = 4000  # characters
_TRIES = 3  # of gemini's own, after which kern asks again by itself
_NO_LOGIN = 41  # exit code


def act(line: bytes) -> Act | None:
    value = results.parsed(line)
    if value.get("type") != "tool_use":
        return None
    call = results.call(value.get("tool_name"), value.get("parameters"))
    return Act(str(value.get("tool_id")), (call,), {})


def refused(line: bytes) -> Fault | None:
    """It asks again what waiting would not mend, or for the third time."""
    value = results.parsed(line) if b'"refused"' in line else {}
    if value.get("type") != "refused":
        return None
    at, after = results.number(value.get("at")), results.number(value.get("after"))
    found = _fault(str(value.get("message")), at, results.whole(value.get("status")), after)
    again = results.whole(value.get("again")) >= _TRIES
    return found if again or found.grade is Grade.LIMIT else None


def _fault(said: str, at: float, status: int = 0, after: float = 0) -> Fault:
    """The words may hold the API's own object, in brackets."""
    inner = said.removeprefix("[API Error: ").removesuffix("]")
    error = results.part(results.parsed(inner.encode()), "error")
    found = results.whole(error.get("code")) or status
    told = str(error.get("message") or inner)
    resets_at = round(at + after) if after else None
    return faults.of_api(
        "gemini", told, status=found or None, login=LOGIN, resets_at=resets_at, at=at or None
    )


def replied(
    seen: Iterable[Mapping[str, Any]], offered: Collection[str], *, reads: bool
) -> Reply | None:
    """What the model said since its last call is the answer."""
    result: Mapping[str, Any] | None = None
    session, model, complaint = "", "", ""
    texts: list[str] = []
    errors: list[str] = []
    names: dict[str, str] = {}
    denied: dict[str, None] = {}
    wrote: dict[str, None] = {}
    for value in seen:
        match value.get("type"):
            case "init":
                session, model = str(value.get("session_id")), str(value.get("model"))
            case "message" if value.get("role") == "assistant":
                texts.append(str(value.get("content")))
            case "tool_use":
                texts.clear()
                names[str(value.get("tool_id"))] = str(value.get("tool_name"))
            case "tool_result":
                name = names.get(str(value.get("tool_id")), "")
                if value.get("status") == "error":
                    complaint = str(value.get("output"))[-_COMPLAINT:]
                    if results.part(value, "error").get("type") in _REFUSALS:
                        denied[name] = None
                elif name not in offered:
                    wrote[name] = None
            case "error" if value.get("severity") != "warning":
                errors.append(str(value.get("message")))
            case "result":
                result = value
    if result is None:
        return None
    if result.get("status") == "error":
        errors.append(str(results.part(result, "error").get("message")))
    tokens = _tokens(result)
    text = "".join(texts)
    made = results.made(
        text,
        cost=None,  # it does not tell
        turns=None,
        session=session,
        tokens=tokens,
        model=model,
        errors=errors[-1:] if result.get("status") == "error" or not text else (),
        status=result.get("status"),
        at=_time(result.get("timestamp")),
    )
    return Reply(
        result=made,
        text=text,
        session=session,
        tokens=tokens,
        denied=tuple(denied),
        complaint=complaint,
        wrote=tuple(wrote) if reads else (),
    )


def fault(reply: Reply | None, ended: Ended) -> Fault | None:
    if reply is None:
        if ended.code == _NO_LOGIN:
            return Fault(Grade.PERMANENT, "gemini is not logged in", LOGIN)
        return faults.unanswered("gemini", ended, login=LOGIN)
    said = results.said(reply.result)
    if reply.result.get("status") == "error":
        return _fault(said, results.number(reply.result.get("at")))
    return Fault(Grade.FAILED, f"the model refused to answer: {said}") if said else None


def _tokens(result: Mapping[str, Any]) -> dict[str, int]:
    counts = results.part(result, "stats")
    return {
        "input": results.whole(counts.get("input")),
        "output": results.whole(counts.get("output_tokens")),
        "cache_read_input": results.whole(counts.get("cached")),
    }


def _time(text: object) -> float:
    """Seconds of the epoch; 0 where it is no time."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
