"""What a person is asked before something is done, and what is put before them to edit."""

import contextlib
import difflib
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kern import plain
from kern.errors import UsageError
from kern.pipeline.site import Leave


def yes(question: str, usual: str = "n") -> bool:
    """Of the person at the terminal, wherever standard input comes from; no where nobody is."""
    if not sys.stderr.isatty():
        return False
    with contextlib.suppress(OSError), open("/dev/tty", encoding="utf-8", errors="replace") as tty:
        if os.tcgetpgrp(tty.fileno()) == os.getpgrp():  # else to read would stop it
            print(question, end=" ", file=sys.stderr, flush=True)
            typed = tty.readline()
            return bool(typed) and (typed.strip().lower() or usual) in ("y", "yes")
    return False


def check_terminal() -> None:
    """Before a yes is worked for."""
    if not sys.stderr.isatty():
        raise UsageError("not a terminal, so nobody can say yes", hint="--yes says it")


def leave(trusted: bool) -> Leave:
    """What a person lets the repository start: by option, environment, or when they are asked."""
    return Leave(trusted or os.environ.get("KERN_TRUST") == "1", ask=_trusts)


def _trusts(lines: Sequence[str], first: bool) -> bool:
    brings = "This repository brings along what would be started here, or obeyed by agents:"
    head = brings if first else "New in this repository since you trusted it:"
    print(head, *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
    return yes("Run these here? [y/N]")


def edit(file: Path) -> str:
    """Returns when the person has closed it in their editor: what went wrong, in words."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.call([*shlex.split(editor), str(file)], stdin=sys.stdin)
    except (OSError, ValueError) as exc:
        return f"cannot start the editor {plain.line(editor, 80)}: {exc}"
    return f"the editor {plain.line(editor, 80)} ended with {code}" if code else ""


def difference(name: str, old: str, new: str) -> str:
    """As `diff -u` shows it, harmless for a terminal; empty where there is none."""
    lines = old.splitlines(), new.splitlines()
    diff = difflib.unified_diff(*lines, f"a/{name}", f"b/{name}", lineterm="")
    return plain.block("\n".join(diff))
