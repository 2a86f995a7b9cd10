"""kern's commands as typer has them: a command is a function, and its docstring is its help. Each
body imports what it needs.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from kern import models
from kern.cli import options
from kern.cli.app import app
from kern.errors import UsageError


def _leave(trusted: bool) -> Any:
    """What the person lets the repository start."""
    from kern.cli.trust import leave

    return leave(trusted)


@app.command(rich_help_panel="Run")
def run(
    iterations: options.Iterations = None,
    delay: options.Delay = None,
    dry_run: options.DryRun = False,
    verbose: options.Verbose = False,
    jobs: options.Jobs = None,
    task: options.Only = None,
    model: options.Model = None,
    agent: options.AgentName = None,
    max_cost: options.MaxCost = None,
    until: options.Until = None,
    no_wait: options.NoWait = False,
    until_done: options.UntilDone = False,
    allow_red: options.AllowRed = False,
    trusted: options.Trusted = False,
    scheduler: options.Scheduler = "",
    no_sign: options.NoSign = False,
) -> int:
    """Carry out tasks; `kern [ITERATIONS] [DELAY]` is short for it."""
    from kern.cli import run as launch
    from kern.model import OnRed
    from kern.pipeline.site import Options

    asked = Options(
        delay=options.DELAY if delay is None else delay,
        wait=not no_wait,
        sign=not no_sign,
        max_cost=max_cost or 0,
        until_done=until_done,
        on_red=OnRed.ALLOW if allow_red else OnRed.STOP,
        models=models.of_options(model or (), agent or ()),
        leave=_leave(trusted),
        until=until or 0,
        jobs=jobs or "",
        scheduler=scheduler,
    )
    return launch.run(asked, iterations, task, dry=dry_run, verbose=verbose)


@app.command(rich_help_panel="Run")
def plan(
    goal: Annotated[
        str | None, typer.Argument(help="A text, a FILE.md, or - for standard input.")
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Is the goal reached? Add what is missing.")
    ] = False,
    improve: Annotated[
        bool, typer.Option("--improve", help="Propose one improvement that can be measured.")
    ] = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    model: options.Model = None,
    agent: options.AgentName = None,
    trusted: options.Trusted = False,
) -> int:
    """Let an agent compare a goal with the code, and add the tasks."""
    from kern.cli.plan import main
    from kern.stages.proposal import Mode

    if review and improve:
        raise UsageError("--review and --improve exclude each other", hint="kern plan --review")
    mode = Mode.IMPROVE if improve else Mode.REVIEW if review else Mode.PLAN
    by = models.of_options(model or (), agent or ())
    return main(Path.cwd(), goal, _leave(trusted), by, mode, yes=yes, dry=dry_run)


@app.command(rich_help_panel="Run")
def stop(
    now: Annotated[bool, typer.Option("--now", help="End it at once, as Ctrl-C does.")] = False,
) -> None:
    """End the run in progress after its current stage."""
    from kern.cli import control

    control.stop_now(Path.cwd()) if now else control.stop(Path.cwd())


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
def edit() -> None:
    """Open SPEC.md in your editor; safe during a run.

    A box is [ ] for open and [x] for done. Lines below a task, indented:

    > **Held:** why (kern does not take it until the line is gone)

    > **After:** the text of another task (it waits for that)

    > **Gate:** `a command` (it must pass)

    > **Judge:** a claim (it must be found true)

    Any other line is a note that the agents read.
    """
    from kern.cli import edit as editing

    editing.main(Path.cwd())


@app.command(rich_help_panel="Tasks")
def undo(task: options.Task) -> None:
    """Take a task's commit back by a new one, and open the task."""
    from kern.cli import tasks

    tasks.undo(Path.cwd(), task)


@app.command(rich_help_panel="Tasks")
def retry(task: options.Task) -> None:
    """Forget a task's failed attempts; their work stays saved."""
    from kern.cli import tasks

    tasks.retry(Path.cwd(), task)


