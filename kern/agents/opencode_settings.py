"""Which files opencode obeys and needs: what a project's own make it start, who pays, and what it
has to reach to work at all.

Facts measured with 1.18.33.
"""

import re
from collections.abc import Callable, Mapping

from kern.agents import result as results
from kern.agents import vendors
from kern.agents.protocol import SUBSCRIPTION, Payer
from kern.model import Needs
from kern.obeyed import digest

INSTALL = "npm install -g opencode-ai"
LOGIN = "run `opencode auth login`, or set a provider's key; then run kern again"
FILES: tuple[str, ...] = ("opencode.json", "opencode.jsonc", ".opencode/")
STATUS: tuple[str, ...] = ("auth", "list")

_OBEYED = (
    *("opencode.json", "opencode.jsonc", "config.json", "tui.json", "AGENTS.md", "package.json"),
    *("agent", "agents", "command", "commands", "mode", "modes", "plugin", "plugins", "skill"),
    *("skills", "tool", "tools", "themes", "node_modules"),
)
_PROGRAMS = ("mcp", "plugin", "formatter", "lsp", "provider", "command", "agent", "permission")
_CODE = re.compile(r"\.opencode/(?:plugins?|tools?)/|\.opencode/package\.json$")


def login(code: int, said: str) -> str | None:
    """A key in its configuration is not among them, and some models need none."""
    counts = re.findall(r"(\d+) (?:credential|environment variable)", said)
    known = sum(map(int, counts))
    return f"opencode's own word: {known} logins" if known and code == 0 else None


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    """Which provider is asked, the model says."""
    if '"oauth"' in text(f"{_data(env, home)}/auth.json"):
        return Payer(f"{SUBSCRIPTION} that opencode is logged in to")
    key = next((name for name in vendors.KEYS if env.get(name)), "")
    return Payer(f"the key in {key}, by use" if key else "")


def needs(env: Mapping[str, str], home: str) -> Needs:
    config = f"{env.get('XDG_CONFIG_HOME') or f'{home}/.config'}/opencode"
    cache = f"{env.get('XDG_CACHE_HOME') or f'{home}/.cache'}/opencode"
    state = f"{env.get('XDG_STATE_HOME') or f'{home}/.local/state'}/opencode"
    read = tuple(f"{config}/{name}" for name in _OBEYED)
    variables = ("OPENCODE_", "XDG_", "AWS_", "GOOGLE_", *vendors.KEYS)
    hosts = (*vendors.HOSTS, "models.dev", "registry.npmjs.org")
    return Needs((config, _data(env, home), cache, state), read, variables, hosts)


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
