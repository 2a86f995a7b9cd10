"""Codex, called as `codex exec --json`: its sandbox as the limits of a role, and its output.

Facts measured with 0.169.0 against a scripted Responses API; see `kern help agents`.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kern.agents import codex_faults
from kern.agents import result as results
from kern.agents.absent import unattended as unattended
from kern.agents.codex_faults import INSTALL as INSTALL
from kern.agents.codex_faults import LOGIN as LOGIN
from kern.agents.codex_faults import OLDEST as OLDEST
from kern.agents.codex_faults import fault as fault
from kern.agents.codex_settings import FILES as FILES
from kern.agents.codex_settings import STATUS as STATUS
from kern.agents.codex_settings import confinement as confinement
from kern.agents.codex_settings import login as login
from kern.agents.codex_settings import needs as needs
from kern.agents.codex_settings import payer as payer
from kern.agents.codex_settings import quoted
from kern.agents.codex_settings import started as started
from kern.agents.protocol import Fault, Launch, Reply
from kern.agents.transcript import objects as objects
from kern.model import Act, Aide, Role, Stage

NAME = PROGRAM = "codex"
VARIABLE = "KERN_CODEX"
TRIAL: tuple[str, ...] = ("sandbox", "true")
TAKES_CONTRACT = False  # an instructions file would replace its own
RUNS_GATES = False
READS_GUIDANCE = False  # AGENTS.md, which kern hands over with CLAUDE.md

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
_COMPLAINT = 4000  # characters
_LONGEST = 300  # characters of what a call was given
_CALLS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")


def unheld(role: Role) -> str:
    """Its sandbox knows files and hosts, and no commands."""
    free = "codex cannot be held to git: who may write .git may move branches and plant hooks"
    return free if role is Stage.COMMIT else ""


def files(launch: Launch) -> Mapping[str, str]:
    return {}


def tools(role: Role) -> tuple[str, ...]:
    if role is Stage.IMPLEMENT:
        return "shell", "apply_patch", "web_search"
    return ("shell (read-only)",) if role in _SMALL else ("shell (read-only)", "web_search")


def argv(launch: Launch) -> list[str]:
    """Implement has all that kern's sandbox leaves it; what else it might be held by, `confinement`
    says. Where nothing of its own can hold, kern's sandbox does.
    """
    sealed = launch.role is not Stage.IMPLEMENT
    held: Sequence[str] = _READING if sealed and launch.nests else _OPEN
    if launch.confinement:
        held = ("-c", 'default_permissions="kern"', "-c", f"permissions.kern={launch.confinement}")
    level = {"max": "xhigh"}.get(launch.effort, launch.effort)
    # As a project that the person does not trust: neither its settings nor its hooks and servers
    # count, while the person's own provider and login do.
    strange = f'projects={{{quoted(launch.root)}={{trust_level="untrusted"}}}}'
    return [
        *_COMMON,
        *(("-m", launch.model) if launch.model else ()),
        *(("-c", f'model_reasoning_effort="{level}"') if level else ()),
        *held,
        *(("-c", strange) if sealed or launch.bare else ()),
        *(_SEALED if sealed else ()),
        *(_LEAN if launch.role in _SMALL else ()),
    ]


def environment(launch: Launch) -> dict[str, str]:
    return {}


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
                    complaint = str(item.get("aggregated_output") or "")[-_COMPLAINT:]
                    errors += [sign for sign in _NO_SANDBOX if sign in complaint[:200]]
            case "turn.completed":
                ended, failed, tokens = True, "", _tokens(results.part(value, "usage"))
            case "turn.failed":
                error = results.part(value, "error")
                ended, failed = True, str(error.get("message") or "no reason given")
    if not ended:
        return None
    when = codex_faults.began(session) if failed else None
    wrong = [failed] if failed else []
    return Reply(
        results.made(
            failed or text, cost=None, turns=None, session=session, tokens=tokens, errors=wrong
        ),
        failed or text,
        session=session,
        tokens=tokens,
        complaint=complaint,
        errors=() if works else tuple(errors),
        resets_at=codex_faults.resets_at(failed, when) if when else None,
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
    if value.get("type") != "item.started" or kind not in _CALLS:
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


def refused(line: bytes) -> Fault | None:
    return None  # it gives up by itself, within seconds
