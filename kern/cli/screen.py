"""A run on its screen: what it shows, and the keys of the terminal that it is in."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from kern.pipeline import loop
from kern.pipeline.options import Options
from kern.pipeline.session import Session
from kern.system.keys import Keys
from kern.views.console import Console


def run(
    options: Options,
    *,
    verbose: bool,
    quiet: bool,
    instead: Callable[[Session, Options, Console], int | None],
) -> int:
    """The exit code. However it ends, the terminal is left as it was."""
    with contextlib.closing(Keys()) as keys:
        console = Console(verbose=verbose, quiet=quiet, keys=keys.on)

        def typed() -> str:
            found = keys.read()
            if "?" in found:
                console.explain()
            return found

        options.watched, options.keys = console.watched, typed
        options.tick, options.countdown = console.tick, console.countdown
        options.paused = console.paused
        options.instead = lambda begun: instead(begun, options, console)
        with contextlib.closing(console):
            return loop.run(Path.cwd(), options, console)
