"""The question before anything of a repository is started: `Run these here?`"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kern import plain
from kern.cli.asking import agreed
from kern.errors import Exit, UsageError
from kern.pipeline import agents, preflight, trust
from kern.pipeline.options import Leave
from kern.stages import prompts

_FIRST = "This repository brings along what would be started here, or obeyed by agents:"
_MORE = "New in this repository since you trusted it:"


def ask(lines: Sequence[str], first: bool) -> bool:
    """All of it, uncut; without a person at a terminal the answer is no."""
    print(_FIRST if first else _MORE, *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
    return agreed("Run these here?", sys.stderr, sys.stderr)


def leave(sandbox: str, *, trust: bool, bare: bool = False) -> Leave:
    """What a person lets the repository start: by options, environment, or when they are asked."""
    trusted = trust or os.environ.get("KERN_TRUST") == "1"
    return Leave(sandbox, trusted, project=not bare, ask=ask)


def give(folder: Path, *, yes: bool) -> int:
    """`kern trust`: what is there now, and the person's word on it."""
    found, _, parsed, settings = preflight.prepare(folder, empty=True)
    crew = agents.chosen(prompts.templates(found.root, settings).values())
    lines = trust.started(found, settings, parsed, crew).lines
    record = trust.place(found)
    if not lines:
        print("nothing to trust: this repository has nothing started")
        return Exit.OK
    new = trust.unseen(found, lines)
    if not new:
        print(f"trusted: {plain.count(len(lines), 'line')}, none of them new ({record})")
        return Exit.OK
    if not yes and not ask(new, not trust.known(record)):
        raise UsageError("not trusted", hint="kern trust in a terminal; kern trust --yes")
    trust.agree(found, new)
    print(f"trusted: {plain.count(len(lines), 'line')} ({trust.place(found)})")
    return Exit.OK
