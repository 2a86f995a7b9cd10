"""kern's commands as typer has them: a command is a function, and its docstring is its help. Each
body imports what it needs.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Context, Option

from kern import __version__
from kern.cli import options
from kern.cli.app import app
from kern.errors import UsageError


@app.callback(
    invoke_without_command=True,
    help="Turn the checkboxes in SPEC.md into commits you can trust, one task at a time.\n\n"
    "`kern 10 30s` carries out ten tasks, 30 s between them; `kern -n` shows what would happen; "
    "`kern help` lists the pages. For each task three fresh agent processes run: research, "
    "implement, commit. Kill it at any moment: the next run goes on from there.",
)
def _kern(
    version: bool = Option(False, "--version", "-V", help="Print the version."),
    update: bool = Option(False, "--update", help="Install the newest kern."),
) -> None:
    if version:
        print(f"kern {__version__}")
        raise typer.Exit
    if update:
        from kern.cli import admin

        raise typer.Exit(admin.update())


@app.command(rich_help_panel="Run")
def run(
    ctx: Context,
    iterations: options.Iterations = None,
    delay: options.Delay = None,
    dry_run: options.DryRun = False,
    verbose: options.Verbose = False,
    jobs: options.Jobs = None,
    task: options.Only = None,
    model: options.Model = None,
    agent: options.Agent = None,
    max_cost: options.MaxCost = 0,
    until: options.Until = None,
    no_wait: options.NoWait = False,
    until_done: options.UntilDone = False,
    allow_red: options.AllowRed = False,
    trust: options.Trusted = False,
    scheduler: options.Scheduler = "",
    no_sign: options.NoSign = False,
) -> int:
    """Carry out tasks; `kern [ITERATIONS] [DELAY]` is short for it."""
    from kern.cli import run as launch

    return launch.run(ctx.params)


@app.command(rich_help_panel="Run")
def plan(
    goal: Annotated[str | None, Argument(help="What you want; else what SPEC.md states.")] = None,
    review: Annotated[bool, Option("--review", help="What is missing of the goal?")] = False,
    improve: Annotated[bool, Option("--improve", help="Propose one improvement.")] = False,
    yes: options.Yes = False,
    trust: options.Trusted = False,
) -> int:
    """Let an agent compare a goal with the code, and add the tasks."""
    from kern.cli import plan as planning
    from kern.stages.plan import Mode

    if review and improve:
        raise UsageError("--review and --improve exclude each other", hint="kern plan --review")
    if goal is not None and not goal.strip():  # a script's empty variable pays for nothing
        raise UsageError("a goal that says nothing", hint='kern plan "what you want"')
    mode = Mode.IMPROVE if improve else Mode.REVIEW if review else Mode.PLAN
    return planning.plan(Path.cwd(), goal or "", mode, trust=trust, yes=yes)


@app.command(rich_help_panel="Run")
def stop(as_json: options.AsJson = False) -> None:
    """End the run in progress after its current stage."""
    from kern.cli import admin

    with options.as_data(as_json):
        admin.stop(Path.cwd())


@app.command(rich_help_panel="Tasks")
def add(
    text: Annotated[str, Argument(metavar="WORDS", help="Or - : a list on standard input.")] = "",
    after: Annotated[options.Names, Option(metavar="TASK", help="What must come first.")] = None,
    gate: Annotated[options.Names, Option(metavar="COMMAND", help="What must pass.")] = None,
    judge: Annotated[options.Names, Option(metavar="WORDS", help="What must be true.")] = None,
    yes: Annotated[bool, Option("--yes", help="With -: add without asking.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Add a task to SPEC.md (safe during a run); options repeat."""
    from kern.cli import tasks

    if text == "-" and (after or gate or judge):
        raise UsageError("the list itself says what its tasks need", hint="kern add -")
    with options.as_data(as_json):
        if text == "-":
            tasks.add_list(Path.cwd(), yes=yes)
        else:
            tasks.add(Path.cwd(), text, after or (), gate or (), judge or ())


