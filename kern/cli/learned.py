"""The commands that look up what was learned, as typer has them; see commands.py."""

from pathlib import Path
from typing import Annotated

import typer

from kern.cli.options import AsJson
from kern.cli.usage import command
from kern.errors import UsageError


@command
def search(
    query: Annotated[str, typer.Argument(metavar="WORDS", help="What to look for.")],
    fts: Annotated[bool, typer.Option("--fts", help="By words alone.")] = False,
    semantic: Annotated[bool, typer.Option("--semantic", help="By meaning alone.")] = False,
    hybrid: Annotated[
        bool, typer.Option("--hybrid", help="By both; so it is unless told, where it can.")
    ] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only decision, pattern, insight, sign, research, attempt, spec or file.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="At most so many results.")] = 10,
    as_json: AsJson = False,
) -> None:
    from kern.views import search

    if fts + semantic + hybrid > 1:
        raise UsageError("--fts, --semantic and --hybrid exclude each other", hint="give one")
    mode = "fts" if fts else "semantic" if semantic else "hybrid" if hybrid else ""
    print(search.shown(Path.cwd(), query, mode, kind or (), limit, as_json=as_json))
