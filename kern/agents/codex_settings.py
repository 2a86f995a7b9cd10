"""Which files Codex obeys and needs, what holds the commands of its shell, and who pays."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kern.agents.protocol import SUBSCRIPTION, Payer
from kern.model import Needs

STATUS: tuple[str, ...] = ("login", "status")
FILES: tuple[str, ...] = (".codex/config.toml", ".codex/hooks.json")
# Below its folder: what the next session obeys.
_OBEYED = ("config.toml", "AGENTS.md", "hooks.json", "rules", "skills", "plugins", "prompts")
_HOSTS = ("api.openai.com", "auth.openai.com", "chatgpt.com", "*.chatgpt.com")


def confinement(
    write: Iterable[str], keep: Iterable[str], hide: Iterable[str], hosts: Sequence[str] | None
) -> str:
    """A profile of its sandbox, as TOML. The deepest path counts."""
    places = {":root": "read", **dict.fromkeys(write, "write")}
    places |= {**dict.fromkeys(keep, "read"), **dict.fromkeys(hide, "deny")}
    listed = ",".join(f"{quoted(path)}={quoted(access)}" for path, access in places.items())
    named = ",".join(f'{quoted(host)}="allow"' for host in hosts or ())
    network = "enabled=true" if hosts is None else f"enabled=true,domains={{{named}}}"
    return f"{{filesystem={{{listed}}},network={{{network if hosts != () else 'enabled=false'}}}}}"


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


def needs(env: Mapping[str, str], home: str) -> Needs:
    """Where it keeps its login, which it renews, and its records, without which it does not start.
    The hosts of a provider of one's own stand in its settings: a person names them to kern.
    """
    folder = env.get("CODEX_HOME") or f"{home}/.codex"
    obeyed = tuple(f"{folder}/{name}" for name in _OBEYED)
    return Needs((folder,), obeyed, ("CODEX_", "OPENAI_"), _HOSTS)


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
