"""What a person is asked before something is done, and the change of a file that they see first."""

import difflib
import sys
from typing import TextIO

from kern import plain
from kern.errors import UsageError


def agreed(question: str, shown: TextIO, asked: TextIO) -> bool:
    """A person's yes, `asked` for on that stream; no where nobody sits at the terminal that kern
    hears and that has what was `shown`.
    """
    if not (sys.stdin.isatty() and shown.isatty()):
        return False
    print(f"{question} [y/N]", end=" ", file=asked, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def someone(hint: str) -> TextIO:
    """The person's terminal, wherever standard input comes from."""
    try:
        return open("/dev/tty", encoding="utf-8", errors="replace")
    except OSError:
        raise UsageError("not a terminal, so nobody can say yes", hint=hint) from None


def answered(person: TextIO, question: str, letters: str) -> str:
    """One of the letters; `n` where nobody is there any more."""
    while True:
        print(question, end=" ", file=sys.stderr, flush=True)
        said = person.readline()
        word = said.strip().lower()[:1] if said else "n"
        if word and word in letters:
            return word


def difference(name: str, old: str, new: str) -> str:
    """As `diff -u` shows it, harmless for a terminal; empty where there is none."""
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
    )
    return plain.block("\n".join(lines))
