"""Who pays: which credential claude will take, as far as the environment and its files tell.

Names and places are read and said, never a secret.
"""

import json
import re
from collections.abc import Callable, Mapping

from kern.agents.protocol import SUBSCRIPTION, Payer

_LOGGED_IN = ('"claudeAiOauth"', '"oauthAccount"')  # what `claude` stores at a login
_KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
_CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
}


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
