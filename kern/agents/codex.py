"""Codex, called as `codex exec --json`: its sandbox as the limits of a role, and its output.

Facts measured with 0.169.0 against a scripted Responses API; see `kern help settings`.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from kern.agents import faults, protocol
from kern.agents import result as results
from kern.agents.protocol import SUBSCRIPTION, Ended, Fault, Grade, Launch, Payer, Reply
from kern.agents.transcript import objects as objects
from kern.model import Act, Aide, Needs, Role, Stage

NAME = PROGRAM = "codex"
VARIABLE = "KERN_CODEX"
INSTALL = "npm install -g @openai/codex"
LOGIN = "run `codex login`, or name a provider in ~/.codex/config.toml; then run kern again"
OLDEST: tuple[int, ...] = (0, 160, 0)
FILES: tuple[str, ...] = (".codex/config.toml", ".codex/hooks.json")
STATUS: tuple[str, ...] = ("login", "status")
TAKES_CONTRACT = False  # an instructions file would replace its own
RUNS_GATES = False
READS_GUIDANCE = False  # AGENTS.md, which kern hands over with CLAUDE.md
unattended = protocol.anybody
refused = protocol.patient

# Without these flags a person's own settings could ask questions that nobody answers, and rules of
# the project or the person could let a command run outside of the sandbox. What a person's servers
# offer beside tools that only read is refused wherever a sandbox holds.
_COMMON = (
    *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--ignore-rules"),
    *("-c", 'approval_policy="never"', "-c", "project_doc_max_bytes=0"),
    *("-c", "features.goals=false"),
)
_SEALED = ("-c", "skills.include_instructions=false")
_LEAN = ("-c", "features.multi_agent=false", "-c", 'web_search="disabled"')
_READING, _OPEN = ("-s", "read-only"), ("-s", "danger-full-access")
_SMALL = (Stage.COMMIT, Aide.JUDGE)
# Begins what a command prints that could not be put into its sandbox.
_NO_SANDBOX = ("bwrap: ", "linux-sandbox/src")
_LONGEST = 300  # characters of what a call was given
_CALLS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")
# Below its folder: what the next session obeys.
_OBEYED = (
    *("config.toml", "environments.toml", ".env", "AGENTS.md", "AGENTS.override.md", "hooks.json"),
    *("agents", "rules", "skills", "plugins", "prompts"),
)
_HOSTS = ("api.openai.com", "auth.openai.com", "chatgpt.com", "*.chatgpt.com")
_LIMIT = re.compile(r"hit your usage limit|usage limit has been reached|quota exceeded", re.I)
_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})", re.I)
# In its own words, where the API's are not passed on.
_NO_KEY = re.compile(r"not logged in|missing environment variable|(?:access|refresh) token", re.I)
_UNPAID = re.compile(r"to use codex with your", re.I)
_FULL = re.compile(r"out of room in the model's context", re.I)
_PASSES = re.compile(r"high demand|at capacity|stream disconnected", re.I)
_CLOCK = re.compile(
    r"try again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th),? (\d{4}),? )?"
    r"(\d{1,2}):(\d\d) ([AP])M"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def unheld(role: Role) -> str:
    return ""


def files(launch: Launch) -> Mapping[str, str]:
    return {}


def tools(role: Role) -> tuple[str, ...]:
    if role is Stage.IMPLEMENT:
        return "shell", "apply_patch", "web_search"
    return ("shell (read-only)",) if role in _SMALL else ("shell (read-only)", "web_search")


def argv(launch: Launch) -> list[str]:
    """Implement has all that kern's sandbox leaves it, and so has a role that reads where a sandbox
    of its own cannot be within kern's.
    """
    sealed = launch.role is not Stage.IMPLEMENT
    held = _READING if sealed and launch.nests else _OPEN
    level = {"max": "xhigh"}.get(launch.effort, launch.effort)
    # As a project that the person does not trust: neither its settings nor its hooks and servers
    # count, while the person's own provider and login do.
    strange = f'projects={{{quoted(launch.root)}={{trust_level="untrusted"}}}}'
    return [
        *_COMMON,
        *(("-m", launch.model) if launch.model else ()),
        *(("-c", f'model_reasoning_effort="{level}"') if level else ()),
        *held,
        *(("-c", strange) if sealed else ()),
        *(_SEALED if sealed else ()),
        *(_LEAN if launch.role in _SMALL else ()),
    ]


def environment(launch: Launch) -> dict[str, str]:
    return {}


# -------------------------------------------------------------------- what it prints


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
    """Its last message is the answer. It names no cost and no version, and the tokens of the main
    thread alone.
    """
    text = failed = session = complaint = ""
    tokens: dict[str, int] = {}
    ended = works = False
    errors: list[str] = []
    for value in seen:
        item = results.part(value, "item")
        match value.get("type"):
            case "thread.started":
                session = str(value.get("thread_id") or "")
            case "item.completed" if item.get("type") == "agent_message":
                text = str(item.get("text") or "")
            case "item.completed" if item.get("type") == "command_execution":
                works = works or item.get("exit_code") == 0
                if item.get("exit_code"):
                    complaint = str(item.get("aggregated_output") or "")[-results.COMPLAINT :]
                    errors += [sign for sign in _NO_SANDBOX if sign in complaint[:200]]
            case "turn.completed":
                ended, failed, tokens = True, "", _tokens(results.part(value, "usage"))
            case "turn.failed":
                error = results.part(value, "error")
                ended, failed = True, str(error.get("message") or "no reason given")
    if not ended:
        return None
    when = began(session) if failed else None
    wrong = [failed] if failed else []
    result = results.made(failed or text, session=session, tokens=tokens, errors=wrong)
    return replace(
        results.reply(result),
        complaint=complaint,
        errors=() if works else tuple(errors),
        resets_at=resets_at(failed, when) if when else None,
    )


def _tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """By kind, none counted twice: what it calls input has what came from the cache in it."""
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
    asked, answered, cached, stored = (results.whole(usage.get(name)) for name in names)
    counts = {"input": max(asked - cached - stored, 0), "output": answered}
    return counts | {"cache_creation_input": stored, "cache_read_input": cached}


def act(line: bytes) -> Act | None:
    value = results.parsed(line)
    item = results.part(value, "item")
    kind = item.get("type")
    if value.get("type") == "turn.completed":
        return Act("turn", (), _tokens(results.part(value, "usage")))
    seen = "item.completed" if kind == "file_change" else "item.started"  # it has no beginning
    if value.get("type") != seen or kind not in _CALLS:
        return None
    return Act(str(item.get("id") or ""), (_call(str(kind), item)[:_LONGEST],), {})


def _call(kind: str, item: Mapping[str, Any]) -> str:
    if kind == "command_execution":
        return f"shell {_unwrapped(str(item.get('command') or ''))}"
    if kind == "file_change":
        paths = [str(one.get("path")) for one in results.parts(item, "changes")]
        return f"apply_patch {' '.join(paths)}"
    return f"{kind} {item.get('query') or item.get('tool') or ''}".strip()


def _unwrapped(command: str) -> str:
    """The words within `/bin/bash -lc '…'`."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else command


