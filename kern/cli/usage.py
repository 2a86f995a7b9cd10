"""A command's own help: how it is called, its arguments and options, examples."""

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Any

import typer
from typer.core import TyperCommand

from kern.cli.help import COMMANDS, EXAMPLES, MORE

_WIDTH = 79

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Command(TyperCommand):
    def get_help(self, ctx: Any) -> str:
        return text(str(self.name), self.get_params(ctx))


def command(body: Callable[..., None]) -> Callable[..., None]:
    """A command of its name, with the sentence that the overview has for it."""
    return app.command(body.__name__, cls=Command, help=COMMANDS[body.__name__])(body)


def text(name: str, params: Sequence[Any]) -> str:
    """`params`: of a command, as typer has them."""
    arguments = _arguments(params)
    lines = [f"Usage: {usage(name, params)}", ""]
    lines += [f"  {line}" for line in wrap(COMMANDS[name], _WIDTH - 2)]
    for title, rows in (("Arguments", arguments), ("Options", options(params))):
        shown = [(word(one), told(one)) for one in rows]
        if shown:
            lines += ["", f"{title}:", *table(shown)]
    lines += ["", "Examples:", *(f"  {line}" for line in EXAMPLES[name])]
    lines += ["", f"More: kern help {MORE[name]}"] if name in MORE else []
    return "\n".join(lines)


def usage(name: str, params: Sequence[Any]) -> str:
    words = [f"{word(one)}" if one.required else f"[{word(one)}]" for one in _arguments(params)]
    return " ".join(["kern", name, *words, "[OPTIONS]"])


def _arguments(params: Sequence[Any]) -> list[Any]:
    return [one for one in params if one.param_type_name == "argument"]


def params_of(app: typer.Typer, name: str) -> list[Any]:
    """Of one of its commands."""
    group: Any = typer.main.get_command(app)
    one = group.commands[name]
    return list(one.get_params(typer.Context(one, help_option_names=["-h", "--help"])))


def long_options(app: typer.Typer, name: str) -> list[tuple[str, str]]:
    """`--option` and what it does."""
    rows = options(params_of(app, name))
    return [(word, told(one)) for one in rows for word in one.opts if word.startswith("--")]


def options(params: Sequence[Any]) -> list[Any]:
    return [one for one in params if one.param_type_name == "option" and not one.hidden]


def word(param: Any) -> str:
    """`TASK` of an argument, `-o, --option VALUE` of an option."""
    name = str(param.metavar or param.name.upper())
    if param.param_type_name == "argument":
        return name
    return ", ".join(sorted(param.opts, key=len)) + ("" if param.is_flag else f" {name}")


def told(param: Any) -> str:
    default = param.default if isinstance(param.default, str) else ""
    shown = f" (default {default})" if default.strip("0") else ""
    return f"{param.help or ''}{' Can be repeated.' if param.multiple else ''}{shown}"


def table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Two columns, the second one wrapped."""
    left = min(26, max(len(first) for first, _ in rows)) + 4
    for first, second in rows:
        lines = wrap(second, _WIDTH - left) or [""]
        if len(first) > left - 4:
            lines.insert(0, "")
        for number, line in enumerate(lines):
            yield f"  {first if not number else '':{left - 2}}{line}".rstrip()
