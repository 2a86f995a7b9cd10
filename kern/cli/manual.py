"""`kern help --man`: the man page, made of the texts that --help shows."""

import re
from collections.abc import Iterator

import typer

from kern import __version__
from kern.cli import help as pages
from kern.cli.usage import options, params_of, told, usage, word


def page(app: typer.Typer) -> str:
    """In roff, as `man` reads it."""
    head, _, rest = pages.overview().partition("\n\n")
    groups = "|".join(pages.GROUPS)
    about, *sections = re.split(rf"^(?!{groups})([A-Z][a-z ]+):\n", rest, flags=re.M)
    about = re.split(rf"^(?:{groups}):\n", about, flags=re.M)[0]
    lines = [
        f'.TH KERN 1 "" "kern {__version__}" "User Commands"',
        *(".SH NAME", r"kern \- turns a checklist into commits you can trust"),
        *(".SH SYNOPSIS", *_plain(head.replace("Usage:", "      "))),
        *(".SH DESCRIPTION", *_about(about)),
        *(".SH COMMANDS", *_commands(app)),
    ]
    for title, rows in zip(sections[::2], sections[1::2], strict=True):
        lines += [f".SH {title.upper()}", *_rows(rows)]
    topics = "".join(f"  kern help {line.strip()}\n" for line in pages.listing().splitlines())
    return "\n".join([*lines, ".SH SEE ALSO", *_rows(topics), ""])


def _commands(app: typer.Typer) -> Iterator[str]:
    for title, group in pages.GROUPS.items():
        yield f".SS {title}"
        for name, (sentence, *examples) in group.items():
            params = params_of(app, name)
            yield from (".TP", f".B {_safe(usage(name, params))}", _safe(sentence), ".RS")
            for one in options(params)[:-1]:  # the last is --help
                yield from (".TP", f".B {_safe(word(one))}", _safe(told(one)))
            yield from (".RE", ".IP", *_plain("\n".join(examples)))


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
