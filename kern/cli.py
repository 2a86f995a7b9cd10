"""The command line: arguments in, one call, an exit code out. The rest is imported when a command
runs.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated

from kern import __version__
from kern.errors import Exit, Interrupted, KernError, UsageError

_COMMANDS = ("run", "init", "status", "path", "doctor", "clean", "demo")
_ROOT_FLAGS = frozenset(("-h", "--help", "-V", "--version", "--update"))

HELP = """\
Turn the checkboxes in SPEC.md into commits you can trust, one task at a time.

\b
kern            5 tasks, 10 s between them
kern 10 30      10 tasks, 30 s between them
kern -n         show what would happen, do nothing

For each task kern runs three fresh agent processes: research (read-only), implement (full access),
commit (git only). Kill it at any moment; the next run goes on from there.

\b
Exit codes:  0  done, or the iterations are used up
             1  a person is needed
             2  usage, SPEC.md, configuration, or a missing tool
             3  a usage limit
             130, 143, 129  interrupted

\b
KERN_DIR     where stage files and locks go (default /tmp/claude/kern)
KERN_CLAUDE  the agent's command (default claude)
"""


def main() -> None:
    """Route, run, and turn what was raised into one message and an exit code."""
    sys.exit(_guarded(sys.argv[1:]))


def _guarded(argv: list[str]) -> int:
    try:
        if argv in (["-V"], ["--version"]):  # faster than what it takes to load typer
            print(f"kern {__version__}")
            return Exit.OK
        return _app(route(argv))
    except (KernError, Interrupted) as exc:
        return _complain(exc)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except OSError as exc:
        where = f" {exc.filename}" if exc.filename else ""
        return _complain(
            KernError(
                f"cannot use{where}: {exc.strerror}",
                hint="settle it, then run kern again: it resumes",
            )
        )


def _complain(exc: KernError | Interrupted) -> int:
    from kern import plain

    if isinstance(exc, Interrupted):
        print("kern: interrupted; run it again and it goes on from here", file=sys.stderr)
        return exc.exit_code
    first, *rest = plain.block(str(exc)).splitlines() or [""]
    print(f"kern: {first}", *(f"      {line}" for line in rest), sep="\n", file=sys.stderr)
    if exc.hint:
        print(f"  hint: {plain.block(exc.hint)}", file=sys.stderr)
    return exc.exit_code


def route(argv: list[str]) -> list[str]:
    """`kern 10 30` means `kern run 10 30`; help and named commands stay as they are."""
    words = [word for word in argv if not word.startswith("-")]
    if words and words[0] in _COMMANDS:
        return argv
    if _ROOT_FLAGS.intersection(argv):
        return argv
    if number := next((word for word in argv if re.match(r"-\d", word)), ""):
        raise UsageError(f"ITERATIONS and DELAY are not negative: {number}", hint="kern 5 10")
    if (
        words
        and not re.match(r"[\d.]", words[0])
        and not words[0].lower().startswith(("inf", "nan"))
    ):
        import difflib

        close = difflib.get_close_matches(words[0], _COMMANDS, 1)
        raise UsageError(
            f"ITERATIONS is a number, and there is no command {words[0]!r}",
            hint=f"did you mean kern {close[0]}?" if close else "kern --help lists the commands",
        )
    return ["run", *argv]


def _number(text: str, name: str, least: float, *, whole: bool) -> float:
    try:
        value = float(int(text)) if whole and text.isascii() else float(text)
    except ValueError:
        value = float("nan")
    if not least <= value < 1e9:
        kind = "a whole number" if whole else "a number of seconds"
        raise UsageError(f"{name} is {kind}, at least {least:g}: {text!r} is not", hint="kern 5 10")
    return value


def _app(argv: list[str]) -> int:
    import typer

    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        subcommand_metavar="[ITERATIONS] [DELAY] | COMMAND [ARGS]...",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    DryRun = Annotated[
        bool, typer.Option("-n", "--dry-run", help="Show what would happen; write nothing.")
    ]
    Verbose = Annotated[
        bool, typer.Option("-v", "--verbose", help="Debug lines; with -n the prompts.")
    ]
    AsJson = Annotated[bool, typer.Option("--json", help="Data for jq instead of text.")]

    @app.callback(invoke_without_command=True, help=HELP)
    def root(
        dry_run: DryRun = False,
        verbose: Verbose = False,
        version: Annotated[
            bool, typer.Option("-V", "--version", help="Print the version.")
        ] = False,
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
        iterations: Annotated[str, typer.Argument(help="How many tasks.")] = "5",
        delay: Annotated[str, typer.Argument(help="Seconds between them.")] = "10",
        dry_run: DryRun = False,
        verbose: Verbose = False,
    ) -> None:
        """Carry out tasks; what `kern [ITERATIONS] [DELAY]` does."""
        count = int(_number(iterations, "ITERATIONS", 1, whole=True))
        pause = _number(delay, "DELAY", 0, whole=False)
        raise typer.Exit(_run(count, pause, dry=dry_run, verbose=verbose))

    @app.command()
    def init() -> None:
        """Write SPEC.md and LEARNINGS.md, never over a file."""
        from kern import chores

        chores.init(Path.cwd())

    @app.command()
    def status(as_json: AsJson = False) -> None:
        """Show the tasks: in progress, done, waiting, and why."""
        from kern import status as view

        found = view.snapshot(Path.cwd())
        print(json.dumps(found, indent=1, ensure_ascii=False) if as_json else view.text(found))

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

        found = clinic.examine(Path.cwd(), _agent())
        print(json.dumps(found, indent=1, ensure_ascii=False) if as_json else clinic.text(found))
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

    try:
        code = app(argv, prog_name="kern", standalone_mode=False)
    except Exception as exc:
        if not hasattr(exc, "format_message"):  # typer's own complaints have it, from click or not
            raise
        raise UsageError(exc.format_message(), hint="kern --help") from None
    return int(code or 0)


def _agent() -> str:
    return os.environ.get("KERN_CLAUDE") or "claude"


def _run(count: int, pause: float, *, dry: bool, verbose: bool) -> int:
    if dry:
        from kern import dryrun

        print(dryrun.describe(Path.cwd(), count, _agent(), prompts=verbose))
        return Exit.OK
    from kern import engine
    from kern.console import Console

    console = Console(verbose=verbose)
    options = engine.Options(count, pause, _agent(), tick=console.tick)
    try:
        return engine.run(Path.cwd(), options, console)
    finally:
        console.close()
