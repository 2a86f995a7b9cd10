"""What `claude -p --output-format stream-json` prints, object by object, and what went wrong in it.

Facts measured with 2.1.197 and 2.1.329 against a scripted API.
"""

import re
from collections.abc import Mapping
from typing import Any

from kern.agents import faults
from kern.agents import result as results
from kern.agents.protocol import Ended, Fault, Grade, Reply
from kern.model import Act

OLDEST: tuple[int, ...] = (2, 1, 0)
INSTALL = "npm install -g @anthropic-ai/claude-code"
_TRANSIENT_STATUS = frozenset({408, 409, 429})
_LIMIT_PROSE = r"(?i)hit your .{0,20}limit"
_LOGIN_STATUS = frozenset({401, 403})
LOGIN = "run `claude` by hand and log in, or set ANTHROPIC_API_KEY; then run kern again"
_ORDINARY = "run kern as an ordinary user; in a container, set IS_SANDBOX=1"
_EXHAUSTED = {
    "error_max_turns": "the agent used up its turns",
    "error_max_budget_usd": "the agent used up its budget",
    "error_max_structured_output_retries": "the agent gave no structured answer",
}
# What says most about a call, the first that is there.
_TELLING = (
    *("command", "file_path", "notebook_path", "pattern", "url", "query", "description", "path"),
    "prompt",
)


def act(line: bytes) -> Act | None:
    """What a line of the live stream shows the agent doing; None where it shows nothing."""
    value = results.parsed(line)
    message = results.part(value, "message")
    if value.get("type") != "assistant" or not message:
        return None
    asked = [block for block in blocks(value) if block.get("type") == "tool_use"]
    calls = tuple(results.call(one.get("name"), one.get("input"), _TELLING) for one in asked)
    tokens = results.tokens(results.part(message, "usage"))
    return Act(str(message.get("id") or ""), calls, tokens)


def blocks(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content of a message, block by block."""
    return results.parts(results.part(value, "message"), "content")


def content(block: Mapping[str, Any]) -> str:
    """The text of a tool's result: a string, or a list of parts."""
    found = block.get("content")
    parts = found if isinstance(found, list) else [{"text": found}]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def denied(value: Mapping[str, Any]) -> list[str]:
    """`Write: a.txt`: the refused calls that a result lists."""
    said = []
    for denial in results.parts(value, "permission_denials"):
        given = results.part(denial, "tool_input")
        detail = str(given.get("command") or given.get("file_path") or "")
        said.append(f"{denial.get('tool_name')}{f': {detail}' if detail else ''}")
    return said


def sent_back(value: Mapping[str, Any]) -> bool:
    """Whether a message of the user's side is a Stop hook's, which let the agent not end yet."""
    said = [block.get("text") for block in blocks(value)] if value.get("isSynthetic") else []
    return any(str(text).startswith("Stop hook feedback:") for text in said)


# -------------------------------------------------------------------- what went wrong


def fault(reply: Reply | None, ended: Ended) -> Fault | None:
    """Classify what went wrong, None for a sound reply. Exit code and `subtype: success` decide
    nothing: an API failure says success, an interrupted claude exits 0.
    """
    if reply is None:
        return _no_reply(ended)
    result = reply.result
    said = _words(reply)
    subtype, terminal = str(result.get("subtype")), str(result.get("terminal_reason"))
    status = results.whole(result.get("api_error_status")) or None
    if "usage_limit" in reply.errors and result.get("is_error"):
        return Fault(Grade.LIMIT, said, resets_at=reply.resets_at)
    if subtype == "error_during_execution" or terminal.startswith("aborted"):
        return Fault(Grade.TRANSIENT, f"the agent was interrupted: {said}")
    if subtype in _EXHAUSTED:
        return Fault(Grade.FAILED, f"{_EXHAUSTED[subtype]}: {said}")
    if result.get("is_error"):
        if re.search(_LIMIT_PROSE, said):
            return Fault(Grade.LIMIT, said, resets_at=reply.resets_at)
        return _api_fault(reply, said, status, terminal)
    if reply.turns == 0:
        return Fault(
            Grade.PERMANENT,
            f"the agent took the prompt for a command of its own: {said}",
            "a prompt file in .kern/prompts/ may be at fault",
        )
    return None


def unattended(env: Mapping[str, str], *, root: bool) -> Fault | None:
    if not root or env.get("IS_SANDBOX"):
        return None
    return Fault(Grade.PERMANENT, "claude refuses to work unattended as root", _ORDINARY)


def refused(line: bytes) -> Fault | None:
    """The API refuses the key for the second time in a row, in a line of the live stream: claude
    would ask ten times more, for three minutes.
    """
    again = results.parsed(line) if b'"api_retry"' in line else {}
    status = results.whole(again.get("error_status"))
    if again.get("subtype") != "api_retry" or status not in _LOGIN_STATUS:
        return None
    if results.whole(again.get("attempt")) < 2:
        return None
    said = f"the API answers {status} ({again.get('error') or 'no reason given'})"
    return Fault(Grade.PERMANENT, f"claude is not logged in: {said}", LOGIN)


def _no_reply(ended: Ended) -> Fault:
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    told = next((line for line in lines if line.lower().startswith("error:")), "")
    if ended.overflow:
        return faults.unanswered("claude", ended, login=LOGIN)
    if "cannot be used with root" in ended.stderr:
        return Fault(Grade.PERMANENT, f"claude refuses to run as root: {lines[0]}", _ORDINARY)
    if "unknown option" in told:
        oldest = ".".join(map(str, OLDEST))
        return Fault(
            Grade.PERMANENT,
            f"this claude is too old: {told}",
            f"kern needs Claude Code {oldest} or newer: {INSTALL}",
        )
    if told and ended.code == 1:
        return Fault(
            Grade.PERMANENT, f"claude refused to start: {told}", "kern doctor checks the agent"
        )
    how = f"was ended by signal {-ended.code}" if ended.code < 0 else f"exited {ended.code}"
    last = f": {lines[-1]}" if lines else ""
    return Fault(
        Grade.TRANSIENT,
        f"claude {how} without a JSON result{last}",
        "run `claude -p hello --output-format json` by hand to see why",
    )


def _api_fault(reply: Reply, said: str, status: int | None, terminal: str) -> Fault:
    errors = set(reply.errors)
    if status in _LOGIN_STATUS or "authentication_failed" in errors or "Not logged in" in said:
        return Fault(Grade.PERMANENT, f"claude is not logged in: {said}", LOGIN)
    if status == 404 or "model_not_found" in errors:
        return Fault(
            Grade.PERMANENT,
            f"claude does not know the model: {said}",
            "change `model:` at the top of the stage's prompt, in .kern/prompts/",
        )
    if "billing_error" in errors:
        return Fault(Grade.PERMANENT, f"the account cannot pay: {said}", "pay, then run kern again")
    if terminal in ("prompt_too_long", "blocking_limit", "image_error") or status == 413:
        return Fault(Grade.FAILED, f"the agent's context is full: {said}")
    if "max_output_tokens" in errors or reply.result.get("stop_reason") == "refusal":
        return Fault(Grade.FAILED, said)
    if status is not None and 400 <= status < 500 and status not in _TRANSIENT_STATUS:
        return Fault(
            Grade.PERMANENT, f"the API refused the request: {said}", "kern doctor checks the agent"
        )
    return faults.passing(said, status)


def _words(reply: Reply) -> str:
    said = reply.text.strip() or results.said(reply.result)
    return said or str(reply.result.get("subtype") or "no reason given")
