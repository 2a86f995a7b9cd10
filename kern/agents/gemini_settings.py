"""Which files Gemini CLI obeys and needs: what a project's own make it start, who pays, and what it
has to reach to work at all.

Facts measured with 0.61.0.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from kern.agents import result as results
from kern.agents.protocol import SUBSCRIPTION, Payer
from kern.model import Needs

INSTALL = "npm install -g @google/gemini-cli"
LOGIN = "run `gemini` by hand and log in, or set GEMINI_API_KEY; then run kern again"
FILES: tuple[str, ...] = (".gemini/", ".env")
STATUS: tuple[str, ...] = ()  # it has no such command

_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_OBEYED = (
    *("settings.json", "GEMINI.md", "trustedFolders.json", ".env", "policies", "commands"),
    *("extensions", "skills", "agents", "hooks"),
)
_PROGRAMS = ("hooks", "mcpServers", "mcp", "tools", "extensions", "env", "security", "advanced")
_HOSTS = ("*.googleapis.com", "accounts.google.com", "oauth2.googleapis.com", "*.google.com")


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


def needs(env: Mapping[str, str], home: str) -> Needs:
    folder = _folder(env, home)
    read = tuple(f"{folder}/{name}" for name in _OBEYED)
    named = urlsplit(env.get("GOOGLE_GEMINI_BASE_URL", "")).hostname
    hosts = (*_HOSTS, *([named] if named else []))
    return Needs((folder,), read, ("GEMINI_", "GOOGLE_", "CODE_ASSIST_"), hosts)


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
