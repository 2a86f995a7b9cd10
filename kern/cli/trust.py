"""The question before anything of a repository is started: `Run these here?`"""

import os
import sys
from collections.abc import Sequence

from kern.cli.asking import agreed
from kern.pipeline.site import Leave

_FIRST = "This repository brings along what would be started here, or obeyed by agents:"
_MORE = "New in this repository since you trusted it:"


def ask(lines: Sequence[str], first: bool) -> bool:
    """All of it, uncut; without a person at a terminal the answer is no."""
    print(_FIRST if first else _MORE, *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
    return agreed("Run these here?", sys.stderr, sys.stderr)


def leave(trusted: bool) -> Leave:
    """What a person lets the repository start: by option, environment, or when they are asked."""
    return Leave(trusted or os.environ.get("KERN_TRUST") == "1", ask=ask)
