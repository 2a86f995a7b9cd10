"""The tools of a script, as each CLI calls its own.

Scripts speak of Bash, Read, Write, Edit, Grep and Glob with claude's arguments. A CLI that asks
below `/NAME` of the server gets the tools that its table here names; what is not in it, as it is.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from tests.kit.wires.wire import Call

Given = Mapping[str, Any]

OWN: Mapping[str, Mapping[str, Callable[[Given], Call]]] = {
    "codex": {
        # By itself it would go on without a command that takes ten seconds.
        "Bash": lambda given: Call(
            "exec_command", {"cmd": given["command"], "yield_time_ms": 30_000}
        ),
        # Of a command that ends at once it does not always tell.
        "Read": lambda given: Call(
            "exec_command", {"cmd": f"cat '{given['file_path']}'; sleep 0.2"}
        ),
        "Write": lambda given: Call("apply_patch", {"input": _added(given)}),
        "Edit": lambda given: Call("apply_patch", {"input": _edited(given)}),
    },
    "pi": {
        "Bash": lambda given: Call("bash", given),
        "Read": lambda given: Call("read", {"path": given["file_path"]}),
        "Write": lambda given: Call(
            "write", {"path": given["file_path"], "content": given["content"]}
        ),
        "Edit": lambda given: Call(
            "edit",
            {
                "path": given["file_path"],
                "edits": [{"oldText": given["old_string"], "newText": given["new_string"]}],
            },
        ),
        "Grep": lambda given: Call("grep", given),
        "Glob": lambda given: Call("find", given),
    },
    "opencode": {
        "Bash": lambda given: Call("bash", {"description": "x", **given}),
        "Read": lambda given: Call("read", {"filePath": given["file_path"]}),
        "Write": lambda given: Call(
            "write", {"filePath": given["file_path"], "content": given["content"]}
        ),
        "Edit": lambda given: Call(
            "edit",
            {
                "filePath": given["file_path"],
                "oldString": given["old_string"],
                "newString": given["new_string"],
            },
        ),
        "Grep": lambda given: Call("grep", given),
        "Glob": lambda given: Call("glob", given),
    },
    "gemini": {
        "Bash": lambda given: Call("run_shell_command", {"description": "x", **given}),
        "Read": lambda given: Call("read_file", given),
        "Write": lambda given: Call("write_file", given),
        "Edit": lambda given: Call("replace", {"instruction": "x", **given}),
        "Grep": lambda given: Call("grep_search", given),
        "Glob": lambda given: Call("glob", given),
    },
}


# Of one whose only tool is a shell, and whose calls are text.
SHELLS: Mapping[str, Mapping[str, Callable[[Given], str]]] = {
    "http": {
        "Bash": lambda given: given["command"],
        "Read": lambda given: f"cat {shlex.quote(given['file_path'])}",
        "Write": lambda given: (
            f"printf %s {shlex.quote(given['content'])} > {shlex.quote(given['file_path'])}"
        ),
        "Edit": lambda given: shlex.join(
            [
                *("perl", "-0pi", "-e", r"BEGIN { ($a, $b) = splice(@ARGV, 0, 2) } s/\Q$a/$b/"),
                *(given["old_string"], given["new_string"], given["file_path"]),
            ]
        ),
    }
}


def fenced(cli: str, name: str, given: Given) -> str:
    """The call as text; empty where the CLI has tools."""
    own = SHELLS.get(cli, {}).get(name)
    return f"\n```sh\n{own(given)}\n```\n" if own else ""


def call(cli: str, name: str, given: Given) -> Call:
    own = OWN.get(cli, {}).get(name)
    return own(given) if own else Call(name, given)


def _added(given: Given) -> str:
    """A file as the patch that adds it."""
    lines = "".join(f"+{line}\n" for line in str(given["content"]).splitlines())
    return f"*** Begin Patch\n*** Add File: {given['file_path']}\n{lines}*** End Patch\n"


def _edited(given: Given) -> str:
    """The change of one line as a patch."""
    change = f"@@\n-{given['old_string']}\n+{given['new_string']}\n"
    return f"*** Begin Patch\n*** Update File: {given['file_path']}\n{change}*** End Patch\n"
