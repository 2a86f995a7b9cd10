"""The command line as typer has it: one app, whose usual command is `run`."""

import difflib
import re
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperGroup

from kern import __version__, plain
from kern.cli.gone import GONE
from kern.errors import KernError, UsageError


class Commands(TyperGroup):
    """`kern`, `kern 10 30` and `kern -n` are short for `kern run …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {word for one in self.params for word in one.opts} | {"-h", "--help"}
        first = args[0] if args else ""
        if first == "help" and args[1:] and args[1] in self.commands:
            args = [args[1], "--help"]
        elif first not in own and first not in self.commands:
            if re.match(r"[^\W\d]", first) and not ctx.resilient_parsing:
                raise self.unknown(first)
            args = ["run", *args]
        for before, word in pairwise(args):
            if args[0] == "run" and re.match(r"-\d", word) and not before.startswith("-"):
                raise UsageError(
                    f"ITERATIONS and DELAY are not negative: {word}", hint="kern 5 10s"
                )
        # A list item is no option: kern add "- [ ] text"
        return super().parse_args(ctx, [f"\n{w}" if re.match(r"-[ \[]", w) else w for w in args])

    def unknown(self, word: str) -> KernError:
        if what := GONE.get(word):
            return UsageError(f"kern {word} is gone", hint=what)
        near = difflib.get_close_matches(word.lower(), self.commands, 1, 0.65)
        hint = f"type kern {near[0]}" if near else "kern --help lists the commands"
        if " " in word:
            hint = f'kern add "{word[:60]}", or kern plan "{word[:60]}"'
        return UsageError(
            f"{plain.line(word, 60)!r} is neither a number of iterations nor a command", hint=hint
        )

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """With the options of the usual command."""
        found = super().shell_complete(ctx, incomplete)
        run = self.commands["run"]
        return [*found, *run.shell_complete(typer.Context(run), incomplete)]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, or stopped by kern stop; 1 a person is needed; 2 usage, "
    "configuration or a red gate; 3 a budget, a usage limit or an outage; 130, 143, 129 "
    "interrupted.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"kern {__version__}")
        raise typer.Exit


def _update(asked: bool) -> None:
    if asked:
        from kern.cli import installed

        raise typer.Exit(installed.update())


@app.callback(
    help="Turn the checkboxes in SPEC.md into commits you can trust, one task at a time.\n\n"
    "`kern 10 30s` carries out ten tasks, 30 s between them; `kern -n` shows what would happen; "
    "`kern help` lists the pages. For each task three fresh agent processes run: research, "
    "implement, commit. Kill it at any moment: the next run goes on from there."
)
def _kern(
    version: bool = typer.Option(
        False, "--version", "-V", callback=_version, is_eager=True, help="Print the version."
    ),
    update: bool = typer.Option(
        False, "--update", callback=_update, is_eager=True, help="Install the newest kern."
    ),
) -> None:
    pass


def call(argv: list[str]) -> int:
    """The exit code. Raises UsageError for what typer refuses."""
    try:
        return int(app(argv, prog_name="kern", standalone_mode=False) or 0)
    except Exception as exc:
        if not hasattr(exc, "format_message"):  # typer's own complaints have it
            raise
        command = getattr(getattr(exc, "ctx", None), "info_name", None) or "run"
        more = f"kern {command} -h lists its options" if command != "kern" else "kern -h"
        if (near := getattr(exc, "possibilities", None)) is not None:  # an option that is none
            option = getattr(exc, "option_name", "")
            if what := GONE.get(option):
                raise UsageError(f"{option} is gone", hint=what) from None
            hint = f"type {near[0]}  ({more})" if near else more
            raise UsageError(f"no such option: {plain.line(option, 60)}", hint=hint) from None
        raise UsageError(exc.format_message(), hint=more) from None
