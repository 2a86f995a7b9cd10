"""What git tells of its own processes (GIT_TRACE2_EVENT): whether a commit ran the person's hooks,
and which of them refused it.

A deny list of flags matches text; git's event log holds each hook that it really started.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_GAVE_UP = 128  # git's exit code where it cannot go on: no identity, no signature, a full disk


@dataclass(frozen=True, slots=True)
class Account:
    """Of the `git commit` processes of one call of stage 3."""

    skipped: str = ""  # the first hook that a successful one did not start
    refused: str = ""  # the hook that ended the last one
    gave_up: bool = False  # git itself could not go on in the last one


@dataclass(slots=True)
class _Process:
    """One git that neither another git nor a hook started."""

    commit: bool = False
    code: int | None = None
    hooks: dict[object, str] = field(default_factory=dict)  # by the child's number
    failed: str = ""  # the last of them that ended badly


def read(lines: Iterable[str], hooks: Sequence[str]) -> Account:
    """`hooks`: those that a commit must have started."""
    processes: dict[str, _Process] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        # A session id with a slash is a git that another git or a hook started: no witness.
        if isinstance(event, dict) and "/" not in (sid := str(event.get("sid"))):
            _take(processes.setdefault(sid, _Process()), event)
    commits = [one for one in processes.values() if one.commit and one.code is not None]
    skipped = (
        hook for one in commits if one.code == 0 for hook in hooks if hook not in one.hooks.values()
    )
    last = commits[-1] if commits and commits[-1].code else _Process()
    return Account(next(skipped, ""), last.failed, last.code == _GAVE_UP and not last.failed)


def _take(process: _Process, event: dict[str, Any]) -> None:
    child = event.get("child_id")
    match event.get("event"):
        case "cmd_name" if event.get("name") == "commit":
            process.commit = True
        case "child_start" if event.get("child_class") == "hook":
            process.hooks[str(child)] = str(event.get("hook_name"))
        case "child_exit" if event.get("code") and str(child) in process.hooks:
            process.failed = process.hooks[str(child)]
        case "exit":
            code = event.get("code")
            process.code = code if isinstance(code, int) else None
