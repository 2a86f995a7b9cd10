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


@command
def recall(
    query: Annotated[str, typer.Argument(metavar="WORDS", help="What you are about to do.")],
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only decision, pattern, insight or sign."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="At most so many entries.")] = 5,
    as_json: AsJson = False,
) -> None:
    from kern.views import learnings

    print(learnings.recalled(Path.cwd(), query, kind or (), limit, as_json=as_json))


@command
def learn(
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORDS", help="A text; or list, show L7, vote L7, retire L7."),
    ],
    helpful: Annotated[bool, typer.Option("--helpful", help="With vote: it helped.")] = False,
    harmful: Annotated[bool, typer.Option("--harmful", help="With vote: it misled.")] = False,
    why: Annotated[str, typer.Option(metavar="WORDS", help="With vote or retire.")] = "",
    kind: Annotated[
        str, typer.Option(metavar="NAME", help="Of a new one: decision, pattern, insight or sign.")
    ] = "",
    when: Annotated[
        str, typer.Option(metavar="WORDS", help="Of a new one: the work that needs it, as 'A; B'.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    from kern.cli import learnings as edits
    from kern.views import learnings

    match words:
        case ["list"]:
            print(learnings.listed(Path.cwd(), as_json=as_json))
        case ["show", entry]:
            print(learnings.shown(Path.cwd(), entry, as_json=as_json))
        case ["vote", entry]:
            edits.vote(Path.cwd(), entry, helpful=helpful, harmful=harmful, why=why)
        case ["retire", entry]:
            edits.retire(Path.cwd(), entry, why)
        case ["show" | "vote" | "retire" as verb]:
            raise UsageError(f"{verb} which entry?", hint=f"kern learn {verb} L7")
        case _:
            edits.add(Path.cwd(), " ".join(words), kind, when)
