"""The checks that a project seems to have, by what its files tell (`kinds.toml`); and the kern.toml
that they make. Pure but for that table.
"""

import itertools
import json
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from kern import plain
from kern.checks import result
from kern.model import Result

_KINDS = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text("utf-8"))
_NAMES, _NAMED, _RULES = _KINDS["names"], _KINDS["named"], _KINDS["rules"]
_TOOLS: Sequence[str] = _KINDS["parts"]["tools"]
# What `npm init` writes, and what has no end.
_NO_CHECK = r"no test specified|--watch(?:All)?\b(?!=false)|(?<!-)\bwatch\b|\bnodemon\b"
# A program that has others work, outside: they see the working tree, whatever is mounted here.
DAEMON = re.compile(r"(?<![\w./-])(?:docker|podman)(?:-compose)?(?= )")
_SHOWN = 100  # characters of why a command is no gate


PROJECT: Sequence[str] = _KINDS["parts"]["files"]  # a folder with one of these is a part
_ROWS = (*itertools.chain(*_KINDS["runners"].values(), *_RULES.values()),)
_MARKS = [mark.partition(" ")[0] for row in _ROWS for mark in (*row["marks"], *row.get("also", ()))]
_PROGRAMS = [f"{folder}/{tool}" for folder in (".venv/bin", "venv/bin") for tool in _TOOLS]
# All that is looked for, in a folder or below it.
TELLING = tuple(dict.fromkeys((*PROJECT, *"|".join(_MARKS).split("|"), *_PROGRAMS)))


class Folder(NamedTuple):
    """The top level, or a part of a monorepo."""

    path: str = ""  # below the top level
    files: Mapping[str, str] = {}  # name below the folder, and text
    above: frozenset[str] = frozenset()  # names that stand in the folders above it


class Guess(NamedTuple):
    """A command that may be a gate."""

    name: str  # its purpose, until it has one of its own
    command: str  # for sh, at the top level
    why: str  # the file that told of it
    room: bool = True  # False: of no use there, since a daemon outside does the work
    family: str = ""  # empty: what it does stands for any other's
    kind: str = ""
    ended: Result | None = None  # where it was run

    @property
    def line(self) -> str:
        """As kern.toml has it: a comment that says why where it does not pass here. What was not
        tried is the person's to judge.
        """
        run, end = plain.data(self.command, indent=None), self.ended
        setting = f"{self.name} = {run if self.room else f'{{ run = {run}, room = false }}'}"
        if end and end.red:
            last = next(iter(end.closed), result.telling(end.output, _SHOWN))
            return f"# {setting}  # {': '.join(filter(None, (end.how, last)))}"
        return setting + (f"  # {plain.span(end.seconds)}" if end else "")


def guesses(folders: Iterable[Folder]) -> tuple[Guess, ...]:
    """What may be gates, the top level's first; nothing that a folder above does as well."""
    done, named = list[tuple[str, Guess]](), dict[str, Guess]()
    for folder in sorted(folders, key=lambda one: (one.path.count("/"), one.path)):
        path = folder.path
        part = re.sub(r"[^A-Za-z0-9_]+", "-", path).strip("-") or "part"
        for guess in (*_named(folder), *_rules(folder)):
            if any(_covers(at, other, path, guess) for at, other in done):
                continue
            done.append((path, guess))
            names = [guess.name, f"{guess.kind}-{guess.name}"]
            names += [f"{guess.name}-{number}" for number in range(2, len(done) + 2)]
            names = [f"{part}-{one}" if path else one for one in names]
            name = next(one for one in names if one not in named)
            command = f"cd {shlex.quote(path)} && {guess.command}" if path else guess.command
            why = posixpath.join(path, guess.why)
            named[name] = guess._replace(name=name, command=command, why=why)
    return tuple(named.values())


def _covers(at: str, other: Guess, path: str, guess: Guess) -> bool:
    """Whether what was guessed for one folder does what is guessed for another."""
    whole = not other.family and other.name == "check"
    near = at == path or guess.family not in _KINDS["parts"]["apart"]
    same = near and other.name == guess.name and other.family in ("", guess.family)
    return (whole or same) and (not at or f"{path}/".startswith(f"{at}/"))


