"""pi, called as `pi -p` with an extension of kern's own: flags that bind, and what it prints.

Facts measured with 0.74.2 against a scripted API.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kern.agents import extension, faults, protocol, vendors
from kern.agents import result as results
from kern.agents.protocol import Ended, Fault, Grade, Launch, Payer, Reply
from kern.agents.transcript import objects as objects
from kern.model import Act, Needs, Role, Stage
from kern.obeyed import digest

NAME = PROGRAM = "pi"
VARIABLE = "KERN_PI"
INSTALL = "npm install -g @earendil-works/pi-coding-agent"
LOGIN = "run `pi` by hand and type /login, or set a provider's key; then run kern again"
OLDEST: tuple[int, ...] = (0, 74, 0)
FILES: tuple[str, ...] = (".pi/settings.json", ".pi/extensions/")
STATUS: tuple[str, ...] = ("--offline", "--list-models")
TAKES_CONTRACT = True
RUNS_GATES = False
READS_GUIDANCE = False
unattended = protocol.anybody

_TOOLS = ("read", "grep", "find", "ls")
_ALL = ("read", "bash", "edit", "write", "grep", "find", "ls")
_BESIDE = "pi-extension.js"
# A project's extensions run, its skills are told; the empty texts stand in the place of
# its .pi/SYSTEM.md and .pi/APPEND_SYSTEM.md, which are read whatever the flags.
_UNTOUCHED = ("--no-extensions", "--no-skills", "--no-prompt-templates")
_EFFORTS = {"max": "xhigh"}
_KINDS = {"input": "input", "output": "output", "cacheRead": "cache_read_input"}
_KINDS |= {"cacheWrite": "cache_creation_input"}
_LONG_WAIT = 60  # seconds that the API asks for, after which kern asks again by itself
_OBEYED = (
    *("settings.json", "models.json", "keybindings.json", "SYSTEM.md", "APPEND_SYSTEM.md"),
    *("AGENTS.md", "CLAUDE.md", "extensions", "skills", "prompts", "themes", "git", "npm", "bin"),
    *("tools", "hooks", "commands"),
)
_PROGRAMS = ("extensions", "packages", "npmCommand", "shellPath", "shellCommandPrefix")


def unheld(role: Role) -> str:
    return ""


def files(launch: Launch) -> Mapping[str, str]:
    return {_BESIDE: extension.source(launch, "pi.js")}


def tools(role: Role) -> tuple[str, ...]:
    return _ALL if role is Stage.IMPLEMENT else _TOOLS


def argv(launch: Launch) -> list[str]:
    free = launch.role is Stage.IMPLEMENT
    model = ("--model", launch.model) if launch.model else ()
    effort = ("--thinking", _EFFORTS.get(launch.effort, launch.effort)) if launch.effort else ()
    told = ("--append-system-prompt", launch.contract)
    said = told if free and launch.contract else () if free else ("--system-prompt", "", *told)
    beside = ("--extension", f"{launch.folder}/{_BESIDE}")
    offered = ("--tools", ",".join(tools(launch.role)))
    rules = () if free else _UNTOUCHED
    plain = ("-p", "--mode", "text", "--no-session", "--no-context-files")
    return [*plain, *model, *effort, *offered, *rules, *beside, *said]


def environment(launch: Launch) -> dict[str, str]:
    """It would fetch packages that a project names, and look for a newer self."""
    return {"PI_OFFLINE": "1"}


# -------------------------------------------------------------------- what it prints


def act(line: bytes) -> Act | None:
    message = _message(results.parsed(line))
    if message.get("role") != "assistant":
        return None
    parts = results.parts(message, "content")
    asked = [part for part in parts if part.get("type") == "toolCall"]
    calls = tuple(results.call(part.get("name"), part.get("arguments")) for part in asked)
    return Act(str(message.get("responseId") or message.get("timestamp")), calls, _tokens(message))


def refused(line: bytes) -> Fault | None:
    """The API wants it to wait for long: pi would, without a word."""
    value = results.parsed(line)
    after, at = value.get("after"), value.get("at")
    if value.get("type") != "refused" or not isinstance(after, int) or not isinstance(at, int):
        return None
    if after <= _LONG_WAIT:
        return None
    said = f"the API answers {value.get('status')} and asks to wait for {after} s"
    return Fault(Grade.LIMIT, said, resets_at=at + after)


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
    """The messages that the extension printed. Of the agent's the last counts; a request that was
    tried again is one as well.
    """
    mark, session, version = "", "", ""
    said: list[Mapping[str, Any]] = []
    denied: dict[str, None] = {}
    wrote: dict[str, None] = {}
    complaint = ""
    for value in seen:
        mark = mark or str(value.get("kern") or "")
        if value.get("kern") != mark:
            continue
        if value.get("type") == "session":
            session, version = str(value.get("id") or ""), str(value.get("version") or "")
        message = _message(value)
        if message.get("role") == "assistant":
            said.append(message)
        elif message.get("role") == "toolResult":
            name, failed = str(message.get("toolName")), bool(message.get("isError"))
            text = _text(message)
            complaint = text[-results.COMPLAINT :] if failed else complaint
            if failed and (text == f"Tool {name} not found" or "outside of the working" in text):
                denied[name] = None
            elif not failed and name not in tools(role):
                wrote[name] = None
    if not said:
        return None
    last = said[-1]
    costs = [results.part(results.part(message, "usage"), "cost") for message in said]
    price = sum(results.number(cost.get("total")) for cost in costs) or None
    reason = str(last.get("stopReason"))
    wrong = [str(last.get("errorMessage") or reason)] if reason not in ("stop", "toolUse") else []
    result = results.made(
        _text(last),
        cost=price,  # a model without prices costs 0 in its eyes
        turns=len(said),
        session=session,
        tokens=results.added([_tokens(message) for message in said]),
        model=str(last.get("model") or ""),
        errors=wrong,
        stop_reason=reason,
        at=results.number(last.get("timestamp")) / 1000,
    )
    held = () if role is Stage.IMPLEMENT else tuple(wrote)
    return replace(
        results.reply(result),
        version=version,
        denied=tuple(denied),
        complaint=complaint,
        wrote=held,
    )


def fault(reply: Reply | None, ended: Ended) -> Fault | None:
    """Its exit code follows how the last message ended."""
    if reply is None:
        return faults.unanswered(NAME, ended, login=LOGIN)
    match reply.result.get("stop_reason"):
        case "stop" if ended.code >= 0:
            return None
        case "error":
            said, at = results.said(reply.result), results.number(reply.result.get("at"))
            return faults.of_api(NAME, said, login=LOGIN, at=at)
        case "length":
            return Fault(Grade.FAILED, "the agent's answer was cut at its longest")
        case _:
            return Fault(Grade.TRANSIENT, "the agent was interrupted")


def _message(value: Mapping[str, Any]) -> dict[str, Any]:
    return results.part(value, "message") if value.get("type") == "message" else {}


def _text(message: Mapping[str, Any]) -> str:
    parts = [part for part in results.parts(message, "content") if part.get("type") == "text"]
    return "\n".join(str(part.get("text")) for part in parts)


def _tokens(message: Mapping[str, Any]) -> dict[str, int]:
    usage = results.part(message, "usage")
    return {kind: results.whole(usage.get(name)) for name, kind in _KINDS.items()}


# -------------------------------------------------------------------- what it obeys and needs


def login(code: int, said: str) -> str | None:
    """By the models that it could ask."""
    if "No models available" in said:
        return ""
    rows = [line.split() for line in said.splitlines()]
    named = [row[0] for row in rows if len(row) == 6 and row[-1] in ("yes", "no")]
    return f"pi's own word: {', '.join(dict.fromkeys(named))}" if named and code == 0 else None


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    return vendors.payer(NAME, text(f"{_folder(env, home)}/auth.json"), env)


def needs(env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
    """With the keys and the hosts of providers of the person's own."""
    folder = _folder(env, home)
    own = text(f"{folder}/models.json")
    keys = [name for name in re.findall(r'"apiKey"\s*:\s*"(\w+)"', own) if name in env]
    return Needs(
        (f"{folder}/auth.json",),
        (*(f"{folder}/{name}" for name in _OBEYED), f"{home}/.agents/skills"),
        variables=("PI_", "AWS_", "GOOGLE_", *vendors.KEYS, *keys),
        hosts=(*vendors.HOSTS, *protocol.endpoints(own)),
    )


def started(found: Mapping[str, bytes]) -> list[str]:
    """An extension is a program; of the settings those that name one."""
    lines = []
    for name, data in sorted(found.items()):
        if not name.endswith("settings.json"):
            lines.append(f"{name} is an extension, which pi runs ({digest(data)})")
            continue
        lines += results.programs(name, data, _PROGRAMS, "pi")
    return lines


def _folder(env: Mapping[str, str], home: str) -> str:
    return env.get("PI_CODING_AGENT_DIR") or f"{home}/.pi/agent"
