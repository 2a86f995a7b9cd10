"""The commands that change tasks, and those that look up and change what was learned, as typer has
them; see commands.py.
"""

from pathlib import Path
from typing import Annotated

import typer

from kern import models
from kern.cli.app import app
from kern.cli.options import AgentName, AsJson, Model, Sandbox, Task, Trusted
from kern.errors import Exit, UsageError


@app.command(rich_help_panel="Tasks")
def answer(
    task: Annotated[
        str, typer.Argument(help="Its number in kern status, or a part of its text.")
    ] = "",
    text: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="The answer, on one line.")
    ] = None,
) -> None:
    """Answer a question; without arguments, list them."""
    from kern.cli import tasks

    tasks.answer(Path.cwd(), task, " ".join(text or ()))


@app.command(rich_help_panel="Tasks")
def add(
    task: Annotated[
        str,
        typer.Argument(metavar="WORDS", help="What is to be done; - : a list on standard input."),
    ] = "",
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
    yes: Annotated[bool, typer.Option("--yes", help="With -: add without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="With -: only show them.")
    ] = False,
) -> None:
    """Add a task to SPEC.md (safe during a run); options repeat."""
    from kern.cli import imports, tasks

    more = bool(after or gate or judge or under)
    if ((yes or dry_run) and task != "-") or (more and task == "-"):
        raise UsageError("--yes and -n go with -, and nothing else does", hint="kern add - -n")
    if task == "-":
        imports.add(Path.cwd(), yes=yes, dry=dry_run)
        return
    tasks.add(Path.cwd(), task, after or (), gate or (), judge or (), under)


@app.command(rich_help_panel="Tasks")
def done(task: Task) -> None:
    """Tick a task, and its parents if it is their last open subtask."""
    from kern.cli import tasks

    tasks.mark(Path.cwd(), task, "done")


@app.command(rich_help_panel="Tasks")
def reopen(task: Task) -> None:
    """Mark a task that is done or in progress as pending again."""
    from kern.cli import tasks

    tasks.mark(Path.cwd(), task, "reopen")


@app.command(rich_help_panel="Tasks")
def unblock(task: Task) -> None:
    """Give a blocked task back to kern, with all its attempts."""
    from kern.cli import tasks

    tasks.mark(Path.cwd(), task, "unblock")


@app.command(rich_help_panel="Tasks")
def retry(task: Task) -> None:
    """Forget a task's failed attempts; their work stays saved."""
    from kern.cli import tasks

    tasks.mark(Path.cwd(), task, "retry")


Reason = Annotated[str, typer.Argument(metavar="WORDS", help="Why, for the note in SPEC.md.")]


@app.command(rich_help_panel="Tasks")
def hold(task: Task, reason: Reason = "") -> None:
    """Keep a task from being taken until kern unhold (safe during a run)."""
    from kern.cli import tasks

    tasks.write(Path.cwd(), "hold", task, reason)


@app.command(rich_help_panel="Tasks")
def unhold(task: Task) -> None:
    """Let a held task be taken again (safe during a run)."""
    from kern.cli import tasks

    tasks.write(Path.cwd(), "unhold", task)


@app.command(rich_help_panel="Tasks")
def undo(task: Task) -> None:
    """Take a task's commit back by a new one, and open the task."""
    from kern.cli import tasks

    tasks.undo(Path.cwd(), task)


@app.command(rich_help_panel="Tasks")
def defer(task: Task, reason: Reason = "") -> None:
    """Let the other tasks come first (safe during a run)."""
    from kern.cli import tasks

    tasks.write(Path.cwd(), "defer", task, reason)


@app.command(rich_help_panel="Tasks")
def note(
    task: Task,
    text: Annotated[str, typer.Argument(metavar="WORDS", help="What the agents should know.")],
) -> None:
    """Write a note of yours under a task."""
    from kern.cli import tasks

    tasks.write(Path.cwd(), "note", task, text)


# -------------------------------------------------------------------- what was learned


@app.command(rich_help_panel="Look")
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What to look for.")],
    limit: Annotated[int, typer.Option(metavar="COUNT", help="At most so many results.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Search learnings, tasks, and what was found and tried."""
    from kern.views import search

    print(search.shown(Path.cwd(), " ".join(words), limit, as_json=as_json))


@app.command(rich_help_panel="Look")
def learn(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="A sentence for later tasks.")
    ] = None,
    when: Annotated[
        str, typer.Option(metavar="WORDS", help="The work that needs it, as 'A; B'.")
    ] = "",
    tidy: Annotated[
        bool, typer.Option("--tidy", help="Let an agent propose what to change in the file.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --tidy: without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="With --tidy: only show it.")
    ] = False,
    model: Model = None,
    agent: AgentName = None,
    sandbox: Sandbox = "",
    trusted: Trusted = False,
) -> int:
    """Write a learning for later tasks; --tidy: let an agent look after all of them."""
    from kern.cli import learnings, trust

    if tidy:
        by = models.of_options(model or (), None, agent or ())
        leave = trust.leave(sandbox, trust=trusted)
        return learnings.tidy(Path.cwd(), leave, by, yes=yes, dry=dry_run)
    learnings.add(Path.cwd(), " ".join(words or ()), when)
    return Exit.OK
