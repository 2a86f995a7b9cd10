"""Gemini CLI, called as `gemini -o stream-json`: policies that bind, and what it prints.

Facts measured with 0.61.0 against a scripted API.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kern.agents import extension, faults, protocol
from kern.agents import result as results
from kern.agents.protocol import SUBSCRIPTION, Ended, Fault, Grade, Launch, Payer, Reply
from kern.agents.transcript import objects as objects
from kern.model import Act, Needs, Role, Stage

NAME = PROGRAM = "gemini"
VARIABLE = "KERN_GEMINI"
INSTALL = "npm install -g @google/gemini-cli"
LOGIN = "run `gemini` by hand and log in, or set GEMINI_API_KEY; then run kern again"
OLDEST: tuple[int, ...] = (0, 61, 0)
FILES: tuple[str, ...] = (".gemini/", ".env")
STATUS: tuple[str, ...] = ()  # it has no such command
TAKES_CONTRACT = False  # a file for it would stand in the place of gemini's own system prompt
RUNS_GATES = False
READS_GUIDANCE = False
unattended = protocol.anybody

_READ = ("read_file", "list_directory", "glob", "grep_search")
_TOOLS: Mapping[Role, tuple[str, ...]] = {Stage.RESEARCH: (*_READ, "google_web_search")}
_ALL = (
    *(*_READ, "run_shell_command", "write_file", "replace", "google_web_search", "web_fetch"),
    "invoke_agent",
)
_HARMLESS = ("update_topic",)
_BESIDE, _POLICY = "gemini-preload.mjs", "gemini-policy.toml"
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
_REFUSALS = ("tool_not_registered", "policy_violation", "execution_denied")
_TRIES = 3  # of gemini's own, after which kern asks again by itself
_NO_LOGIN = 41  # exit code
_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_OBEYED = (
    *("settings.json", "GEMINI.md", "trustedFolders.json", ".env", "policies", "commands"),
    *("extensions", "skills", "agents", "hooks", "trusted_hooks.json"),
)
_PROGRAMS = ("hooks", "mcpServers", "mcp", "tools", "extensions", "env", "security", "advanced")
_HOSTS = ("*.googleapis.com", "accounts.google.com", "oauth2.googleapis.com", "*.google.com")


def unheld(role: Role) -> str:
    return ""


def files(launch: Launch) -> Mapping[str, str]:
    beside = extension.source(launch, "gemini.js", launch.given.get("NODE_OPTIONS", ""))
    return {_POLICY: _policy(launch.role), _BESIDE: beside}


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
    sealed = () if free else ("--allowed-mcp-server-names", "kern-none")
    policy = ("--admin-policy", f"{launch.folder}/{_POLICY}")
    return ["-o", "stream-json", "--skip-trust", *model, *mode, *policy, *sealed]


def environment(launch: Launch) -> dict[str, str]:
    """Where a folder is not trusted when it begins, the project's settings do not count. It starts
    itself anew as a child, unless it is told not to.
    """
    free = launch.role is Stage.IMPLEMENT
    closed = {} if free else {name: launch.given.get(name, own) for name, own in _CLOSED.items()}
    beside = extension.url(launch, _BESIDE)
    return {
        **closed,
        "GEMINI_CLI_TRUST_WORKSPACE": "true" if free else "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "NODE_OPTIONS": f"{launch.given.get('NODE_OPTIONS', '')} --import={beside}".strip(),
    }


# -------------------------------------------------------------------- what it prints


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


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
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
                    complaint = str(value.get("output"))[-results.COMPLAINT :]
                    if results.part(value, "error").get("type") in _REFUSALS:
                        denied[name] = None
                elif name not in (*tools(role), *_HARMLESS):
                    wrote[name] = None
            case "error" if value.get("severity") != "warning":
                errors.append(str(value.get("message")))
            case "result":
                result = value
    if result is None:
        return None
    if result.get("status") == "error":
        errors.append(str(results.part(result, "error").get("message")))
    text = "".join(texts)
    made = results.made(
        text,
        session=session,
        tokens=_tokens(result),
        model=model,
        errors=errors[-1:] if result.get("status") == "error" or not text else (),
        status=result.get("status"),
        at=_time(result.get("timestamp")),
    )
    held = () if role is Stage.IMPLEMENT else tuple(wrote)
    return replace(results.reply(made), denied=tuple(denied), complaint=complaint, wrote=held)


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


# -------------------------------------------------------------------- what it obeys and needs


def login(code: int, said: str) -> str | None:
    return None


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    """A key of the environment, else the login; a project's .env may name a key as well."""
    key = next((name for name in _KEYS if env.get(name)), "")
    if key:
        return Payer(f"the key in {key}, by use")
    places = (f"{root}/.gemini/.env", f"{root}/.env")
    named = next((n for n in _KEYS for p in places if re.search(rf"^\s*{n}=\S", text(p), re.M)), "")
    warning = f"the project's .env holds {named}: gemini takes it" if named else ""
    logged_in = '"refresh_token"' in text(f"{_folder(env, home)}/oauth_creds.json")
    return Payer(f"{SUBSCRIPTION} that gemini is logged in to" if logged_in else "", warning)


def needs(env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
    folder = _folder(env, home)
    settings = [f"{folder}/{name}" for name in _OBEYED]
    settings += (f"{home}/.agents/skills", *protocol.paths(env, "GOOGLE_APPLICATION_CREDENTIALS"))
    named = protocol.host(env.get("GOOGLE_GEMINI_BASE_URL", ""))
    return Needs(
        (f"{folder}/oauth_creds.json",),
        tuple(settings),
        variables=("GEMINI_", "GOOGLE_", "CODE_ASSIST_", "NODE_OPTIONS", *_CLOSED),
        hosts=(*_HOSTS, *([named] if named else [])),
    )


def started(found: Mapping[str, bytes]) -> list[str]:
    """Of the settings what can name a program; of an .env the names that it sets."""
    lines = []
    for name, data in sorted(found.items()):
        if name.endswith(".env"):
            set_here = re.findall(rb"^\s*(?:export\s+)?(\w+)\s*=", data, re.M)
            names = ", ".join(one.decode() for one in set_here)
            lines += [f"{name} sets for gemini: {names}"] if names else []
        elif name.endswith(".json"):
            lines += results.programs(name, data, _PROGRAMS, "gemini")
    return lines


def _folder(env: Mapping[str, str], home: str) -> str:
    return f"{env.get('GEMINI_CLI_HOME') or home}/.gemini"