@app.command(rich_help_panel="Look")
def status(
    everything: Annotated[
        bool, typer.Option("--all", help="Every task, also of a long SPEC.md.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the tasks, what needs you, and how the last run went."""
    from kern.views import log, status

    found = status.shown(Path.cwd(), everything=everything, as_json=as_json)
    log.tell(found, as_data=as_json)


@app.command(rich_help_panel="Look")
def show(task: options.Task, as_json: options.AsJson = False) -> None:
    """Show everything about one task: answers, attempts, gates, cost."""
    from kern.views import log, show

    log.tell(show.shown(Path.cwd(), task, as_json=as_json), as_data=as_json)


@app.command(rich_help_panel="Look")
def log(
    task: Annotated[
        str, typer.Option(metavar="TASK", help="Only tasks with this in their text.")
    ] = "",
    run: Annotated[
        str, typer.Option(metavar="NAME", help="Only this run, by the beginning of its id.")
    ] = "",
    follow: Annotated[bool, typer.Option("-f", help="Keep printing new entries.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what happened, from the journal."""
    from kern.views.log import show

    show(Path.cwd(), task, run, follow=follow, as_json=as_json)


@app.command(rich_help_panel="Look")
def report(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="today, yesterday, 2d, 12h or 2026-11-21.")
    ] = "",
    markdown: Annotated[bool, typer.Option("--md", help="Markdown for a pull request.")] = False,
    as_json: options.AsJson = False,
    as_html: Annotated[bool, typer.Option("--html", help="One page with a timeline.")] = False,
) -> None:
    """Add up what was done, what it cost and what to review."""
    from kern.views import log, report

    found = report.shown(Path.cwd(), since, markdown=markdown, as_json=as_json, as_html=as_html)
    log.tell(found, as_data=markdown or as_json or as_html)


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
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    model: options.Model = None,
    agent: options.AgentName = None,
    trusted: options.Trusted = False,
) -> int:
    """Write a learning for later tasks; --tidy: let an agent look after all of them."""
    from kern.cli import learnings

    if tidy:
        by = models.of_options(model or (), agent or ())
        return learnings.tidy(Path.cwd(), _leave(trusted), by, yes=yes, dry=dry_run)
    learnings.add(Path.cwd(), " ".join(words or ()), when)
    return 0


@app.command(rich_help_panel="Look")
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What to look for.")],
    limit: Annotated[int, typer.Option(metavar="COUNT", help="At most so many results.")] = 10,
    as_json: options.AsJson = False,
) -> None:
    """Search learnings, tasks, and what was found and tried."""
    from kern.views import log, search

    found = search.shown(Path.cwd(), " ".join(words), limit, as_json=as_json)
    log.tell(found, as_data=as_json)


@app.command(rich_help_panel="Set up")
def init(
    unrun: Annotated[
        bool, typer.Option("--no-run", help="Only look for the checks; run none of them.")
    ] = False,
    trusted: options.Trusted = False,
) -> None:
    """Write SPEC.md, LEARNINGS.md and kern.toml with the checks you have."""
    from kern.cli import init as first

    first.main(Path.cwd(), _leave(trusted), run=not unrun)


@app.command(rich_help_panel="Set up")
def check(
    gates: Annotated[
        list[str] | None, typer.Argument(metavar="[GATE]...", help="Only these gates.")
    ] = None,
    trusted: options.Trusted = False,
) -> int:
    """Run the gates now, as a run would; the exit code says it."""
    from kern.cli.check import main

    return main(Path.cwd(), gates or (), _leave(trusted))


@app.command(rich_help_panel="Set up")
def doctor(as_json: options.AsJson = False) -> int:
    """Check what a run needs, and name a fix for each problem."""
    from kern.cli.doctor import main

    return main(Path.cwd(), as_json=as_json)


@app.command(rich_help_panel="Set up")
def demo() -> int:
    """Watch kern work on a sample repository: no account, no network."""
    from kern.cli.demo import main

    return main()


@app.command(rich_help_panel="Look")
def path() -> None:
    """Print the folder with the run files."""
    from kern.cli import setup

    setup.path(Path.cwd())


@app.command(rich_help_panel="Set up")
def help(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A page of kern help, or a command.")
    ] = "",
) -> None:
    """List the help pages, or show one."""
    from kern.cli.help import show

    show(topic)