def _named(folder: Folder) -> Iterator[Guess]:
    """What the project has named itself."""
    for family, row in _NAMED.items():
        why = next((name for name in row["files"] if name in folder.files), "")
        text, whole = _with_scripts(why, folder.files.get(why, "")), "whole" in row
        runner = _runner(family, folder)
        for purpose, word in ((one, word) for one, words in _NAMES.items() for word in words):
            at = re.search(row["form"].replace("{name}", re.escape(word)), text, re.M)
            if not at or purpose == ("build" if whole else "check"):
                continue
            does = _recipe(text[at.start() :])
            if whole or not re.search(_NO_CHECK, does):
                command = row["command"].format(run=runner.get("run"), name=word)
                kind = runner.get("kind", family)
                if word == "test" and kind != "bun" and not whole:
                    command = command.replace("run test", "test")  # as people type it
                room = not DAEMON.search(does)
                yield Guess(purpose, command, why, room, "" if whole else family, kind)


def _with_scripts(name: str, text: str) -> str:
    """A line for each script of a JSON file."""
    if ".json" not in name:
        return text
    try:
        manifest = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))
        scripts = manifest.get("scripts", manifest.get("tasks"))
        return "".join(f"script {one}: {json.dumps(what)}\n" for one, what in scripts.items())
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ""


def _recipe(text: str) -> str:
    """The first line, and all below it that stands further in."""
    at = re.match(r"([ \t]*).*(?:\n(?:\1[ \t].*)?)*", text)
    return at[0] if at else ""


def _rules(folder: Folder) -> Iterator[Guess]:
    """What the files of tools tell."""
    for family, rows in _RULES.items():
        run = _runner(family, folder).get("run", "")
        for row in rows:
            why = _first(row["marks"], folder.files)
            misses = "also" in row and not _first(row["also"], folder.files)
            if why and not misses and not ("alone" in row and run and not run.endswith("/")):
                command = _command(row, run, folder)
                yield Guess(row["purpose"], command, why, True, family, row["kind"])


def _runner(family: str, folder: Folder) -> Mapping[str, Any]:
    """The folder's own lock file counts before one above it, that before its package.json."""
    rows = _KINDS["runners"].get(family, ())
    own = [row for row in rows if _first(row["marks"], folder.files)]
    locked = [row for row in own if not row["marks"][0].startswith("package.json")]
    above = [r for r in rows if folder.above & {*r["marks"]} and not r["run"].endswith("/")]
    return next(iter((*locked, *above, *own)), {})


def _command(row: Mapping[str, Any], run: str, folder: Folder) -> str:
    tool = row["kind"] if row["kind"] in _TOOLS else "python"
    if run.endswith("/") and f"{run}{tool}" not in folder.files:
        run = ""
    command: str = row["command"].format(run=run)
    return command if run else re.sub("^python ", "python3 ", command)


def _first(marks: Iterable[str], files: Mapping[str, str]) -> str:
    """The first file that bears one of them; empty where none does."""
    for mark in marks:
        names, _, text = mark.partition(" ")
        text = re.sub(r"^\[(.*)\]$", lambda table: rf"^\[{re.escape(table[1])}[.\]]", text)
        for pattern in names.split("|"):
            for name in files if "*" in pattern else {pattern} & files.keys():
                if matches(name, pattern) and re.search(text, files[name], re.M):
                    return name
    return ""


def matches(name: str, pattern: str) -> bool:
    """`**/` stands for any folders, `*` for anything within one."""
    if pattern.startswith("**/"):
        return fnmatchcase(name.rpartition("/")[2], pattern[3:])
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def kern_toml(example: str, proposed: Sequence[Guess]) -> str:
    """The example with what was found in place of its gates."""
    head, table, rest = example.partition("[gates]\n")
    shown, _, rest = rest.partition("\n\n")
    lines = [one.line for one in proposed] or [shown]
    return "\n".join((head + table.rstrip(), *lines, "", rest))
