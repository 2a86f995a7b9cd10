"""opencode, called as `opencode run` with a plugin of kern's own: rules that bind, and what it
prints.

Facts measured with 1.18.33 against a scripted API.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kern.agents import extension, opencode_plugin
from kern.agents import result as results
from kern.agents.absent import confinement as confinement
from kern.agents.absent import unattended as unattended
from kern.agents.opencode_settings import FILES as FILES
from kern.agents.opencode_settings import INSTALL as INSTALL
from kern.agents.opencode_settings import LOGIN as LOGIN
from kern.agents.opencode_settings import STATUS as STATUS
from kern.agents.opencode_settings import login as login
from kern.agents.opencode_settings import needs as needs
from kern.agents.opencode_settings import payer as payer
from kern.agents.opencode_settings import started as started
from kern.agents.opencode_stream import act as act
from kern.agents.opencode_stream import fault as fault
from kern.agents.opencode_stream import refused as refused
from kern.agents.opencode_stream import replied
from kern.agents.protocol import Launch, Reply
from kern.agents.transcript import objects as objects
from kern.model import Role, Stage

NAME = PROGRAM = "opencode"
VARIABLE = "KERN_OPENCODE"
OLDEST: tuple[int, ...] = (1, 18, 0)
TAKES_CONTRACT = True
RUNS_GATES = False
TRIAL: tuple[str, ...] = ()
READS_GUIDANCE = False

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


def unheld(role: Role) -> str:
    return "its rules let `git status > FILE` through" if role is Stage.COMMIT else ""


def files(launch: Launch) -> Mapping[str, str]:
    given = launch.given.get(opencode_plugin.OFFLINE, "")
    source = extension.source(launch, opencode_plugin.SOURCE, GIVEN=given)
    return {opencode_plugin.NAME: source}


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
        "plugin": [extension.url(launch, opencode_plugin.NAME)],
        "instructions": [launch.contract] if launch.contract else [],
        "agent": {_AGENT: {"mode": "primary", "description": "kern", "permission": rules}},
    }
    theirs = results.parsed(launch.given.get("OPENCODE_CONFIG_CONTENT", "").encode())
    sealed = {} if implements and not launch.bare else {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
    patient = {"OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": str(round(1000 * launch.patience))}
    return {
        **{f"OPENCODE_DISABLE_{what}": "1" for what in _OFF},
        **sealed,
        **(patient if launch.patience else {}),
        opencode_plugin.OFFLINE: "true",
        "OPENCODE_CONFIG_CONTENT": json.dumps(theirs | config),
    }


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
    return replied(seen, tools(role), reads=role is not Stage.IMPLEMENT)
