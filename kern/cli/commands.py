"""kern's commands and options as typer has them; each body imports what it needs."""

from pathlib import Path
from typing import Annotated, Any

import typer

import kern.cli.edits  # noqa: F401 - its commands are known by that
from kern import models
from kern.cli import options
from kern.cli import run as launch
from kern.cli.help import show as page
from kern.cli.usage import app as app
from kern.cli.usage import command


def _leave(sandbox: str, trusted: bool) -> Any:
    """What the person lets the repository start."""
    from kern.cli.trust import leave

    return leave(sandbox, trust=trusted)


@command
def run(
    iterations: Annotated[
        str, typer.Argument(help=f"How many tasks (default {launch.ITERATIONS}).")
    ] = "",
    delay: Annotated[
        str, typer.Argument(help="Time between two tasks: 30 (seconds), 30s, 5m, 1h30m.")
    ] = launch.DELAY,
    dry_run: options.DryRun = False,
    verbose: options.Verbose = False,
    no_wait: options.NoWait = False,
    no_sign: options.NoSign = False,
    max_cost: options.MaxCost = "0",
    max_minutes: options.MaxMinutes = "0",
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
    quiet: options.Quiet = False,
    model: options.Model = None,
    effort: options.Effort = None,
    agent: options.AgentName = None,
    no_fallback: options.NoFallback = False,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
    bare: options.Bare = False,
) -> None:
    raise typer.Exit(
        launch.run(
            iterations,
            delay,
            until=until,
            branch=branch,
            jobs=jobs,
            scheduler=scheduler,
            quiet=quiet,
            until_done=until_done,
            repair=repair,
            allow_red=allow_red,
            dry=dry_run,
            wait=not no_wait,
            sign=not no_sign,
            max_cost=max_cost,
            max_minutes=max_minutes,
            verbose=verbose,
            sandbox=sandbox,
            trust=trusted,
            bare=bare,
            models=models.of_options(model or (), effort, agent or (), alone=no_fallback),
            task=task,
        )
    )


@command
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
) -> None:
    from kern.cli.plan import main

    by = models.of_options(model or (), effort, agent or (), alone=no_fallback)
    raise typer.Exit(
        main(Path.cwd(), goal, _leave(sandbox, trusted), by, review=review, yes=yes, dry=dry_run)
    )


@command
def improve(
    count: Annotated[str, typer.Argument(help="How many improvements.")] = "1",
    goal: Annotated[str, typer.Argument(help="What to improve.")] = "",
    delay: Annotated[
        str, typer.Option(metavar="TIME", help="Between two of them: 30 (seconds), 30s, 5m.")
    ] = launch.DELAY,
    max_cost: options.MaxCost = "0",
    max_minutes: options.MaxMinutes = "0",
    model: options.Model = None,
    effort: options.Effort = None,
    agent: options.AgentName = None,
    no_fallback: options.NoFallback = False,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> None:
    if any(map(str.isalpha, count)) and not goal:  # either may be left out
        count, goal = "1", count
    by = models.of_options(model or (), effort, agent or (), alone=no_fallback)
    raise typer.Exit(
        launch.run(
            count,
            delay,
            improve=True,
            goal=goal,
            max_cost=max_cost,
            max_minutes=max_minutes,
            sandbox=sandbox,
            trust=trusted,
            models=by,
        )
    )


@command
def reflect(
    yes: Annotated[bool, typer.Option("--yes", help="Change it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Ask; only show it.")] = False,
    model: options.Model = None,
    effort: options.Effort = None,
    agent: options.AgentName = None,
    no_fallback: options.NoFallback = False,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> None:
    from kern.cli.reflect import main

    by = models.of_options(model or (), effort, agent or (), alone=no_fallback)
    raise typer.Exit(main(Path.cwd(), _leave(sandbox, trusted), by, yes=yes, dry=dry_run))


@command
def trust(yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False) -> None:
    from kern.cli.trust import give

    raise typer.Exit(give(Path.cwd(), yes=yes))


@command
def init(
    unrun: Annotated[
        bool, typer.Option("--no-run", help="Only look for the checks; run none of them.")
    ] = False,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> None:
    from kern.cli import init as first

    first.main(Path.cwd(), _leave(sandbox, trusted), run=not unrun)


@command
def check(
    gates: Annotated[
        list[str] | None, typer.Argument(metavar="[GATE]...", help="Only these gates.")
    ] = None,
    sandbox: options.Sandbox = "",
    trusted: options.Trusted = False,
) -> None:
    from kern.cli.check import main

    raise typer.Exit(main(Path.cwd(), gates or (), _leave(sandbox, trusted)))


@command
def status(
    everything: Annotated[
        bool, typer.Option("--all", help="Every task, also of a long SPEC.md.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    from kern.views.status import shown

    print(shown(Path.cwd(), everything=everything, as_json=as_json))


@command
def show(task: options.Task, as_json: options.AsJson = False) -> None:
    from kern.views.show import shown

    print(shown(Path.cwd(), task, as_json=as_json))


@command
def stop(
    now: Annotated[bool, typer.Option("--now", help="End it at once, as Ctrl-C does.")] = False,
) -> None:
    from kern.cli import control

    control.stop_now(Path.cwd()) if now else control.stop(Path.cwd())


@command
def graph() -> None:
    from kern.cli import tasks

    print(tasks.drawing(Path.cwd()))


@command
def fleet(as_json: options.AsJson = False) -> None:
    from kern.views.fleet import shown

    print(shown(Path.cwd(), as_json=as_json))


@command
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
    from kern.views.log import show

    show(Path.cwd(), task, run, follow=follow, as_json=as_json)


@command
def report(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="today, yesterday, 2d, 12h or 2026-11-21.")
    ] = "",
    markdown: Annotated[bool, typer.Option("--md", help="Markdown for a pull request.")] = False,
    as_json: options.AsJson = False,
    as_html: Annotated[bool, typer.Option("--html", help="One page with a timeline.")] = False,
) -> None:
    from kern.views.report import shown

    print(shown(Path.cwd(), since, markdown=markdown, as_json=as_json, as_html=as_html))


@command
def pr(
    yes: Annotated[bool, typer.Option("--yes", help="Push and open it without asking.")] = False,
) -> None:
    from kern.cli.pr import main

    raise typer.Exit(main(Path.cwd(), yes=yes))


@command
def path() -> None:
    from kern.cli import setup

    setup.path(Path.cwd())


@command
def doctor(as_json: options.AsJson = False) -> None:
    from kern.cli.doctor import main

    raise typer.Exit(main(Path.cwd(), as_json=as_json))


@command
def clean(
    older: Annotated[str, typer.Option(metavar="TIME", help="Age: 30d, 12h, 0d.")] = "30d",
    everything: Annotated[
        bool, typer.Option("--all", help="Also delete saved attempts of open tasks.")
    ] = False,
    dry_run: options.DryRun = False,
) -> None:
    from kern.cli import setup

    setup.clean(Path.cwd(), older, everything=everything, dry=dry_run)


@command
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    from kern.cli.completion import script

    print(script(shell), end="")


@command
def demo() -> None:
    from kern.cli.demo import main

    raise typer.Exit(main())


@command
def uninstall(yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False) -> None:
    from kern.cli import installed

    raise typer.Exit(installed.uninstall(yes=yes))


@command
def help(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A page of kern help, or a command.")
    ] = "",
    man: Annotated[bool, typer.Option("--man", help="Print a man page of every command.")] = False,
) -> None:
    if man:
        from kern.cli import usage

        print(usage.manual(), end="")
    else:
        page(topic)
