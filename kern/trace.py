"""What git tells of its own processes (GIT_TRACE2_EVENT): whether a commit ran the person's hooks.

A deny list of flags matches text; git's event log holds each hook that it really started.
"""

import json
from collections.abc import Iterable, Sequence


def skipped_hook(lines: Iterable[str], hooks: Sequence[str]) -> str:
    """The first of `hooks` that a successful `git commit` did not start; empty when all were.

    A session id with a slash is a git that another git or a hook started: those do not count.
    """
    committed: set[str] = set()
    ended_well: set[str] = set()
    started: dict[str, set[str]] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict) or "/" in (sid := str(event.get("sid"))):
            continue
        match event.get("event"):
            case "cmd_name" if event.get("name") == "commit":
                committed.add(sid)
            case "exit" if event.get("code") == 0:
                ended_well.add(sid)
            case "child_start" if event.get("child_class") == "hook":
                started.setdefault(sid, set()).add(str(event.get("hook_name")))
    for sid in sorted(committed & ended_well):
        for hook in hooks:
            if hook not in started.get(sid, set()):
                return hook
    return ""
