"""Claude Code, called as `claude -p`: flags that bind, and the shape of its output.

Facts measured with 2.1.197 and 2.1.329 against a scripted API.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kern.agents import claude_stop_hook, faults, protocol, transcript
from kern.agents.protocol import AgentError, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Act, Stage

_ORDINARY = "run kern as an ordinary user; in a container, set IS_SANDBOX=1"
# A repository's hooks, MCP servers and key helpers must not run where limits are promised.
_UNTOUCHED = ("--setting-sources", "user", "--strict-mcp-config")
_SEALED = (*_UNTOUCHED, "--permission-mode", "dontAsk")
_TOKENS = {kind: f"{kind}_tokens" for kind in transcript.KINDS}
_TOO_LARGE = ("prompt_too_long", "blocking_limit", "image_error")


def start(call: Call) -> Start:
    """claude looks at the budget after each answer, so it overshoots by one. It takes one file for
    the system prompt.
    """
    works = call.role is Stage.IMPLEMENT
    argv = [call.program, "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--no-session-persistence", "--tools", ",".join(AGENT.offers(call.role))]
    argv += ["--model", call.model] if call.model else []
    argv += ["--effort", call.effort] if call.effort else []
    argv += ["--max-budget-usd", f"{call.budget:.4f}"] if call.budget else []
    argv += ["--append-system-prompt-file", call.contract] if call.contract else []
    hooks = claude_stop_hook.settings(call.gates) if call.gates else {}
    argv += ["--settings", json.dumps(hooks)] if hooks else []
    argv += ("--permission-mode", "bypassPermissions") if works else _SEALED
    argv += ("--allowedTools", "WebSearch", "WebFetch") if call.role is Stage.RESEARCH else ()
    # `@path` would inline files, also from outside; in implement the same variable would take away
    # the guidance and rules of folders, so its prompt has its `@` broken.
    env = {**AGENT.env} | ({} if works else {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"})
    env |= {"CLAUDE_CODE_EFFORT_LEVEL": call.effort} if call.effort else {}  # it beats the flag
    limit = str(round(1000 * call.patience))
    env |= {f"BASH_{what}_TIMEOUT_MS": limit for what in ("DEFAULT", "MAX") if call.patience}
    request = json.dumps({"run": call.mark, "gates": call.gates})
    env |= {claude_stop_hook.VARIABLE: request} if call.gates else {}
    return Start(argv, env)


def watch(value: Object) -> Act | None:
    """Where the API refuses the key for the second time in a row, claude would ask ten times more,
    for three minutes.
    """
    match value:
        case {"subtype": "api_retry", "error_status": 401 | 403 as status, "attempt": int(again)}:
            if again > 1:
                why = f"the API answers {status} ({value.get('error') or 'no reason given'})"
                raise protocol.Unusable(f"claude is not logged in: {why}", AGENT.login)
        case {"type": "assistant", "message": {**message}} if message:
            asked = (one for one in transcript.parts(message, "content") if "input" in one)
            calls = tuple(transcript.call(one.get("name"), one["input"]) for one in asked)
            used = transcript.tokens([transcript.part(message, "usage")], _TOKENS)
            return Act(str(message.get("id") or ""), calls, used)
    return None


def read(objects: Iterable[Object], end: Ended) -> Answer:
    """Of several results the last counts. Exit code and `subtype` decide nothing: an API failure
    says success, an interrupted claude exits 0.
    """
    result: Object | None = None
    version, sent_back, errors, denied = "", 0, list[str](), list[str]()
    limit: Mapping[Any, Any] | None = None
    for value in objects:
        match value:
            case {"type": "system", "subtype": "init", "claude_code_version": str(version)}:
                pass
            case {"type": "assistant", "error": str(word)}:
                errors.append(word)
            case {"type": "user", "isSynthetic": True, "message": dict(message)}:
                sent_back += any(map(_is_feedback, transcript.parts(message, "content")))
            case {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", **info}}:
                limit = info
            case {"type": "result"}:
                result = value
                denied += map(_denial, transcript.parts(value, "permission_denials"))
    if result is None:
        raise faults.unanswered(AGENT, end)
    text, turns = result.get("result"), transcript.number(result.get("num_turns"))
    answer = Answer(
        text if isinstance(text, str) else "",
        transcript.number(result.get("total_cost_usd")),
        None if turns is None else int(turns),
        str(result.get("session_id") or ""),
        transcript.tokens([transcript.part(result, "usage")], _TOKENS),
        version,
        tuple(dict.fromkeys(denied)),
        sent_back,
    )
    if error := _error(result, answer, errors, limit):
        error.answer = answer
        raise error
    return answer


def _error(
    result: Object, answer: Answer, errors: list[str], limit: Mapping[Any, Any] | None
) -> AgentError | None:
    subtype, terminal = str(result.get("subtype")), str(result.get("terminal_reason"))
    message = answer.text.strip() or str(
        result.get("errors") or result.get("subtype") or "no reason"
    )
    wrong = bool(result.get("is_error"))
    if wrong and (limit is not None or re.search(r"(?i)hit your .{0,20}limit", message)):
        resets_at = transcript.whole((limit or {}).get("resetsAt")) or None
        return protocol.AtLimit(message, resets_at=resets_at)
    if subtype == "error_during_execution" or terminal.startswith("aborted"):
        return protocol.TryAgain(f"the agent was interrupted: {message}")
    if subtype.startswith("error_max"):
        what = subtype.removeprefix("error_max_").replace("_", " ")
        kind = protocol.OverBudget if what.startswith("budget") else protocol.Failed
        return kind(f"the agent used up its {what}: {message}")
    if not wrong:
        return None
    if "max_output_tokens" in errors or result.get("stop_reason") == "refusal":
        return protocol.Failed(message)
    status = transcript.whole(result.get("api_error_status")) or None
    if status == 429:  # a limit has told itself by now
        return faults.passing(message, status)
    return faults.of_api(AGENT, message, status=413 if terminal in _TOO_LARGE else status)


def _is_feedback(block: Object) -> bool:
    return str(block.get("text")).startswith("Stop hook feedback:")


def _denial(denied: Object) -> str:
    """`Write: a.txt`: a call that was refused."""
    details = transcript.part(denied, "tool_input")
    detail = str(details.get("command") or details.get("file_path") or "")
    return f"{denied.get('tool_name')}{f': {detail}' if detail else ''}"


def _admit(env: Mapping[str, str], *, root: bool) -> None:
    if root and not env.get("IS_SANDBOX"):
        raise protocol.Unusable("claude refuses to work unattended as root", _ORDINARY)


AGENT = protocol.brought("claude", start=start, read=read, watch=watch, admit=_admit)
