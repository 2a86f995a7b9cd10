"""Claude Code, called as `claude -p`: flags that bind, and the shape of its output.

Facts measured with 2.1.197 and 2.1.332 against a scripted API.
"""

import json
import re
from collections.abc import Iterable

from kern.agents import claude_stop_hook, faults, protocol, transcript
from kern.agents.protocol import AgentError, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Act, Stage

# A repository's hooks, MCP servers and key helpers must not run where limits are promised.
_SEALED = ("--setting-sources", "user", "--strict-mcp-config", "--permission-mode", "dontAsk")
# By it claude reads AGENTS.md, which kern hands on without what that says of kern; to exclude the
# file would take `@AGENTS.md` out of CLAUDE.md as well.
_SETTINGS = {"enabledPlugins": {"cc-plugin-agents-md@builtin": False}}
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
    argv += ["--max-budget-usd", f"{call.budget:.4f}"] if call.budget else []
    argv += ["--append-system-prompt-file", call.contract] if call.contract else []
    hooks = claude_stop_hook.settings(call.gates) if call.gates else {}
    argv += ["--settings", json.dumps(_SETTINGS | hooks)]
    argv += ("--permission-mode", "bypassPermissions") if works else _SEALED
    argv += ("--allowedTools", "WebSearch", "WebFetch") if call.role is Stage.RESEARCH else ()
    # `@path` would inline files, also from outside; in implement the same variable would take away
    # the guidance and rules of folders, so its prompt has its `@` broken.
    env = {**AGENT.env} | ({} if works else {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"})
    env |= {"CLAUDE_CODE_EFFORT_LEVEL": call.effort} if call.effort else {}  # beats any flag
    limit = str(round(1000 * call.patience))
    env |= {f"BASH_{what}_TIMEOUT_MS": limit for what in ("DEFAULT", "MAX") if call.patience}
    env |= {claude_stop_hook.VARIABLE: json.dumps(call.gates)} if call.gates else {}
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
    limit: Object | None = None
    sent_back, errors, denied = 0, set[str](), list[str]()
    for value in objects:
        match value:
            case {"type": "assistant", "error": str(word)}:
                errors.add(word)
            case {"type": "user", "isSynthetic": True, "message": dict(message)}:
                sent_back += "Stop hook feedback:" in str(message.get("content"))
            case {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}:
                limit = transcript.part(value, "rate_limit_info")
            case {"type": "result"}:
                result = value
                denied += map(_denial, transcript.parts(value, "permission_denials"))
    if result is None:
        raise faults.unanswered(AGENT, end)
    answer = Answer(
        str(result.get("result") or ""),
        transcript.number(result.get("total_cost_usd")),
        transcript.whole(result.get("num_turns")) or None,
        transcript.tokens([transcript.part(result, "usage")], _TOKENS),
        tuple(dict.fromkeys(denied)),
        sent_back,
    )
    if error := _error(result, answer.text.strip(), errors, limit):
        error.answer = answer
        raise error
    return answer


def _error(last: Object, text: str, errors: set[str], limit: Object | None) -> AgentError | None:
    subtype, terminal = str(last.get("subtype")), str(last.get("terminal_reason"))
    message, wrong = text or str(last.get("errors") or subtype), bool(last.get("is_error"))
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
    if "max_output_tokens" in errors or last.get("stop_reason") == "refusal":
        return protocol.Failed(message)
    status = transcript.whole(last.get("api_error_status")) or None
    if status == 429:  # a limit has told itself by now
        return faults.passing(message, status)
    return faults.of_api(AGENT, message, status=413 if terminal in _TOO_LARGE else status)


def _denial(denied: Object) -> str:
    """`Write: a.txt`: a call that was refused."""
    details = transcript.part(denied, "tool_input")
    detail = str(details.get("command") or details.get("file_path") or "")
    return f"{denied.get('tool_name')}{f': {detail}' if detail else ''}"


AGENT = protocol.brought("claude", start, read, watch)
