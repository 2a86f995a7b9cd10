"""The checks that a project seems to have, by what its files tell (`kinds.toml`); and the kern.toml
that they make. Pure but for that table.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from kern import plain
from kern.checks import result
from kern.config import Settings
from kern.model import Result

_KINDS = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text("utf-8"))
_NAMES: Mapping[str, Sequence[str]] = _KINDS["names"]
_TARGETS: Mapping[str, Mapping[str, Any]] = _KINDS["targets"]
_TOOLS: Sequence[str] = _KINDS["parts"]["tools"]
_PLACEHOLDER = "no test specified"  # what `npm init` writes
_WATCHES = r"--watch(?:All)?\b(?!=false)|(?<!-)\bwatch\b|\bnodemon\b"
# A program that has others work, outside: they see the working tree, whatever is mounted here.
DAEMON = re.compile(r"(?<![\w./-])(?:docker|podman)(?:-compose)?(?= )")
_SHOWN = 100  # characters of why a command is no gate


def _names(marks: Iterable[str]) -> Iterator[str]:
    for mark in marks:
        yield from mark.partition(" ")[0].split("|")


# A folder with one of these is a part.
PROJECT = (*_KINDS["parts"]["files"], *(name for row in _TARGETS.values() for name in row["files"]))
# All that is looked for, in a folder or below it.
TELLING = tuple(
    dict.fromkeys(
        (
            *PROJECT,
            *(
                name
                for table in (_KINDS["runners"], _KINDS["rules"])
                for rows in table.values()
                for row in rows
                for name in _names((*row["marks"], *row.get("also", ())))
            ),
            *(f"{folder}/{tool}" for folder in (".venv/bin", "venv/bin") for tool in _TOOLS),
        )
    )
)


class Folder(NamedTuple):
    """The top level, or a part of a monorepo."""

    path: str = ""  # below the top level
    files: Mapping[str, str] = {}  # name below the folder, and text
    above: frozenset[str] = frozenset()  # names that stand in the folders above it


class Guess(NamedTuple):
    """A command that may be a gate."""

    name: str
    command: str  # for sh, at the top level
    folder: str
    kind: str  # the tool
    why: str  # the file that told of it
    room: bool = True  # False: of no use there, since a daemon outside does the work


class _Hint(NamedTuple):
    """A guess before it has a name."""

    family: str
    purpose: str
    kind: str
    command: str  # in its folder
    why: str  # the file, below the folder
    does: str = ""  # what the command runs, where that is told


def guesses(folders: Iterable[Folder]) -> tuple[Guess, ...]:
    """What may be gates, the top level's first; nothing that a folder above does as well."""
    hints: list[tuple[Folder, _Hint]] = []
    done: dict[str, set[tuple[str, str]]] = {}
    for folder in sorted(folders, key=lambda one: (one.path.count("/"), one.path)):
        around = [pairs for path, pairs in done.items() if _holds(path, folder.path)]
        above = {pair for pairs in around for pair in pairs}
        if ("", "check") in above:
            continue
        mine = done.setdefault(folder.path, set())
        for hint in (*_targets(folder), *_scripts(folder), *_rules(folder)):
            pair = hint.family, hint.purpose
            known = mine if hint.family in _KINDS["parts"]["apart"] else mine | above
            if known.isdisjoint((pair, ("", hint.purpose))) and ("", "check") not in mine:
                mine.add(pair)
                hints.append((folder, hint))
    return _named(hints)


def _holds(path: str, other: str) -> bool:
    return not path or other.startswith(f"{path}/")


def _targets(folder: Folder) -> Iterator[_Hint]:
    for kind, row in _TARGETS.items():
        why = next((name for name in row["files"] if name in folder.files), "")
        text = folder.files.get(why, "")
        for purpose, words in _NAMES.items() if text else ():
            for word in words if purpose != "build" else ():
                if at := re.search(row["form"].replace("{name}", re.escape(word)), text, re.M):
                    does = _recipe(text[at.start() :])
                    yield _Hint("", purpose, kind, f"{kind} {word}", why, does)
                    break


def _recipe(text: str) -> str:
    """Of the target on the first line: all below it that stands further in."""
    at = re.match(r"([ \t]*).*((?:\n(?:\1[ \t].*)?)*)", text)
    return at[2] if at else ""


def _scripts(folder: Folder) -> Iterator[_Hint]:
    for family, row in _KINDS["scripts"].items():
        why = next((name for name in row["files"] if name in folder.files), "")
        scripts = _read(folder.files.get(why, ""), row["key"])
        runner = _runner(family, folder)
        run, kind = (runner["run"], runner["kind"]) if runner else ("", why.partition(".")[0])
        for purpose, words in _NAMES.items():
            word = next((word for word in words if word in scripts and purpose != "check"), "")
            if not word or re.search(f"{_PLACEHOLDER}|{_WATCHES}", scripts[word]):
                continue
            command = row["command"].format(run=run, name=word)
            if word == "test" and kind != "bun":
                command = command.replace("run test", "test")  # as people type it
            yield _Hint(family, purpose, kind, command, why, scripts[word])


