"""The command line: arguments in, one call, an exit code out. The rest is imported when a command
runs.
"""

import contextlib
import gc
import os
import re
import sys
from typing import Any

from kern import __version__
from kern.cli import help as pages
from kern.cli.help import COMMANDS, EXAMPLES
from kern.errors import Exit, Interrupted, KernError, UsageError
from kern.system import streams

_VALUED = frozenset(
    (
        *("--max-cost", "--max-minutes", "--until", "--sandbox"),
        *("--model", "--effort", "--task", "--agent", "--branch", "-j", "--jobs", "--scheduler"),
    )
)  # of a run: a value of theirs follows
_HELP, _VERSION = frozenset(("-h", "--help")), frozenset(("-V", "--version"))
_OF_KERN = _HELP | _VERSION | {"--update"}
# Of a run: how its function names the option, and the value; None: it follows.
_SIMPLE: dict[str, tuple[str, Any]] = {
    "-n": ("dry", True),
    "--dry-run": ("dry", True),
    "--no-wait": ("wait", False),
    "--no-sign": ("sign", False),
    "--max-cost": ("max_cost", None),
    "--task": ("task", None),
}


def main() -> None:
    """Route, run, and turn what was raised into one message and an exit code."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # git's names are UTF-8 whatever the locale says; opened as anything else they are others.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    gc.set_threshold(50_000)  # most calls are short: it would look often and free nothing
    streams.settle()
    code = _guarded(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # or Python complains at its end, with a code of its own
            streams.mute(stream)
    gc.freeze()  # or Python looks through all that is loaded, as it ends
    sys.exit(code)


def _guarded(argv: list[str]) -> int:
    if argv[:1] == [
        "--complete"
    ]:  # SHELL, then what is typed: asked by what kern completion printed
        return _completed(*argv[1:])
    try:
        routed = route(argv)
        code = _plainly(routed)
        return _app(routed) if code is None else code
    except (KernError, Interrupted) as exc:
        return _complain(exc)
    except KeyboardInterrupt:
        return 130
    except OSError as exc:
        where = f" {exc.filename}" if exc.filename else ""
        return _complain(
            KernError(
                f"cannot use{where}: {exc.strerror}", hint="fix it, then run kern again: it resumes"
            )
        )


def _completed(shell: str = "", *words: str) -> int:
    with contextlib.suppress(Exception):  # a line that is being typed is no place for a message
        from pathlib import Path

        from kern.cli import completion

        print(completion.answer(shell, words, Path.cwd(), _options))
    return Exit.OK


def _options(command: str) -> list[tuple[str, str]]:
    from kern.cli.commands import app
    from kern.cli.usage import long_options

    return long_options(app, command)


def _plainly(argv: list[str]) -> int | None:
    """What people and prompts call again and again starts without the parser of options, which
    takes longer to load than the call takes; None where there is something to parse.
    """
    if argv[0] not in COMMANDS:
        return _of_kern(argv)
    if argv[0] == "run":
        found = _simple(argv[1:])
        if found is None:
            return None
        from kern.cli import run

        return run.run(*found[0], **found[1])
    if argv in (["status"], ["status", "--json"]):
        from pathlib import Path

        from kern.views import status

        print(status.shown(Path.cwd(), everything=False, as_json="--json" in argv))
        return Exit.OK
    return None


def _simple(words: list[str]) -> tuple[list[str], dict[str, Any]] | None:
    """A run's numbers, and its options; None where a parser is to say what is meant."""
    numbers: list[str] = []
    said: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            numbers.append(word)
            continue
        name, value = _SIMPLE.get(word, ("", ""))
        value = next(rest, "-") if value is None else value
        if not name or name in said or str(value).startswith("-"):
            return None
        said[name] = value
    return (numbers, said) if len(numbers) <= 2 else None


