"""Which files Claude Code obeys and needs: what a project's own make it start, what it has to reach
to work at all, and who pays: names and places are read and said, never a secret.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kern.agents import claude_stop_hook, protocol
from kern.agents import result as results
from kern.agents.protocol import SUBSCRIPTION, Payer
from kern.model import Needs

FILES: tuple[str, ...] = (".claude/settings.json", ".claude/settings.local.json", ".mcp.json")
# Below the configuration folder: what this session and the next obey.
OBEYED = (
    *("settings.json", "settings.local.json", "CLAUDE.md", "agents", "commands", "hooks"),
    *("output-styles", "plugins", "rules", "skills", "workflows"),
)
_COMMANDS = (
    *("apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "gcpAuthRefresh"),
    *("otelHeadersHelper", "statusLine", "fileSuggestion"),
)
# With those that `claude.environment` sets.
_VARIABLES = (
    *("ANTHROPIC_", "CLAUDE_", "API_TIMEOUT_MS", "MAX_THINKING_TOKENS", "MCP_TIMEOUT"),
    *("BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_TIMEOUT_MS", claude_stop_hook.VARIABLE),
    *("DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"),
)
_HOSTS = ("*.anthropic.com", "claude.ai", "*.claude.ai", "*.claude.com", "api.anthropic.com")
_LOGGED_IN = ('"claudeAiOauth"', '"oauthAccount"')  # what `claude` stores at a login
_KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
_CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
}


def needs(env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
    """Measured: the login of a subscription is `.credentials.json` alone, the key of a login to the
    console stands in `.claude.json`, beside histories and servers; without one claude makes it.
    """
    named = env.get("CLAUDE_CONFIG_DIR")
    folder = named or f"{home}/.claude"
    account = f"{folder if named else home}/.claude.json"
    login = [f"{folder}/.credentials.json"]
    settings = [f"{folder}/{name}" for name in OBEYED]
    variables, hosts = [*_VARIABLES], [*_HOSTS]
    own = text(f"{folder}/settings.json")
    hosts += protocol.endpoints(own)
    if host := protocol.host(env.get("ANTHROPIC_BASE_URL", "")):
        hosts.append(host)
    if env.get("CLAUDE_CODE_USE_BEDROCK"):
        login += (f"{home}/.aws/sso/cache", f"{home}/.aws/cli/cache")
        settings += (f"{home}/.aws/config", f"{home}/.aws/credentials")
        settings += protocol.paths(env, "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
        variables.append("AWS_")
        hosts.append("*.amazonaws.com")
    if env.get("CLAUDE_CODE_USE_VERTEX"):
        settings.append(f"{home}/.config/gcloud/application_default_credentials.json")
        settings += protocol.paths(env, "GOOGLE_APPLICATION_CREDENTIALS")
        variables += ["GOOGLE_", "CLOUD_ML_", "VERTEX_"]
        hosts.append("*.googleapis.com")
    helper = results.parsed(own.encode()).get("apiKeyHelper")
    return Needs(
        login=tuple(login),
        settings=tuple(settings),
        excerpts={account: ("primaryApiKey",)},
        variables=tuple(variables),
        commands=(helper,) if isinstance(helper, str) else (),
        hosts=tuple(hosts),
    )


def started(files: Mapping[str, bytes]) -> list[str]:
    """Of the `FILES` that are there. What cannot be read is named, too."""
    found: list[str] = []
    for name, data in sorted(files.items()):
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            found.append(f"{name} cannot be read as JSON; claude may read it otherwise")
            continue
        if isinstance(value, dict):
            read = _servers(value) if name == ".mcp.json" else _settings(value)
            found += [f"{name} {line}" for line in read]
    return found


def _settings(value: Mapping[str, Any]) -> Iterator[str]:
    for event, matchers in _items(value.get("hooks")):
        for matcher in matchers if isinstance(matchers, list) else [matchers]:
            hooks = matcher.get("hooks", [matcher]) if isinstance(matcher, dict) else [matcher]
            for hook in hooks if isinstance(hooks, list) else [hooks]:
                command = hook.get("command", hook) if isinstance(hook, dict) else hook
                yield f"hook {event}: {results.shown(command)}"
    yield from (f"{key}: {results.shown(value[key])}" for key in _COMMANDS if key in value)
    yield from (f"env {name}={results.shown(given)}" for name, given in _items(value.get("env")))
    yield from (f"plugin {name}" for name, on in _items(value.get("enabledPlugins")) if on)


def _servers(value: Mapping[str, Any]) -> Iterator[str]:
    for name, server in _items(value.get("mcpServers")):
        if not isinstance(server, dict):
            yield f"server {name}: {results.shown(server)}"
            continue
        given = server["args"] if isinstance(server.get("args"), list) else []
        words = (server.get("command") or server.get("url") or "", *given)
        env = " ".join(f"{key}={results.shown(one)}" for key, one in _items(server.get("env")))
        yield f"server {name}: {' '.join(filter(None, (env, *map(results.shown, words))))}"


def _items(value: object) -> list[tuple[str, Any]]:
    return sorted(value.items()) if isinstance(value, dict) else []


# -------------------------------------------------------------------- who pays


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    folder = env.get("CLAUDE_CONFIG_DIR") or f"{home}/.claude"
    accounts = f"{folder}/.credentials.json", f"{folder}/.claude.json", f"{home}/.claude.json"
    subscribed = any(word in text(place) for place in accounts for word in _LOGGED_IN)
    return decide(env, subscribed=subscribed, dotenv=text(f"{root}/.env"))


def login(code: int, said: str) -> str | None:
    """By what `claude auth status --json` prints. It does not check the key."""
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("loggedIn"), bool):
        return None
    how = str(found.get("apiKeySource") or found.get("authMethod") or "claude's own word")
    return how if found["loggedIn"] and code == 0 else ""


def decide(env: Mapping[str, str], *, subscribed: bool, dotenv: str) -> Payer:
    """`claude -p` takes a cloud's account, else a key of the environment, else the login. `dotenv`:
    the text of the project's .env, which claude 2.1 does not read but many shells load.
    """
    for name, cloud in _CLOUDS.items():
        if env.get(name, "") not in ("", "0", "false"):
            return Payer(f"your account at {cloud} ({name} is set)")
    for name in _KEYS:
        if env.get(name):
            return Payer(f"the key in {name}, by use", _by_key(name, subscribed, dotenv))
    if env.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return Payer(f"{SUBSCRIPTION} of CLAUDE_CODE_OAUTH_TOKEN")
    who = f"{SUBSCRIPTION} that claude is logged in to" if subscribed else ""
    named = next((name for name in _KEYS if _names(dotenv, name)), "")
    warning = f"the project's .env holds {named}: a shell that loads it makes that key pay"
    return Payer(who, warning if named else "")


def _by_key(name: str, subscribed: bool, dotenv: str) -> str:
    """What a person should know who may not mean to pay by use; empty where nothing hints at it."""
    why = []
    if subscribed:
        why.append("not the subscription that claude is logged in to")
    if _names(dotenv, name):
        why.append("it stands in the project's .env")
    if not why:
        return ""
    return f"the key in {name} pays for every call: {'; '.join(why)}; to change that: unset {name}"


def _names(dotenv: str, name: str) -> bool:
    return re.search(rf"^\s*(?:export\s+)?{name}\s*=\s*\S", dotenv, re.M) is not None