@app.command(rich_help_panel="Tasks")
def answer(
    task: Annotated[str, Argument(metavar="TASK", help="As status has it; - : notify's JSON.")],
    text: options.Words = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer a question, as kern status shows it."""
    from kern.cli import tasks

    with options.as_data(as_json):
        if task == "-" and not text:
            tasks.take_notice(Path.cwd())
        else:
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
    from kern.cli import tasks

    tasks.edit(Path.cwd())


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
    everything: Annotated[bool, Option("--all", help="Every task, also of a long list.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the tasks, what needs you, and how the last run went."""
    from kern.views import log, status

    state = status.snapshot(Path.cwd())
    log.view(state, status.lines(state, everything=everything), as_json=as_json)


@app.command(rich_help_panel="Look")
def show(task: options.Task, as_json: options.AsJson = False) -> None:
    """Show everything about one task: answers, attempts, gates, cost."""
    from kern.views import log, show

    facts = show.snapshot(Path.cwd(), task)
    log.view(facts, show.lines(facts), as_json=as_json)


@app.command(rich_help_panel="Look")
def log(
    task: Annotated[str, Option(metavar="TASK", help="Tasks with this in their text.")] = "",
    run: Annotated[str, Option(metavar="NAME", help="The run whose id begins so.")] = "",
    follow: Annotated[bool, Option("-f", help="Keep printing new entries.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what happened, from the journal."""
    from kern.views.log import show

    show(Path.cwd(), task, run, follow=follow, as_json=as_json)


@app.command(rich_help_panel="Look")
def report(
    since: Annotated[str, Option(metavar="TIME", help="today, 2d, 12h or 2026-11-21.")] = "",
    markdown: Annotated[bool, Option("--md", help="Markdown for a pull request.")] = False,
    as_json: options.AsJson = False,
    as_html: Annotated[bool, Option("--html", help="One page with a timeline.")] = False,
    serve: options.Serve = None,
) -> None:
    """Add up what was done, what it cost and what to review."""
    from kern.views import log, report

    if serve is not None:
        from kern.views import follow

        follow.serve(Path.cwd(), since, serve)
    else:
        text = report.shown(Path.cwd(), since, markdown=markdown, as_json=as_json, as_html=as_html)
        log.tell(text, as_data=markdown or as_json or as_html)


@app.command(rich_help_panel="Look")
def learn(
    words: options.Words = None,
    when: Annotated[str, Option(metavar="WORDS", help="The work that needs it: 'A; B'.")] = "",
    tidy: Annotated[bool, Option("--tidy", help="Let an agent propose changes.")] = False,
    yes: options.Yes = False,
    trust: options.Trusted = False,
) -> int:
    """Write a learning for later tasks, or have all of them looked after."""
    from kern.cli import plan as planning

    if tidy:
        return planning.tidy(Path.cwd(), trust=trust, yes=yes)
    planning.learn(Path.cwd(), " ".join(words or ()), when)
    return 0


@app.command(rich_help_panel="Look")
def search(
    words: Annotated[list[str], Argument(metavar="WORDS", help="What to look for.")],
    as_json: options.AsJson = False,
) -> None:
    """Search learnings, tasks, and what was found and tried."""
    from kern.views import log, search

    hits = search.hits(Path.cwd(), " ".join(words))
    log.view(hits, search.lines(hits), as_json=as_json)


@app.command(rich_help_panel="Set up")
def init(
    agents: Annotated[bool, Option("--agents", help="Only tell your agents of kern.")] = False,
    trust: options.Trusted = False,
) -> None:
    """Write SPEC.md, LEARNINGS.md and kern.toml with the checks you have."""
    from kern.cli import asking, offers, project

    if agents:
        offers.skill(Path.cwd())
    else:
        project.init(Path.cwd(), asking.leave(trust))


@app.command(rich_help_panel="Set up", hidden=True)
def ci(what: Annotated[str, Argument(metavar="init")] = "", yes: options.Yes = False) -> None:
    """Write two GitHub workflows: a night's tasks, and an issue's, each as a draft pull request."""
    from kern.cli import offers

    if what != "init":
        raise UsageError("kern ci does one thing: it writes workflows", hint="kern ci init")
    offers.workflows(Path.cwd(), yes=yes)


@app.command(rich_help_panel="Set up")
def check(
    gates: Annotated[options.Names, Argument(metavar="GATE", help="Only these.")] = None,
    jobs: Annotated[bool, Option("-j", "--jobs", help="In a fresh worktree too.")] = False,
    trust: options.Trusted = False,
) -> int:
    """Run the gates now, as a run would; the exit code says it."""
    from kern.cli import asking, project

    return project.check(Path.cwd(), gates or (), asking.leave(trust), jobs=jobs)


@app.command(rich_help_panel="Set up")
def doctor(as_json: options.AsJson = False) -> int:
    """Check what a run needs, and name a fix for each problem."""
    from kern.views import doctor, log

    rows = doctor.examine(Path.cwd())
    log.view(rows, doctor.lines(rows), as_json=as_json)
    return 0 if all(check["ok"] for check in rows) else 2


@app.command(rich_help_panel="Set up")
def demo() -> int:
    """Watch kern work on a sample repository: no account, no network."""
    from kern.cli import demo as shown

    return shown.main()


@app.command(rich_help_panel="Look")
def path() -> None:
    """Print the folder with the run files."""
    from kern.cli import admin

    admin.path(Path.cwd())


@app.command(rich_help_panel="Set up")
def help(topic: Annotated[str, Argument(help="A page, or a command.")] = "") -> None:
    """List the help pages, or show one."""
    from kern.cli import admin

    admin.help(topic)


@app.command(hidden=True)
def mcp() -> None:
    """Give the agent that you talk to seven tools, by MCP on standard input and output."""
    from kern.cli import mcp

    mcp.serve()
