"""The command line as typer has it: one app, whose usual command is `run`."""

import re
from typing import Any

import typer
from typer.core import TyperGroup

from kern import plain, toml
from kern.errors import UsageError


class Commands(TyperGroup):
    """`kern`, `kern 10 30` and `kern -n` are short for `kern run …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {word for one in self.params for word in one.opts} | {"-h", "--help"}
        first = args[0] if args else ""
        if first == "help" and args[1:] and args[1] in self.commands:
            args = [args[1], "--help"]
        elif what := toml.gone("words", first):
            raise UsageError(f"kern {first} is gone", hint=what)
        elif first not in own and not first[:1].isalpha():
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
        if what := toml.gone("words", option := getattr(exc, "option_name", "")):
            raise UsageError(f"{option} is gone", hint=what) from None
        command = getattr(getattr(exc, "ctx", None), "info_name", None) or "kern"
        hint = f"{'kern' if command == 'kern' else f'kern {command}'} -h"
        raise UsageError(plain.line(exc.format_message(), 200), hint=hint) from None
