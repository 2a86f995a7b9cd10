"""A command's own help: how it is called, its arguments and options, examples. And the man page
that all of these make.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Any

import typer
from typer.core import TyperCommand

from kern import __version__
from kern.cli import help as pages
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


# -------------------------------------------------------------------- kern help --man


def manual() -> str:
    """The man page, in roff as `man` reads it."""
    head, _, rest = pages.OVERVIEW.partition("\n\n")
    groups = "|".join(pages.GROUPS)
    about, *sections = re.split(rf"^(?!{groups})([A-Z][a-z ]+):\n", rest, flags=re.M)
    about = re.split(rf"^(?:{groups}):\n", about, flags=re.M)[0]
    lines = [
        f'.TH KERN 1 "" "kern {__version__}" "User Commands"',
        *(".SH NAME", r"kern \- turns a checklist into commits you can trust"),
        *(".SH SYNOPSIS", *_plain(head.replace("Usage:", "      "))),
        *(".SH DESCRIPTION", *_about(about)),
        *(".SH COMMANDS", *_commands()),
    ]
    for title, rows in zip(sections[::2], sections[1::2], strict=True):
        lines += [f".SH {title.upper()}", *_rows(rows)]
    topics = "".join(f"  kern help {line.strip()}\n" for line in pages.listing().splitlines())
    return "\n".join([*lines, ".SH SEE ALSO", *_rows(topics), ""])


def _commands() -> Iterator[str]:
    for title, group in pages.GROUPS.items():
        yield f".SS {title}"
        for name, sentence in group.items():
            params = params_of(app, name)
            yield from (".TP", f".B {_safe(usage(name, params))}", _safe(sentence), ".RS")
            for one in options(params)[:-1]:  # the last is --help
                yield from (".TP", f".B {_safe(word(one))}", _safe(told(one)))
            yield from (".RE", ".IP", *_plain("\n".join(EXAMPLES[name])))


def _about(text: str) -> Iterator[str]:
    """Paragraphs; what is laid out in columns stays so."""
    for part in text.strip("\n").split("\n\n"):
        yield ".PP"
        if re.search(r"\S   +\S", part):
            yield from _plain(part)
        else:
            yield from (_safe(line) for line in part.splitlines())


def _rows(text: str) -> Iterator[str]:
    for line in filter(None, text.splitlines()):
        first, _, second = line.strip().partition("  ")
        if line.startswith("  "):
            yield from (".TP", f".B {_safe(first)}", _safe(second))
        else:
            yield from (".PP", _safe(line))


def _plain(text: str) -> Iterator[str]:
    yield from (".nf", *(_safe(line) for line in text.splitlines()), ".fi")


def _safe(line: str) -> str:
    """As text, whatever roff makes of its signs."""
    text = line.strip().replace("\\", r"\e").replace("-", r"\-").replace("`", "")
    return rf"\&{text}" if text.startswith((".", "'")) else text
