"""kern's commands and options as typer has them; each body imports what it needs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from kern import __version__, launch
from kern.errors import Exit

HELP = """\
Turn the checkboxes in SPEC.md into commits you can trust, one task at a time.

\b
kern            5 tasks, 10 s between them
kern 10 30      10 tasks, 30 s between them
kern -n         show what would happen, do nothing
kern run -h     its options: --no-wait, --max-cost, --max-minutes

For each task kern runs three fresh agent processes: research (read-only), implement (full access),
commit (git only). Kill it at any moment; the next run goes on from there.

\b
Exit codes:  0  done, the iterations are used up, or kern stop ended it
             1  a person is needed
             2  usage, SPEC.md, configuration, or a missing tool
             3  a budget or a usage limit
             130, 143, 129  interrupted

\b
KERN_DIR     where stage files and locks go (default /tmp/claude/kern)
KERN_CLAUDE  the agent's command (default claude)
"""

DryRun = Annotated[
    bool, typer.Option("-n", "--dry-run", help="Show what would happen; write nothing.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Debug lines; with -n the prompts.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="End at a usage limit instead of waiting for its reset.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Data for jq instead of text.")]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    subcommand_metavar="[ITERATIONS] [DELAY] | COMMAND [ARGS]...",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True, help=HELP)
def root(
    dry_run: DryRun = False,
    verbose: Verbose = False,
    version: Annotated[bool, typer.Option("-V", "--version", help="Print the version.")] = False,
    update: Annotated[bool, typer.Option("--update", help="Install the newest kern.")] = False,
) -> None:
    if version:
        print(f"kern {__version__}")
        raise typer.Exit(Exit.OK)
    if update:
        from kern import chores

        raise typer.Exit(chores.update())


@app.command()
def run(
    iterations: Annotated[str, typer.Argument(help="How many tasks.")] = launch.ITERATIONS,
    delay: Annotated[str, typer.Argument(help="Seconds between them.")] = launch.DELAY,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    no_wait: NoWait = False,
    max_cost: Annotated[str, typer.Option(help="End when so many dollars are spent.")] = "0",
    max_minutes: Annotated[str, typer.Option(help="Begin no stage after so long.")] = "0",
) -> None:
    """Carry out tasks; what `kern [ITERATIONS] [DELAY]` does."""
    raise typer.Exit(
        launch.run(
            iterations,
            delay,
            dry=dry_run,
            wait=not no_wait,
            max_cost=max_cost,
            max_minutes=max_minutes,
            verbose=verbose,
        )
    )


@app.command()
def init() -> None:
    """Write SPEC.md, LEARNINGS.md and kern.toml, never over a file."""
    from kern import chores

    chores.init(Path.cwd())


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the tasks: in progress, done, waiting, and why."""
    from kern import status as view

    found = view.snapshot(Path.cwd())
    print(_data(found) if as_json else view.text(found))


@app.command()
def stop(
    now: Annotated[bool, typer.Option("--now", help="As Ctrl-C: end its agent at once.")] = False,
) -> None:
    """End the run that is on here after its current stage; the next goes on from there."""
    from kern import asking
    from kern.request import Request

    asking.stop_now(Path.cwd()) if now else asking.ask(Path.cwd(), Request.STOP)


@app.command()
def pause() -> None:
    """Let the run that is on here wait after its current stage."""
    from kern import asking
    from kern.request import Request

    asking.ask(Path.cwd(), Request.PAUSE)


@app.command()
def resume() -> None:
    """Let a paused run go on; takes back a stop as well."""
    from kern import asking
    from kern.request import Request

    asking.ask(Path.cwd(), Request.RESUME)


@app.command()
def log(
    task: Annotated[str, typer.Option(help="Only tasks with this in their text.")] = "",
    run: Annotated[str, typer.Option(help="Only this run, by the beginning of its id.")] = "",
    follow: Annotated[bool, typer.Option("-f", help="Go on as lines come.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what happened, from the journal."""
    from kern import views

    views.log(Path.cwd(), task, run, follow=follow, as_json=as_json)


@app.command()
def report(
    since: Annotated[str, typer.Option(help="Age (2d, 12h) or date (2026-11-21).")] = "",
    markdown: Annotated[bool, typer.Option("--md", help="Markdown for a pull request.")] = False,
    as_json: AsJson = False,
    as_html: Annotated[bool, typer.Option("--html", help="One page with a timeline.")] = False,
) -> None:
    """Add up what was done, what it cost and what to review."""
    from kern import views

    print(views.report(Path.cwd(), since, markdown=markdown, as_json=as_json, as_html=as_html))


@app.command()
def path() -> None:
    """Print the folder with the stage files."""
    from kern import repo, workspace

    found = repo.open_at(Path.cwd())
    print(workspace.scope(found.root, found.head().name, create=False).folder)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check what a run needs; each problem with its fix."""
    from kern import doctor as clinic

    found = clinic.examine(Path.cwd(), launch.agent())
    print(_data(found) if as_json else clinic.text(found))
    raise typer.Exit(Exit.OK if all(check["ok"] for check in found) else Exit.USAGE)


@app.command()
def clean(
    older: Annotated[str, typer.Option(help="Age: 30d, 12h, 0d.")] = "30d",
) -> None:
    """Delete old history and kept attempts."""
    from kern import chores

    chores.clean(Path.cwd(), older)


@app.command()
def demo() -> None:
    """Watch it work on a sample repository: no account, no network."""
    from kern import demo as show

    raise typer.Exit(show.main())


def _data(found: object) -> str:
    """JSON in which what a terminal would act on stands as an escape."""
    from kern import plain

    text = json.dumps(found, indent=1, ensure_ascii=False)
    return plain.UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)
