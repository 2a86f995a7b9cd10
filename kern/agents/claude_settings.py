"""Which files Claude Code obeys and needs: what a project's own make it start, and what it has to
reach to work at all.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kern.model import Needs

FILES: tuple[str, ...] = (".claude/settings.json", ".claude/settings.local.json", ".mcp.json")
# Below the configuration folder: what the next session obeys, which no stage may write.
OBEYED = (
    *("settings.json", "settings.local.json", "CLAUDE.md", "agents", "commands", "hooks"),
    *("output-styles", "plugins", "rules", "skills"),
)
_COMMANDS = (
    *("apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "gcpAuthRefresh"),
    *("otelHeadersHelper", "statusLine", "fileSuggestion"),
)


_VARIABLES = ("ANTHROPIC_", "CLAUDE_")
_HOSTS = ("*.anthropic.com", "claude.ai", "*.claude.ai", "*.claude.com")


def needs(env: Mapping[str, str], home: str) -> Needs:
    """Where it keeps its login, which it renews, and whom it asks. Measured: it works where
    `.claude.json`, which names servers to start, cannot be written.
    """
    named = env.get("CLAUDE_CONFIG_DIR")
    folder = named or f"{home}/.claude"
    config = f"{folder if named else home}/.claude.json"
    write, variables, hosts = [folder], [*_VARIABLES], [*_HOSTS]
    if url := urlsplit(env.get("ANTHROPIC_BASE_URL", "")).hostname:
        hosts.append(url)
    if env.get("CLAUDE_CODE_USE_BEDROCK"):
        write.append(f"{home}/.aws")  # its cache of short-lived keys
        variables.append("AWS_")
        hosts.append("*.amazonaws.com")
    if env.get("CLAUDE_CODE_USE_VERTEX"):
        write.append(f"{home}/.config/gcloud")
        variables += ["GOOGLE_", "CLOUD_ML_", "VERTEX_"]
        hosts.append("*.googleapis.com")
    obeyed = (config, *(f"{folder}/{name}" for name in OBEYED))
    return Needs(tuple(write), obeyed, tuple(variables), tuple(hosts))


def confinement(
    write: Iterable[str], keep: Iterable[str], hide: Iterable[str], hosts: Sequence[str] | None
) -> str:
    """Its own sandbox for the commands of its shell, as JSON for `--settings`. Measured: absolute
    paths bind, relative ones do not; what it cannot hold, it does not start.
    """
    network = {} if hosts is None else {"network": {"allowedDomains": [*hosts]}}
    files = {
        "allowWrite": [*write],
        "denyWrite": [*keep],
        "denyRead": [*hide],
    }
    own = {"enabled": True, "failIfUnavailable": True, "allowUnsandboxedCommands": False}
    own["autoAllowBashIfSandboxed"] = True
    return json.dumps({"sandbox": {**own, "filesystem": files, **network}})


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
                yield f"hook {event}: {_text(command)}"
    yield from (f"{key}: {_text(value[key])}" for key in _COMMANDS if key in value)
    yield from (f"env {name}={_text(given)}" for name, given in _items(value.get("env")))
    yield from (f"plugin {name}" for name, on in _items(value.get("enabledPlugins")) if on)


def _servers(value: Mapping[str, Any]) -> Iterator[str]:
    for name, server in _items(value.get("mcpServers")):
        if not isinstance(server, dict):
            yield f"server {name}: {_text(server)}"
            continue
        words = (server.get("command") or server.get("url") or "", *_list(server.get("args")))
        env = " ".join(f"{key}={_text(one)}" for key, one in _items(server.get("env")))
        yield f"server {name}: {' '.join(filter(None, (env, *map(_text, words))))}"


def _items(value: object) -> list[tuple[str, Any]]:
    return sorted(value.items()) if isinstance(value, dict) else []


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