def _of_kern(argv: list[str]) -> int:
    """What is asked of kern itself, without a command."""
    asked = next(word for word in argv if word in _OF_KERN)
    if _HELP.intersection(argv):
        print(pages.OVERVIEW)
    elif strange := {*argv} - _OF_KERN - {"-n", "--dry-run", "-v", "--verbose"}:
        raise UsageError(f"{min(strange)} does not go with {asked}", hint="kern -h")
    elif _VERSION.intersection(argv):
        print(f"kern {__version__}")
    else:
        from kern.cli import installed

        return installed.update()
    return Exit.OK


def _complain(exc: KernError | Interrupted) -> int:
    from kern import plain

    if isinstance(exc, Interrupted):
        print("kern: interrupted; run it again and it goes on from here", file=sys.stderr)
        if exc.note:
            print(f"  note: {plain.block(exc.note)}", file=sys.stderr)
        return exc.exit_code
    first, *rest = plain.block(str(exc)).splitlines() or [""]
    print(f"kern: {first}", *(f"      {line}" for line in rest), sep="\n", file=sys.stderr)
    if exc.hint:
        print(f"  hint: {plain.block(exc.hint)}", file=sys.stderr)
    return exc.exit_code


def route(argv: list[str]) -> list[str]:
    """The command comes first: `kern 10 30` means `kern run 10 30`."""
    given = [w for w, before in zip(argv, ["", *argv], strict=False) if before not in _VALUED]
    words = [word for word in given if not word.startswith("-")]
    if argv[:1] == ["help"] and len(argv) == 2 and argv[1] in COMMANDS:
        return [argv[1], "--help"]
    if words and words[0] in COMMANDS:
        argv.remove(words[0])  # what stands before it is an option of it
        # A list item is no option: kern add "- [ ] text"
        items = (f"\n{word}" if re.match(r"-[ \[]", word) else word for word in argv)
        return [words[0], *items]
    if _OF_KERN.intersection(argv):
        return argv
    if number := next((word for word in given if re.match(r"-\d", word)), ""):
        raise UsageError(f"ITERATIONS and DELAY are not negative: {number}", hint="kern 5 10s")
    if (
        words
        and not re.match(r"[\d.]", words[0])
        and not words[0].lower().startswith(("inf", "nan"))
    ):
        from kern import plain

        if strange := _strange(argv):
            likely = pages.near(strange, (word for word, _ in _options("run")))
            raise UsageError(
                f"no such option: {plain.line(strange, 60)}",
                hint=f"type {likely}  (kern run -h lists the options)" if likely else "kern run -h",
            )
        near = pages.instead(words[0])
        raise UsageError(
            f"{plain.line(words[0], 60)!r} is neither a number of iterations nor a command",
            hint=f"type {near}" if near else "kern --help lists the commands",
        )
    return ["run", *argv]


def _strange(argv: list[str]) -> str:
    """An option that no run has, before anything else that nobody knows: what follows it may be its
    value.
    """
    given = (word.partition("=")[0] for word in argv if word.startswith("--"))
    known = {word for word, _ in _options("run")} | _OF_KERN
    return next((word for word in given if word not in known), "")


def _app(argv: list[str]) -> int:
    from kern.cli.commands import app

    try:
        code = app(argv, prog_name="kern", standalone_mode=False)
    except Exception as exc:
        if not hasattr(exc, "format_message"):  # typer's own complaints have it, from click or not
            raise
        shown = EXAMPLES.get(argv[0], ["kern -h"])[0]
        said = exc.format_message()
        strange = getattr(exc, "option_name", "")
        if strange and "requires an argument" in said:
            said = f"{strange} needs a value"
            with_it = (one for one in EXAMPLES.get(argv[0], ()) if f" {strange} " in one)
            shown = next(with_it, shown)
        elif strange:  # its own guesses come from far off
            said = f"no such option: {strange}"
            likely = pages.near(strange, (word for word, _ in _options(argv[0])))
            shown = f"type {likely}" if likely else shown
        hint = f"{shown}  (kern {argv[0]} -h lists its options)"
        raise UsageError(said, hint=hint) from None
    return int(code or 0)
