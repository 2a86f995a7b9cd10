"""Which files pi obeys and needs: what a project's own make it start, who pays, and what it has to
reach to work at all.

Facts measured with 0.74.2.
"""

from collections.abc import Callable, Mapping

from kern.agents import result as results
from kern.agents import vendors
from kern.agents.protocol import SUBSCRIPTION, Payer
from kern.model import Needs
from kern.obeyed import digest

INSTALL = "npm install -g @earendil-works/pi-coding-agent"
LOGIN = "run `pi` by hand and type /login, or set a provider's key; then run kern again"
FILES: tuple[str, ...] = (".pi/settings.json", ".pi/extensions/")
STATUS: tuple[str, ...] = ("--offline", "--list-models")

_OBEYED = (
    *("settings.json", "models.json", "keybindings.json", "SYSTEM.md", "APPEND_SYSTEM.md"),
    *("AGENTS.md", "CLAUDE.md", "extensions", "skills", "prompts", "themes", "git"),
)
_PROGRAMS = ("extensions", "packages", "npmCommand", "shellPath", "shellCommandPrefix")


def login(code: int, said: str) -> str | None:
    """By the models that it could ask."""
    if "No models available" in said:
        return ""
    rows = [line.split() for line in said.splitlines()]
    named = [row[0] for row in rows if len(row) == 6 and row[-1] in ("yes", "no")]
    return f"pi's own word: {', '.join(dict.fromkeys(named))}" if named and code == 0 else None


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    """A login beats a key of the environment; which provider is asked, the model says."""
    if '"oauth"' in text(f"{_folder(env, home)}/auth.json"):
        return Payer(f"{SUBSCRIPTION} that pi is logged in to")
    key = next((name for name in vendors.KEYS if env.get(name)), "")
    return Payer(f"the key in {key}, by use" if key else "")


def needs(env: Mapping[str, str], home: str) -> Needs:
    folder = _folder(env, home)
    variables = ("PI_", "AWS_", "GOOGLE_", *vendors.KEYS)
    return Needs((folder,), tuple(f"{folder}/{name}" for name in _OBEYED), variables, vendors.HOSTS)


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
