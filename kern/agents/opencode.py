"""opencode, called as `opencode run` with a plugin of kern's own: rules that bind, and what it
prints.

Facts measured with 1.18.33 against a scripted API.
"""

import json
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

NAME = PROGRAM = "opencode"
VARIABLE = "KERN_OPENCODE"
INSTALL = "npm install -g opencode-ai"
LOGIN = "run `opencode auth login`, or set a provider's key; then run kern again"
OLDEST: tuple[int, ...] = (1, 18, 0)
FILES: tuple[str, ...] = ("opencode.json", "opencode.jsonc", ".opencode/")
STATUS: tuple[str, ...] = ("auth", "list")
TAKES_CONTRACT = True
RUNS_GATES = False
READS_GUIDANCE = False
unattended = protocol.anybody

_AGENT = "kern"  # a role of its own: what a person allows their own roles does not count
_READ = ("read", "grep", "glob", "list")
_TOOLS: Mapping[Role, tuple[str, ...]] = {Stage.RESEARCH: (*_READ, "webfetch", "websearch")}
_ALL = ("bash", "read", "edit", "write", "grep", "glob", "list", "webfetch", "websearch", "task")
# What would have to be asked is refused, and that ends the run: so nothing is left to ask.
_RULES_OF_IMPLEMENT = {
    **{"*": "allow", "question": "deny", "plan_enter": "deny", "plan_exit": "deny"},
    "edit": {"*": "allow", "SPEC.md": "deny", "LEARNINGS.md": "deny"},
}
_OFF = (
    *("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "TERMINAL_TITLE"),
    *("CLAUDE_CODE", "EXTERNAL_SKILLS", "EMBEDDED_WEB_UI"),
)
_BESIDE = "opencode-plugin.js"
_OFFLINE = "npm_config_offline"  # of npm, for the start alone
_REFUSALS = ("prevents you from using", "unavailable tool", "outside of the working tree")
_TRIES = 3  # of opencode's own, after which kern asks again by itself
_OBEYED = (
    *("opencode.json", "opencode.jsonc", "config.json", "tui.json", "AGENTS.md", "package.json"),
    *("agent", "agents", "command", "commands", "mode", "modes", "plugin", "plugins", "skill"),
    *("skills", "tool", "tools", "themes", "node_modules"),
)
# Below its folder for caches: packages and tools, without which it would have to fetch them.
_FETCHED = ("package.json", "node_modules", "packages", "bin")
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
_PROGRAMS = ("mcp", "plugin", "formatter", "lsp", "provider", "command", "agent", "permission")
_CODE = re.compile(r"\.opencode/(?:plugins?|tools?)/|\.opencode/package\.json$")


def unheld(role: Role) -> str:
    return ""


def files(launch: Launch) -> Mapping[str, str]:
    return {_BESIDE: extension.source(launch, "opencode.js", launch.given.get(_OFFLINE, ""))}


def tools(role: Role) -> tuple[str, ...]:
    return _ALL if role is Stage.IMPLEMENT else _TOOLS.get(role, _READ)


def argv(launch: Launch) -> list[str]:
    """With a title it needs not ask a model for one."""
    model = ("--model", launch.model) if launch.model else ()
    effort = ("--variant", launch.effort) if launch.effort else ()
    plain = ("run", "--format", "json", "--title", "kern", "--agent", _AGENT)
    return [*plain, *model, *effort]


def environment(launch: Launch) -> dict[str, str]:
    """The rules stand at the top as well: to a role that it does not find it prefers another."""
    implements = launch.role is Stage.IMPLEMENT
    offered: dict[str, object] = {"*": "deny", **dict.fromkeys(tools(launch.role), "allow")}
    rules = _RULES_OF_IMPLEMENT if implements else offered
    config = {
        **{"snapshot": False, "share": "disabled", "autoupdate": False, "permission": rules},
        "plugin": [extension.url(launch, _BESIDE)],
        "instructions": [launch.contract] if launch.contract else [],
        "agent": {_AGENT: {"mode": "primary", "description": "kern", "permission": rules}},
    }
    theirs = results.parsed(launch.given.get("OPENCODE_CONFIG_CONTENT", "").encode())
    sealed = {} if implements else {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
    patient = {"OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": str(round(1000 * launch.patience))}
    return {
        **{f"OPENCODE_DISABLE_{what}": "1" for what in _OFF},
        **sealed,
        **(patient if launch.patience else {}),
        _OFFLINE: "true",
        "OPENCODE_CONFIG_CONTENT": json.dumps(theirs | config),
    }


# -------------------------------------------------------------------- what it prints


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


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
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
                    complaint = str(state.get("error"))[-results.COMPLAINT :]
                    if any(word in complaint for word in _REFUSALS):
                        denied[name] = None
                elif name not in tools(role):
                    wrote[name] = None
    if not steps and not errors:
        return None
    price = sum(results.number(step.get("cost")) for step in steps) or None
    told = [_told(error) for error in errors]
    result = results.made(
        "\n".join(texts),
        cost=price,  # a model without prices costs 0 in its eyes
        turns=len(steps),
        session=session,
        tokens=results.added([_tokens(step) for step in steps]),
        errors=[one for one in told if "Unexpected server error" not in one][:1] or told[:1],
        stop_reason=str(steps[-1].get("reason")) if steps else "",
        fault=errors[0] if errors else {},
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


# -------------------------------------------------------------------- what it obeys and needs


def login(code: int, said: str) -> str | None:
    """A key in its configuration is not among them, and some models need none."""
    counts = re.findall(r"(\d+) (?:credential|environment variable)", said)
    known = sum(map(int, counts))
    return f"opencode's own word: {known} logins" if known and code == 0 else None


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    return vendors.payer(NAME, text(f"{_data(env, home)}/auth.json"), env)


def needs(env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
    config = f"{env.get('XDG_CONFIG_HOME') or f'{home}/.config'}/opencode"
    cache = f"{env.get('XDG_CACHE_HOME') or f'{home}/.cache'}/opencode"
    settings = [f"{config}/{name}" for name in _OBEYED]
    settings += [f"{cache}/{name}" for name in _FETCHED]
    models = f"{cache}/models.json"  # an empty one in its place would end it
    settings += [models] if text(models) else []
    own = "".join(text(f"{config}/{name}") for name in _OBEYED[:3])
    return Needs(
        (f"{_data(env, home)}/auth.json",),
        tuple(settings),
        variables=(
            *("OPENCODE_", *_FOLDERS, _OFFLINE, "AWS_", "GOOGLE_", *vendors.KEYS),
            *re.findall(r"\{env:(\w+)\}", own),
        ),
        hosts=(*vendors.HOSTS, "models.dev", "registry.npmjs.org", *protocol.endpoints(own)),
    )


def started(found: Mapping[str, bytes]) -> list[str]:
    """Plugins and tools are programs; of the configuration what can name one."""
    lines = []
    for name, data in sorted(found.items()):
        if _CODE.match(name):
            lines.append(f"{name} is code, which opencode runs ({digest(data)})")
        elif name.endswith((".json", ".jsonc")):
            lines += results.programs(name, data, _PROGRAMS, "opencode")
    return lines


def _data(env: Mapping[str, str], home: str) -> str:
    return f"{env.get('XDG_DATA_HOME') or f'{home}/.local/share'}/opencode"