def _read(text: str, key: str) -> dict[str, str]:
    try:
        scripts = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))[key]
        return {str(name): json.dumps(value) for name, value in scripts.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _rules(folder: Folder) -> Iterator[_Hint]:
    for family, rows in _KINDS["rules"].items():
        runner = _runner(family, folder)
        run = runner["run"] if runner else ""
        for row in rows:
            if "alone" in row and run and not run.endswith("/"):
                continue
            why = _first(row["marks"], folder.files)
            if why and ("also" not in row or _first(row["also"], folder.files)):
                command = _command(row, run, folder)
                yield _Hint(family, row["purpose"], row["kind"], command, why)


def _runner(family: str, folder: Folder) -> Mapping[str, Any] | None:
    """The folder's own lock file counts before one above it, that before its package.json."""
    rows = _KINDS["runners"].get(family, ())
    own = [row for row in rows if _first(row["marks"], folder.files)]
    locked = [row for row in own if not row["marks"][0].startswith("package.json")]
    above = [r for r in rows if folder.above & {*r["marks"]} and not r["run"].endswith("/")]
    return next(iter((*locked, *above, *own)), None)


def _command(row: Mapping[str, Any], run: str, folder: Folder) -> str:
    tool = row["kind"] if row["kind"] in _TOOLS else "python"
    if run.endswith("/") and f"{run}{tool}" not in folder.files:
        run = ""
    command: str = row["command"].format(run=run)
    return command if run else re.sub("^python ", "python3 ", command)


def _first(marks: Iterable[str], files: Mapping[str, str]) -> str:
    """The first file that bears one of them; empty where none does."""
    for mark in marks:
        text = mark.partition(" ")[2]
        if text[:1] == "[" and text[-1] == "]":
            text = rf"^{re.escape(text[:-1])}[.\]]"
        for pattern in _names([mark]):
            for name in files if "*" in pattern else (pattern,):
                if name in files and matches(name, pattern) and re.search(text, files[name], re.M):
                    return name
    return ""


def matches(name: str, pattern: str) -> bool:
    """`**/` stands for any folders, `*` for anything within one."""
    if pattern.startswith("**/"):
        return fnmatchcase(name.rpartition("/")[2], pattern[3:])
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _named(hints: Sequence[tuple[Folder, _Hint]]) -> tuple[Guess, ...]:
    """Each with a name of its own: the purpose, with the tool or the part where that is not one."""
    named: dict[str, Guess] = {}
    purposes = [(folder.path, hint.purpose) for folder, hint in hints]
    for (path, _, _), hint in hints:
        one = purposes.count((path, hint.purpose)) == 1
        base = hint.purpose if one else f"{hint.kind}-{hint.purpose}"
        if path:
            base = f"{re.sub(r'[^A-Za-z0-9_]+', '-', path).strip('-') or 'part'}-{base}"
        name, number = base, 1
        while name in named:
            number += 1
            name = f"{base}-{number}"
        command = f"cd {shlex.quote(path)} && {hint.command}" if path else hint.command
        why = f"{path}/{hint.why}" if path else hint.why
        room = not DAEMON.search(hint.does)
        named[name] = Guess(name, command, path, hint.kind, why, room)
    return tuple(named.values())


# ---------------------------------------------------------------- a first kern.toml


class Proposal(NamedTuple):
    """A guess, and how it ended where it was run."""

    guess: Guess
    ended: Result | None = None

    @property
    def gate(self) -> bool:
        """Whether it is to be one: what was not tried is the person's to judge."""
        return self.ended is None or not self.ended.red

    @property
    def line(self) -> str:
        """As kern.toml has it: a comment that says why where it does not pass here."""
        run = _quoted(self.guess.command)
        value = run if self.guess.room else f"{{ run = {run}, room = false }}"
        setting = f"{self.guess.name} = {value}"
        if self.ended is None:
            return setting
        if self.gate:
            return f"{setting}  # {plain.span(self.ended.seconds)}"
        last = next(iter(self.ended.closed), result.first_failing(self.ended.output, _SHOWN))
        return f"# {setting}  # {': '.join(filter(None, (result.outcome(self.ended), last)))}"


def kern_toml(example: str, proposals: Sequence[Proposal]) -> str:
    """The example with what was found in place of its gates."""
    lines = [one.line for one in proposals]
    head, table, rest = example.partition("[gates]\n")
    shown, _, rest = rest.partition("\n\n")
    return "\n".join((head + table.rstrip(), *(lines or [shown]), "", rest))


def missing(guesses: Sequence[Guess], settings: Settings) -> tuple[Guess, ...]:
    """Those whose command is none of the gates."""
    there = {" ".join(gate.command.split()) for gate in (*settings.gates, *settings.final)}
    return tuple(guess for guess in guesses if " ".join(guess.command.split()) not in there)


def _quoted(command: str) -> str:
    """A TOML string."""
    if '"' in command and not re.search(r"['\x00-\x1f\x7f]", command):
        return f"'{command}'"
    return plain.data(command, indent=None)
