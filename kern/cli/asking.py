"""What a person is asked before something is done, and what is put before them to edit."""

import difflib
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from kern import plain
from kern.errors import UsageError
from kern.pipeline.site import Leave


def yes(question: str, usual: str = "n") -> bool:
    """No where nobody sits at the terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(question, end=" ", file=sys.stderr, flush=True)
    typed = sys.stdin.readline()
    return bool(typed) and (typed.strip().lower() or usual) in ("y", "yes")


def leave(trusted: bool) -> Leave:
    """What a person lets the repository start: by option, environment, or when they are asked."""
    return Leave(trusted or os.environ.get("KERN_TRUST") == "1", ask=_trusts)


def _trusts(lines: Sequence[str], first: bool) -> bool:
    brings = "This repository brings along what would be started here, or obeyed by agents:"
    head = brings if first else "New in this repository since you trusted it:"
    print(head, *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
    return yes("Run these here? [y/N]")


def terminal(hint: str) -> TextIO:
    """The person's, wherever standard input comes from."""
    try:
        return open("/dev/tty", encoding="utf-8", errors="replace")
    except OSError:
        raise UsageError("not a terminal, so nobody can say yes", hint=hint) from None


def agreed(person: TextIO, question: str) -> bool:
    """Asked until it is a yes or a no; a no where nobody is there any more."""
    while True:
        print(f"{question} [y]es [n]o:", end=" ", file=sys.stderr, flush=True)
        word = (person.readline() or "n").strip().lower()[:1]
        if word in ("y", "n"):
            return word == "y"


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