# -------------------------------------------------------------------- what went wrong


def fault(reply: Reply | None, ended: Ended) -> Fault | None:
    """Classify what went wrong, None for a sound reply. It tells in words alone, and none of them
    has a status.
    """
    if reply is None:
        return _no_reply(ended)
    if reply.errors:
        last = next(reversed(reply.complaint.strip().splitlines()), "")
        return Fault(
            Grade.PERMANENT,
            f"codex's own sandbox does not work here: {last}",
            "install bubblewrap, allow user namespaces, and keep CODEX_HOME out of /tmp",
        )
    if not reply.result.get("is_error"):
        return None
    said = plain_words(reply.text)
    if _LIMIT.search(said):
        return Fault(Grade.LIMIT, said, resets_at=reply.resets_at)
    if _PASSES.search(said):
        return faults.passing(said)
    if _NO_KEY.search(said):
        return Fault(Grade.PERMANENT, f"codex is not logged in: {said}", LOGIN)
    if _UNPAID.search(said):
        hint = "see to the account, then run kern again"
        return Fault(Grade.PERMANENT, f"the account cannot pay: {said}", hint)
    if _FULL.search(said):
        return Fault(Grade.FAILED, f"the agent's context is full: {said}")
    told = _STATUS.search(said)
    # The API's JSON is passed on where the API will not take the request.
    status = int(told[1]) if told else 400 if said != reply.text.strip() else None
    return faults.of_api("codex", said, status=status, login=LOGIN)


