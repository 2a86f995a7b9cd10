"""Claude Code, called as `claude -p`: flags that bind, and the shape of its output.

Facts measured with 2.1.197 and 2.1.329 against a scripted API.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kern.agents import claude_stop_hook, faults, places
from kern.agents import result as results
from kern.agents.protocol import (
    Agent,
    AgentError,
    Answer,
    AtLimit,
    Call,
    Ended,
    Failed,
    OverBudget,
    Start,
    TryAgain,
    Unusable,
)
from kern.agents.transcript import Object
from kern.model import Act, Aide, Role, Stage

LOGIN = "run `claude` by hand and log in, or set ANTHROPIC_API_KEY; then run kern again"
_ORDINARY = "run kern as an ordinary user; in a container, set IS_SANDBOX=1"
_READ = ("Read", "Glob", "Grep")
TOOLS: Mapping[Role, tuple[str, ...]] = {
    Stage.RESEARCH: (*_READ, "Task", "WebSearch", "WebFetch"),
    Stage.IMPLEMENT: (
        *("Bash", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep"),
        *("Task", "WebSearch", "WebFetch"),
    ),
    Aide.JUDGE: _READ,
    Aide.PLANNER: (*_READ, "Task"),
}
# A repository's hooks, MCP servers and key helpers must not run where limits are promised.
_UNTOUCHED = ("--setting-sources", "user", "--strict-mcp-config")
_SEALED = (*_UNTOUCHED, "--permission-mode", "dontAsk")
# `Edit(/x)` names the file at the top level where claude is started and covers Write, and
# redirections in Bash as well; `Write(…)` rules refuse nothing.
_KEPT = ("--disallowedTools", "Edit(/SPEC.md)", "Edit(/LEARNINGS.md)")
_SMALL = (Stage.COMMIT, Aide.JUDGE)  # an overloaded model may be another one there
_ENVIRONMENT = {
    # No channels between fresh processes, and no advice on git that contradicts kern's.
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "DISABLE_AUTOUPDATER": "1",
}
_LOGIN_STATUS = (401, 403)
_UNUSABLE = {  # by its own words for an error
    "model_not_found": (
        "claude does not know the model",
        "change `model:` at the top of the stage's prompt, in .kern/prompts/",
    ),
    "billing_error": ("the account cannot pay", "pay, then run kern again"),
    "authentication_failed": ("claude is not logged in", LOGIN),
}
_FULL = ("prompt_too_long", "blocking_limit", "image_error")
_EXHAUSTED = {
    "error_max_turns": "the agent used up its turns",
    "error_max_budget_usd": "the agent used up its budget",
    "error_max_structured_output_retries": "the agent gave no structured answer",
}


def start(call: Call) -> Start:
    """claude looks at the budget after each answer, so it overshoots by one. It takes one file for
    the system prompt.
    """
    works, small = call.role is Stage.IMPLEMENT, call.role in _SMALL
    argv = [call.program, "-p", "--output-format", str(call.output)]
    argv += ["--verbose", "--no-session-persistence", "--tools", ",".join(AGENT.offers(call.role))]
    argv += ["--model", call.model] if call.model else []
    argv += ["--effort", call.effort] if call.effort else []
    spare = "haiku" if "sonnet" in call.model else "sonnet"
    argv += ["--fallback-model", spare] if small else []
    argv += ["--max-budget-usd", f"{call.budget:.4f}"] if call.budget else []
    argv += ["--append-system-prompt-file", call.contract] if call.contract else []
    hooks = claude_stop_hook.settings(call.gates) if call.gates else {}
    argv += ["--settings", json.dumps(hooks)] if hooks else []
    argv += ("--permission-mode", "bypassPermissions", *_KEPT) if works else _SEALED
    argv += ("--allowedTools", "WebSearch", "WebFetch") if call.role is Stage.RESEARCH else ()
    # Without the first a small model is sent 20 KB of advice on coding with every request. `@path`
    # would inline files, also from outside; in implement the same variable would take away the
    # guidance and rules of folders, so its prompt has its `@` broken.
    env = _ENVIRONMENT | ({"CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT": "1"} if small else {})
    env |= {} if works else {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"}
    env |= {"CLAUDE_CODE_EFFORT_LEVEL": call.effort} if call.effort else {}  # it beats the flag
    limit = str(round(1000 * call.patience))
    env |= {f"BASH_{what}_TIMEOUT_MS": limit for what in ("DEFAULT", "MAX") if call.patience}
    given = claude_stop_hook.given(call.mark, call.gates)
    env |= {claude_stop_hook.VARIABLE: given} if call.gates else {}
    return Start(argv, env)


def watch(value: Object) -> Act | None:
    """Where the API refuses the key for the second time in a row, claude would ask ten times more,
    for three minutes.
    """
    status = results.whole(value.get("error_status"))
    again = value.get("subtype") == "api_retry" and results.whole(value.get("attempt")) > 1
    if again and status in _LOGIN_STATUS:
        said = f"the API answers {status} ({value.get('error') or 'no reason given'})"
        raise Unusable(f"claude is not logged in: {said}", LOGIN)
    message = results.part(value, "message")
    if value.get("type") != "assistant" or not message:
        return None
    asked = [block for block in _blocks(value) if block.get("type") == "tool_use"]
    calls = tuple(results.call(one.get("name"), one.get("input")) for one in asked)
    return Act(str(message.get("id") or ""), calls, results.answer(message).tokens)


def read(seen: Iterable[Object], ended: Ended) -> Answer:
    """Of several results the last counts. Exit code and `subtype` decide nothing: an API failure
    says success, an interrupted claude exits 0.
    """
    result: Object | None = None
    version, sent_back = "", 0
    errors, denied = set[str](), list[str]()
    limit: Object | None = None
    for value in seen:
        match value.get("type"):
            case "system" if value.get("subtype") == "init":
                version = str(value.get("claude_code_version") or version)
            case "assistant" if isinstance(value.get("error"), str):
                errors.add(value["error"])
            case "user" if value.get("isSynthetic"):
                texts = [str(block.get("text")) for block in _blocks(value)]
                sent_back += any(text.startswith("Stop hook feedback:") for text in texts)
            case "rate_limit_event":
                info = results.part(value, "rate_limit_info")
                limit = info if info.get("status") == "rejected" else limit
            case "result":
                result = value
                denied += map(_denial, results.parts(value, "permission_denials"))
    if result is None:
        raise _silent(ended)
    found = replace(
        results.answer(result),
        version=version,
        denied=tuple(dict.fromkeys(denied)),
        sent_back=sent_back,
    )
    if error := _error(found, errors, limit):
        error.answer = found
        raise error
    return found


def _error(found: Answer, errors: set[str], limit: Object | None) -> AgentError | None:
    result, wrong = found.result, bool(found.result.get("is_error"))
    subtype, terminal = str(result.get("subtype")), str(result.get("terminal_reason"))
    status = results.whole(result.get("api_error_status")) or None
    listed = result.get("errors")
    said = found.text.strip() or "; ".join(map(str, listed if isinstance(listed, list) else ()))
    said = said or str(result.get("subtype") or "no reason given")
    resets_at = results.whole(limit.get("resetsAt")) or None if limit else None
    if wrong and limit is not None:
        return AtLimit(said, resets_at)
    if subtype == "error_during_execution" or terminal.startswith("aborted"):
        return TryAgain(f"the agent was interrupted: {said}")
    if subtype in _EXHAUSTED:
        kind = OverBudget if subtype == "error_max_budget_usd" else Failed
        return kind(f"{_EXHAUSTED[subtype]}: {said}")
    if not wrong:
        how = f"the agent took the prompt for a command of its own: {said}"
        hint = "a prompt file in .kern/prompts/ may be at fault"
        return Unusable(how, hint) if found.turns == 0 else None
    if re.search(r"(?i)hit your .{0,20}limit", said):
        return AtLimit(said)
    if status in _LOGIN_STATUS or "Not logged in" in said:
        errors = {"authentication_failed"}
    for name in _UNUSABLE.keys() & ({"model_not_found"} if status == 404 else errors):
        what, hint = _UNUSABLE[name]
        return Unusable(f"{what}: {said}", hint)
    if terminal in _FULL or status == 413:
        return Failed(f"the agent's context is full: {said}")
    if "max_output_tokens" in errors or result.get("stop_reason") == "refusal":
        return Failed(said)
    if status and 400 <= status < 500 and status not in (408, 409, 429):
        return Unusable(f"the API refused the request: {said}", "kern doctor checks the agent")
    return faults.passing(said, status)


def _silent(ended: Ended) -> AgentError:
    """It ended without a result."""
    lines = ended.stderr.strip().splitlines()
    told = next((line for line in lines if line.lower().startswith("error:")), "")
    if "cannot be used with root" in ended.stderr:
        return Unusable(f"claude refuses to run as root: {lines[0]}", _ORDINARY)
    if told and ended.code == 1 and "unknown option" not in told and not ended.overflow:
        return Unusable(f"claude refused to start: {told}", "kern doctor checks the agent")
    return faults.unanswered("claude", ended, login=LOGIN)


def _blocks(value: Object) -> list[dict[str, Any]]:
    """The content of a message, block by block."""
    return results.parts(results.part(value, "message"), "content")


def _denial(denied: Object) -> str:
    """`Write: a.txt`: a call that was refused."""
    given = results.part(denied, "tool_input")
    detail = str(given.get("command") or given.get("file_path") or "")
    return f"{denied.get('tool_name')}{f': {detail}' if detail else ''}"


def _admit(env: Mapping[str, str], *, root: bool) -> None:
    if root and not env.get("IS_SANDBOX"):
        raise Unusable("claude refuses to work unattended as root", _ORDINARY)


AGENT = Agent(
    **places.facts("claude"),
    start=start,
    read=read,
    watch=watch,
    admit=_admit,
    login=LOGIN,
    tools=TOOLS,
    contract=True,
    gates=True,
    guidance=True,
)
