"""The commands that change tasks, as typer has them; see commands.py."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kern.cli.help import COMMANDS
from kern.cli.options import Task
from kern.cli.usage import Command, app, command
from kern.errors import UsageError


@command
def answer(
    task: Annotated[
        str, typer.Argument(help="Its number in kern status, or a part of its text.")
    ] = "",
    text: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="The answer, on one line.")
    ] = None,
) -> None:
    from kern.cli import tasks

    tasks.answer(Path.cwd(), task, " ".join(text or ()))


@command
def add(
    task: Annotated[str, typer.Argument(metavar="WORDS", help="What is to be done.")] = "",
    after: Annotated[
        list[str] | None, typer.Option(metavar="TASK", help="A task that must be done first.")
    ] = None,
    gate: Annotated[
        list[str] | None, typer.Option(metavar="COMMAND", help="A command that must pass.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(metavar="WORDS", help="What a judge must find true.")
    ] = None,
    under: Annotated[str, typer.Option(metavar="TASK", help="The task that it belongs to.")] = "",
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Tasks of a file, - , gh, gh:OWNER/REPO, bd."),
    ] = None,
    label: Annotated[
        str, typer.Option(metavar="NAME", help="With --from gh: issues with this label.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="With --from: add without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="With --from: only show them.")
    ] = False,
) -> None:
    from kern.cli import imports, tasks

    if source is None and not (label or yes or dry_run):
        tasks.add(Path.cwd(), task, after or (), gate or (), judge or (), under)
        return
    if source is None or task or after or gate or judge or under:
        raise UsageError(
            "--label, --yes and -n go with --from, and nothing else does",
            hint="kern add --from TODO.md -n",
        )
    raise typer.Exit(imports.add(Path.cwd(), source, label, yes=yes, dry=dry_run))


def _mark(verb: str) -> None:
    @app.command(verb, cls=Command, help=COMMANDS[verb])
    def mark(task: Task) -> None:
        from kern.cli import tasks

        tasks.mark(Path.cwd(), task, verb)


for _verb in ("done", "reopen", "unblock", "retry"):
    _mark(_verb)


Reason = Annotated[str, typer.Argument(metavar="WORDS", help="Why, for the note in SPEC.md.")]


@command
def hold(task: Task, reason: Reason = "") -> None:
    from kern.cli import tasks

    tasks.hold(Path.cwd(), task, reason)


@command
def unhold(task: Task) -> None:
    from kern.cli import tasks

    tasks.unhold(Path.cwd(), task)


@command
def undo(task: Task) -> None:
    from kern.cli import tasks

    tasks.undo(Path.cwd(), task)


@command
def defer(task: Task, reason: Reason = "") -> None:
    from kern.cli import tasks

    tasks.defer(Path.cwd(), task, reason)


@command
def skip(task: Task, reason: Reason = "") -> None:
    from kern.cli import tasks

    tasks.defer(Path.cwd(), task, reason)
    said = "note: kern skip is called kern defer now; kern hold keeps a task from being taken"
    print(said, file=sys.stderr)


@command
def note(
    task: Task,
    text: Annotated[str, typer.Argument(metavar="WORDS", help="What the agents should know.")],
) -> None:
    from kern.cli import tasks

    tasks.note(Path.cwd(), task, text)
