"""Claude Code, called as `claude -p`: flags that bind, and the shape of its output.

Facts measured with 2.1.197 and 2.1.329 against a scripted API.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kern.agents import claude_stop_hook
from kern.agents import result as results
from kern.agents.claude_settings import FILES as FILES
from kern.agents.claude_settings import login as login
from kern.agents.claude_settings import needs as needs
from kern.agents.claude_settings import payer as payer
from kern.agents.claude_settings import started as started
from kern.agents.claude_stream import INSTALL as INSTALL
from kern.agents.claude_stream import LOGIN as LOGIN
from kern.agents.claude_stream import OLDEST as OLDEST
from kern.agents.claude_stream import act as act
from kern.agents.claude_stream import blocks, content, denied, sent_back
from kern.agents.claude_stream import fault as fault
from kern.agents.claude_stream import refused as refused
from kern.agents.claude_stream import unattended as unattended
from kern.agents.protocol import Launch, Reply
from kern.agents.transcript import objects as objects
from kern.model import Aide, Role, Stage

NAME = PROGRAM = "claude"
VARIABLE = "KERN_CLAUDE"
STATUS: tuple[str, ...] = ("auth", "status", "--json")
TAKES_CONTRACT = True
RUNS_GATES = True
READS_GUIDANCE = True

_COMMON = ("--verbose", "--no-session-persistence")
# A repository's hooks, MCP servers and key helpers must not run where limits are promised.
_UNTOUCHED = ("--setting-sources", "user", "--strict-mcp-config")
_SEALED = (*_UNTOUCHED, "--permission-mode", "dontAsk")
TOOLS: dict[Role, tuple[str, ...]] = {
    Stage.RESEARCH: ("Read", "Glob", "Grep", "Task", "WebSearch", "WebFetch"),
    Stage.IMPLEMENT: (
        *("Bash", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep"),
        *("Task", "WebSearch", "WebFetch"),
    ),
    Stage.COMMIT: ("Glob", "Grep", "Read"),
    Aide.JUDGE: ("Read", "Glob", "Grep"),
    Aide.PLANNER: ("Read", "Glob", "Grep", "Task"),
}
# `Edit(/x)` names the file at the top level where claude is started and covers Write, and
# redirections in Bash as well; `Write(…)` rules refuse nothing. A deny list is no sandbox: what
# slips through is detected by snapshots.
_NOT_IN_IMPLEMENT = (
    *("Edit(/SPEC.md)", "Edit(/LEARNINGS.md)"),
    *("Bash(git commit *)", "Bash(git -* commit *)", "Bash(git -* commit)", "Bash(*/git commit *)"),
    *("Bash(git push *)", "Bash(git -* push *)", "Bash(git -* push)", "Bash(*/git push *)"),
    *("Bash(*/git push)", "Bash(*/git -* commit *)", "Bash(*/git -* push*)"),
    *("Bash(*{ git commit *)", "Bash(*{ git push *)", "Bash(*do git commit *)"),
)
_RULES: dict[Role, tuple[str, ...]] = {
    Stage.RESEARCH: (*_SEALED, "--allowedTools", "WebSearch", "WebFetch"),
    Stage.IMPLEMENT: (
        *("--permission-mode", "bypassPermissions"),
        *("--disallowedTools", *_NOT_IN_IMPLEMENT),
    ),
    Stage.COMMIT: _SEALED,
    Aide.JUDGE: _SEALED,
    Aide.PLANNER: _SEALED,
}
_READERS = (Stage.RESEARCH, Stage.COMMIT, Aide.JUDGE, Aide.PLANNER)
_SMALL = (Stage.COMMIT, Aide.JUDGE)  # an overloaded model may be another one there


def unheld(role: Role) -> str:
    return ""


def files(launch: Launch) -> Mapping[str, str]:
    return {}


def tools(role: Role) -> tuple[str, ...]:
    return TOOLS[role]


def argv(launch: Launch) -> list[str]:
    """As an argument the prompt could not exceed 128 KiB. claude looks at the budget after each
    answer, so it overshoots by one. It takes one file for the system prompt.
    """
    role, model = launch.role, launch.model
    printed = ("-p", "--output-format", str(launch.output), *_COMMON)
    told = ("--append-system-prompt-file", launch.contract) if launch.contract else ()
    pinned = ("--effort", launch.effort) if launch.effort else ()
    spare = ("--fallback-model", "haiku" if "sonnet" in model else "sonnet")
    offered = ",".join(TOOLS[role])
    most = ("--max-budget-usd", f"{launch.budget:.4f}") if launch.budget else ()
    hooks = claude_stop_hook.settings(launch.gates) if launch.gates else {}
    own = ("--settings", json.dumps(hooks)) if hooks else ()
    models = (*(("--model", model) if model else ()), *pinned, *(spare if role in _SMALL else ()))
    return [*printed, *models, "--tools", offered, *most, *told, *own, *_RULES[role]]


def environment(launch: Launch) -> dict[str, str]:
    """Channels between fresh processes, and what a prompt could trigger by its text, are off. So is
    advice on git that contradicts kern's (to branch first, to sign as co-author).
    """
    lean = {"CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT": "1"} if launch.role in _SMALL else {}
    # `@path` would inline files, also from outside. The same variable takes away the guidance and
    # rules of folders that the agent works in: for those implement's prompt has its `@` broken.
    implements = launch.role is Stage.IMPLEMENT
    closed = {} if implements else {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"}
    # It beats the flag.
    pinned = {"CLAUDE_CODE_EFFORT_LEVEL": launch.effort} if launch.effort else {}
    limit = str(round(1000 * launch.patience))
    patient = {f"BASH_{what}_TIMEOUT_MS": limit for what in ("DEFAULT", "MAX") if launch.patience}
    gates = claude_stop_hook.given(launch.mark, launch.gates)
    return {
        **lean,  # without it a small model is sent 20 KB of advice on coding with every request
        **closed,
        **pinned,
        **patient,
        **({claude_stop_hook.VARIABLE: gates} if launch.gates else {}),
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
    """The transcript's objects, one by one, as one value; None where there is no result among them.
    Of several results the last counts.
    """
    result: Mapping[str, Any] | None = None
    offered = {*TOOLS[role], "Agent"}  # `Task` is called `Agent` in the transcript
    version = ""
    errors: list[str] = []
    refused: list[str] = []
    used: dict[str, str] = {}
    complaint = ""
    resets_at: int | None = None
    rejected = False
    times_back = 0
    for value in seen:
        match value.get("type"):
            case "system" if value.get("subtype") == "init":
                version = str(value.get("claude_code_version") or version)
            case "assistant":
                if isinstance(value.get("error"), str):
                    errors.append(str(value["error"]))
                used |= {
                    str(block.get("id")): str(block.get("name"))
                    for block in blocks(value)
                    if block.get("type") == "tool_use" and str(block.get("name")) not in offered
                }
            case "user":
                times_back += sent_back(value)
                for block in blocks(value):
                    if block.get("type") == "tool_result" and block.get("is_error"):
                        used.pop(str(block.get("tool_use_id")), None)
                        complaint = content(block)[-results.COMPLAINT :]
            case "rate_limit_event":
                info = results.part(value, "rate_limit_info")
                if info.get("status") == "rejected":
                    rejected = True
                    resets_at = results.whole(info.get("resetsAt")) or None
            case "result":
                result = value
                refused += denied(value)
    if result is None:
        return None
    errors += ["usage_limit"] if rejected else []
    return replace(
        results.reply(result),
        version=version,
        denied=tuple(dict.fromkeys(refused)),
        wrote=tuple(dict.fromkeys(used.values())) if role in _READERS else (),
        complaint=complaint,
        sent_back=times_back,
        errors=tuple(errors),
        resets_at=resets_at,
        broke=result.get("subtype") == "error_max_budget_usd",
    )