def plain_words(message: str) -> str:
    """The message within the API's JSON, where it is that."""
    try:
        value = json.loads(message)
        return str(value["error"]["message"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return message.strip()


def resets_at(said: str, began: datetime) -> int | None:
    """Epoch seconds of `try again at 7:56 PM`, or with a date before it: the end of that minute.
    `began`: when the agent was started, in the time zone that it speaks in.
    """
    match = _CLOCK.search(said)
    if not match or match[1] not in (None, *_MONTHS):
        return None
    month, day, year, hour, minute, half = match.groups()
    try:
        at = began.replace(
            hour=int(hour) % 12 + 12 * (half == "P"), minute=int(minute), second=0, microsecond=0
        ) + timedelta(minutes=1)
        if month:
            at = at.replace(year=int(year), month=_MONTHS.index(month) + 1, day=int(day))
        elif at <= began:
            at += timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    return int(at.timestamp())


def began(session: str) -> datetime | None:
    """When a session began: its id is a UUID of version 7, which has the time in it."""
    digits = session.replace("-", "")
    if not re.fullmatch(r"[0-9a-f]{12}7[0-9a-f]{19}", digits):
        return None
    try:
        return datetime.fromtimestamp(int(digits[:12], 16) / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _no_reply(ended: Ended) -> Fault:
    told = next((one for one in ended.stderr.splitlines() if one.lower().startswith("error")), "")
    if "unexpected argument" in told or "unrecognized subcommand" in told:
        oldest = ".".join(map(str, OLDEST))
        said = f"kern needs codex {oldest} or newer: {INSTALL}"
        return Fault(Grade.PERMANENT, f"this codex does not know what kern asks: {told}", said)
    if "exceeds the maximum length" in told:
        return Fault(Grade.FAILED, f"the prompt is too long for codex: {told}")
    if told and ended.code > 0 and not ended.overflow:
        return Fault(Grade.PERMANENT, f"codex refused to start: {told}", "kern doctor")
    return faults.unanswered("codex", ended, login=LOGIN)


# -------------------------------------------------------------------- what it obeys and needs


def login(code: int, said: str) -> str | None:
    """By what `codex login status` prints. It knows the login alone, no provider's own key."""
    if "Not logged in" in said:
        return ""
    if code:
        return None
    return "ChatGPT" if "ChatGPT" in said else "an API key" if "API key" in said else "a login"


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    """`codex exec` takes the provider that its settings name, else CODEX_API_KEY, else the login.
    Of the login only its kind is looked at.
    """
    folder = env.get("CODEX_HOME") or f"{home}/.codex"
    try:
        settings = tomllib.loads(text(f"{folder}/config.toml"))
    except (tomllib.TOMLDecodeError, RecursionError):
        settings = {}
    if (provider := settings.get("model_provider", "openai")) != "openai":
        return Payer(f"the provider {provider} of {folder}/config.toml")
    if env.get("CODEX_API_KEY"):
        return Payer("the key in CODEX_API_KEY, by use")
    try:
        kind = table(json.loads(text(f"{folder}/auth.json"))).get("auth_mode")
    except (ValueError, RecursionError):
        return Payer("")
    known = {"chatgpt": f"{SUBSCRIPTION} that codex is logged in to", "apikey": "an API key"}
    return Payer(known.get(str(kind), ""))


def needs(env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
    """With the keys and the hosts of providers of the person's own."""
    folder = env.get("CODEX_HOME") or f"{home}/.codex"
    own = text(f"{folder}/config.toml")
    skills = f"{home}/.agents/skills"  # of several CLIs
    return Needs(
        (f"{folder}/auth.json",),
        (*(f"{folder}/{name}" for name in _OBEYED), skills),
        variables=("CODEX_", "OPENAI_", *re.findall(r'^\s*env_key\s*=\s*"(\w+)"', own, re.M)),
        hosts=(*_HOSTS, *protocol.endpoints(own)),
    )


def started(files: Mapping[str, bytes]) -> list[str]:
    """Of the `FILES` that are there: what codex starts in implement where a person has trusted the
    project, and the hooks, in codex itself.
    """
    found: list[str] = []
    for name, data in sorted(files.items()):
        try:
            text = data.decode()
            value = table(tomllib.loads(text) if name.endswith("toml") else json.loads(text))
        except (ValueError, RecursionError):
            found.append(f"{name} cannot be read; codex may read it otherwise")
            continue
        for event, hooks in table(value.get("hooks")).items():
            found.append(f"{name} hook {event}: {quoted(hooks)}")
        for server, about in table(value.get("mcp_servers")).items():
            found.append(f"{name} server {server}: {quoted(about)}")
        if "notify" in value:
            found.append(f"{name} notify: {quoted(value['notify'])}")
    return found


def quoted(value: object) -> str:
    """As JSON, which is TOML as well: that knows no surrogates."""
    return json.dumps(value, ensure_ascii=False, default=str)


def table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
