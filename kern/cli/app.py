"""The command line as typer has it: one app, whose usual command is `run`."""

import re
from typing import Any

import typer
from typer.core import TyperGroup

from kern import plain, toml
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
                raise _unknown(first, [*self.commands])
            args = ["run", *args]
        # A list item is no option: kern add "- [ ] text"
        return super().parse_args(ctx, [f"\n{w}" if re.match(r"-[ \[]", w) else w for w in args])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands: dict[str, Any] = {n: one for n, one in self.commands.items() if not one.hidden}
        panels = dict.fromkeys(str(one.rich_help_panel) for one in commands.values())
        for panel in panels:
            with formatter.section(panel):
                formatter.write_dl(
                    (name, one.get_short_help_str(200))
                    for name, one in commands.items()
                    if one.rich_help_panel == panel
                )


def _unknown(word: str, commands: list[str]) -> KernError:
    import difflib

    if what := toml.gone("words", word):
        return UsageError(f"kern {word} is gone", hint=what)
    near = difflib.get_close_matches(word.lower(), commands, 1, 0.65)
    hint = f"type kern {near[0]}" if near else f'kern add "{word[:60]}", or kern --help'
    return UsageError(
        f"{plain.line(word, 60)!r} is neither a number of iterations nor a command", hint=hint
    )


app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes half a second
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, or stopped by kern stop; 1 a person is needed; 2 usage, "
    "configuration or a red gate; 3 a budget, a usage limit or an outage; 130, 143, 129 "
    "interrupted.",
)


def call(argv: list[str]) -> int:
    """The exit code. Raises UsageError for what typer refuses."""
    try:
        return int(app(argv, prog_name="kern", standalone_mode=False) or 0)
    except Exception as exc:
        if not hasattr(exc, "format_message"):  # typer's own complaints have it
            raise
        command = getattr(getattr(exc, "ctx", None), "info_name", None) or "run"
        hint = f"kern {command} -h lists its options" if command != "kern" else "kern -h"
        option: str = getattr(exc, "option_name", "")
        near: Any = getattr(exc, "possibilities", False)
        if near is False:
            raise UsageError(exc.format_message(), hint=hint) from None
        if what := toml.gone("words", option):
            raise UsageError(f"{option} is gone", hint=what) from None
        hint = f"type {near[0]}  ({hint})" if near else hint
        raise UsageError(f"no such option: {plain.line(option, 60)}", hint=hint) from None
