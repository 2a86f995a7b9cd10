"""kern's commands and options as typer has them; each body imports what it needs."""

from pathlib import Path
from typing import Annotated, Any

import typer

import kern.cli.edits  # noqa: F401 - its commands are known by that
from kern import models
from kern.cli import options
from kern.cli.app import app


def _leave(sandbox: str, trusted: bool) -> Any:
    """What the person lets the repository start."""
    from kern.cli.trust import leave

    return leave(sandbox, trust=trusted)


@app.command(rich_help_panel="Run")
def run(
    iterations: options.Iterations = None,
    delay: options.Delay = None,
    dry_run: options.DryRun = False,
    verbose: options.Verbose = False,
    no_wait: options.NoWait = False,
    no_sign: options.NoSign = False,
    max_cost: options.MaxCost = None,
    max_minutes: options.MaxMinutes = None,
    task: options.Only = None,
    until_done: options.UntilDone = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="The next task turns the red gates green.")
    ] = False,
    allow_red: Annotated[
        bool, typer.Option("--allow-red", help="Do not hold red gates against the tasks.")
    ] = False,
    until: options.Until = None,
    branch: options.Branch = None,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = "",
    model: options.Model = None,
    effort: options.Effort = None,
    agent: options.AgentName = None,
    no_fallback: options.NoFallback = False,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
    bare: options.Bare = False,
) -> int:
    """Carry out tasks; `kern [ITERATIONS] [DELAY]` is short for it."""
    from kern.cli import run as launch
    from kern.cli.trust import leave
    from kern.pipeline.options import Options

    return launch.run(
        Options(
            delay=options.DELAY if delay is None else delay,
            wait=not no_wait,
            sign=not no_sign,
            max_cost=max_cost or 0,
            max_minutes=(max_minutes or 0) / 60,
            until_done=until_done,
            on_red=launch.on_red(repair=repair, allow_red=allow_red),
            models=models.of_options(model or (), effort, agent or (), alone=no_fallback),
            leave=leave(sandbox, trust=trusted, bare=bare),
            branch=branch,
            until=until or 0,
            jobs=jobs or "",
            scheduler=scheduler,
        ),
        iterations,
        task,
        dry=dry_run,
        verbose=verbose,
    )


@app.command(rich_help_panel="Run")
def plan(
    goal: Annotated[
        str | None, typer.Argument(help="A text, a FILE.md, or - for standard input.")
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Is the goal reached? Add what is missing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Add the tasks without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show them.")] = False,
    model: options.Model = None,
    effort: options.Effort = None,
    agent: options.AgentName = None,
    no_fallback: options.NoFallback = False,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> int:
    """Let an agent compare a goal with the code, and add the tasks."""
    from kern.cli.plan import main

    by = models.of_options(model or (), effort, agent or (), alone=no_fallback)
    return main(Path.cwd(), goal, _leave(sandbox, trusted), by, review=review, yes=yes, dry=dry_run)


@app.command(rich_help_panel="Run")
def improve(
    count: Annotated[str, typer.Argument(help="How many improvements.")] = "1",
    goal: Annotated[str, typer.Argument(help="What to improve.")] = "",
    delay: options.Delay = None,
    model: options.Model = None,
    agent: options.AgentName = None,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> int:
    """Let an agent propose measurable improvements, and try each."""
    from kern.cli import run as launch
    from kern.pipeline.options import Options

    if any(map(str.isalpha, count)) and not goal:  # either may be left out
        count, goal = "1", count
    chosen = models.of_options(model or (), None, agent or ())
    asked = Options(improve=True, goal=goal, models=chosen, leave=_leave(sandbox, trusted))
    return launch.run(asked, options.number("COUNT", "kern improve 3", whole=True)(count), None)


@app.command(rich_help_panel="Set up")
def trust(yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False) -> int:
    """Show what this repository would have started, and take your yes."""
    from kern.cli.trust import give

    return give(Path.cwd(), yes=yes)


@app.command(rich_help_panel="Set up")
def init(
    unrun: Annotated[
        bool, typer.Option("--no-run", help="Only look for the checks; run none of them.")
    ] = False,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> None:
    """Write SPEC.md, LEARNINGS.md and kern.toml with the checks you have."""
    from kern.cli import init as first

    first.main(Path.cwd(), _leave(sandbox, trusted), run=not unrun)


@app.command(rich_help_panel="Set up")
def check(
    gates: Annotated[
        list[str] | None, typer.Argument(metavar="[GATE]...", help="Only these gates.")
    ] = None,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> int:
    """Run the gates now, as a run would; the exit code says it."""
    from kern.cli.check import main

    return main(Path.cwd(), gates or (), _leave(sandbox, trusted))


@app.command(rich_help_panel="Look")
def status(
    everything: Annotated[
        bool, typer.Option("--all", help="Every task, also of a long SPEC.md.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the tasks, what needs you, and how the last run went."""
    from kern.views.status import shown

    print(shown(Path.cwd(), everything=everything, as_json=as_json))


@app.command(rich_help_panel="Look")
def show(task: options.Task, as_json: options.AsJson = False) -> None:
    """Show everything about one task: answers, attempts, gates, cost."""
    from kern.views.show import shown

    print(shown(Path.cwd(), task, as_json=as_json))


@app.command(rich_help_panel="Run")
def stop(
    now: Annotated[bool, typer.Option("--now", help="End it at once, as Ctrl-C does.")] = False,
) -> None:
    """End the run in progress after its current stage."""
    from kern.cli import control

    control.stop_now(Path.cwd()) if now else control.stop(Path.cwd())


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
    from kern.views.report import shown

    print(shown(Path.cwd(), since, markdown=markdown, as_json=as_json, as_html=as_html))


@app.command(rich_help_panel="Look")
def pr(
    yes: Annotated[bool, typer.Option("--yes", help="Push and open it without asking.")] = False,
) -> int:
    """Print a pull request's text; push and open it after a yes."""
    from kern.cli.pr import main

    return main(Path.cwd(), yes=yes)


@app.command(rich_help_panel="Look")
def path() -> None:
    """Print the folder with the run files."""
    from kern.cli import setup

    setup.path(Path.cwd())


@app.command(rich_help_panel="Set up")
def doctor(as_json: options.AsJson = False) -> int:
    """Check what a run needs, and name a fix for each problem."""
    from kern.cli.doctor import main

    return main(Path.cwd(), as_json=as_json)


@app.command(rich_help_panel="Set up")
def clean(
    older: Annotated[str, typer.Option(metavar="TIME", help="Age: 30d, 12h, 0d.")] = "30d",
    everything: Annotated[
        bool, typer.Option("--all", help="Also delete saved attempts of open tasks.")
    ] = False,
    dry_run: options.DryRun = False,
) -> None:
    """Delete old task records and saved attempts of finished tasks."""
    from kern.cli import setup

    setup.clean(Path.cwd(), older, everything=everything, dry=dry_run)


@app.command(rich_help_panel="Set up")
def demo() -> int:
    """Watch kern work on a sample repository: no account, no network."""
    from kern.cli.demo import main

    return main()


@app.command(rich_help_panel="Set up")
def uninstall(yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False) -> int:
    """Remove kern, after asking; your repositories stay as they are."""
    from kern.cli import installed

    return installed.uninstall(yes=yes)


@app.command(rich_help_panel="Set up")
def help(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A page of kern help, or a command.")
    ] = "",
) -> None:
    """List the help pages, or show one."""
    from kern.cli.help import show

    show(topic)
