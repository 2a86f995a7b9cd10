"""Gemini CLI, called as `gemini -o stream-json`: policies that bind, and what it prints.

Facts measured with 0.61.0 against a scripted API.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kern.agents import extension, gemini_preload
from kern.agents.absent import confinement as confinement
from kern.agents.absent import unattended as unattended
from kern.agents.gemini_settings import FILES as FILES
from kern.agents.gemini_settings import INSTALL as INSTALL
from kern.agents.gemini_settings import LOGIN as LOGIN
from kern.agents.gemini_settings import STATUS as STATUS
from kern.agents.gemini_settings import login as login
from kern.agents.gemini_settings import needs as needs
from kern.agents.gemini_settings import payer as payer
from kern.agents.gemini_settings import started as started
from kern.agents.gemini_stream import act as act
from kern.agents.gemini_stream import fault as fault
from kern.agents.gemini_stream import refused as refused
from kern.agents.gemini_stream import replied
from kern.agents.protocol import Launch, Reply
from kern.agents.transcript import objects as objects
from kern.model import Role, Stage

NAME = PROGRAM = "gemini"
VARIABLE = "KERN_GEMINI"
OLDEST: tuple[int, ...] = (0, 61, 0)
TAKES_CONTRACT = False  # a file for it would stand in the place of gemini's own system prompt
RUNS_GATES = False
TRIAL: tuple[str, ...] = ()
READS_GUIDANCE = False

_READ = ("read_file", "list_directory", "glob", "grep_search")
_TOOLS: Mapping[Role, tuple[str, ...]] = {Stage.RESEARCH: (*_READ, "google_web_search")}
_ALL = (
    *(*_READ, "run_shell_command", "write_file", "replace", "google_web_search", "web_fetch"),
    "invoke_agent",
)
_HARMLESS = ("update_topic",)
_POLICY = "gemini-policy.toml"
# Patterns within patterns it takes for dangerous, and leaves the rule out.
_KEPT = (r'"file_path":"(SPEC|LEARNINGS)\.md"', r'"file_path":"[^"]*/(SPEC|LEARNINGS)\.md"')
_GIT = ("git (commit|push)", "git -[^;&|]* (commit|push)")
# A project's .env is read whatever the flags; it sets no variable that is there already.
_CLOSED = {
    **{"GEMINI_SYSTEM_MD": "0", "GOOGLE_GEMINI_BASE_URL": "", "GOOGLE_VERTEX_BASE_URL": ""},
    **{"CODE_ASSIST_ENDPOINT": "", "GEMINI_SANDBOX": "false", "GEMINI_SANDBOX_PROXY_COMMAND": ""},
    **{"HTTPS_PROXY": "", "https_proxy": "", "HTTP_PROXY": "", "http_proxy": ""},
    **{"NODE_EXTRA_CA_CERTS": "", "NODE_TLS_REJECT_UNAUTHORIZED": "1"},
}


def unheld(role: Role) -> str:
    """Its policies hold the forms that were tried, and it takes a shell's text apart to do so."""
    return "its rules for a shell compare words" if role is Stage.COMMIT else ""


def files(launch: Launch) -> Mapping[str, str]:
    return {_POLICY: _policy(launch.role), gemini_preload.NAME: gemini_preload.source(launch)}


def _policy(role: Role) -> str:
    """As an administrator's, these come before all others."""
    if role is not Stage.IMPLEMENT:
        return _rule("allow", 500, [*tools(role), *_HARMLESS]) + _rule("deny", 400, ["*"])
    why = "kern writes this file"
    rules = [
        _rule("deny", 500, ["write_file", "replace"], argsPattern=form, denyMessage=why)
        for form in _KEPT
    ]
    for form in (where + git for git in _GIT for where in ("", ".*[ ;&|({/]")):
        why = "kern commits, and nothing is pushed"
        rules.append(_rule("deny", 500, ["run_shell_command"], commandRegex=form, denyMessage=why))
    return "".join(rules)


def _rule(decision: str, priority: int, names: list[str], **more: str) -> str:
    """A JSON string is one of TOML."""
    name = json.dumps(names if len(names) > 1 else names[0])
    rest = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    return f'[[rule]]\ntoolName = {name}\ndecision = "{decision}"\npriority = {priority}\n{rest}\n'


def tools(role: Role) -> tuple[str, ...]:
    return _ALL if role is Stage.IMPLEMENT else _TOOLS.get(role, _READ)


def argv(launch: Launch) -> list[str]:
    """Without trust in the folder it would not start."""
    free = launch.role is Stage.IMPLEMENT
    model = ("--model", launch.model) if launch.model else ()
    mode = ("--approval-mode", "yolo" if free else "default")
    sealed = () if free and not launch.bare else ("--allowed-mcp-server-names", "kern-none")
    policy = ("--admin-policy", f"{launch.folder}/{_POLICY}")
    return ["-o", "stream-json", "--skip-trust", *model, *mode, *policy, *sealed]


def environment(launch: Launch) -> dict[str, str]:
    """Where a folder is not trusted when it begins, the project's settings do not count. It starts
    itself anew as a child, unless it is told not to.
    """
    free = launch.role is Stage.IMPLEMENT and not launch.bare
    closed = {} if free else {name: launch.given.get(name, own) for name, own in _CLOSED.items()}
    beside = extension.url(launch, gemini_preload.NAME)
    return {
        **closed,
        "GEMINI_CLI_TRUST_WORKSPACE": "true" if free else "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "NODE_OPTIONS": f"{launch.given.get('NODE_OPTIONS', '')} --import={beside}".strip(),
    }


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
    return replied(seen, (*tools(role), *_HARMLESS), reads=role is not Stage.IMPLEMENT)
