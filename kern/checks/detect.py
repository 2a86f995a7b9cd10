"""The checks that a project seems to have, by what its files tell; and the kern.toml that they
make. Pure.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from kern import plain
from kern.checks import kinds, result
from kern.checks.kinds import Mark, Rule, Runner
from kern.config import Settings
from kern.model import Result

_SHOWN = 100  # characters of why a command is no gate


@dataclass(frozen=True, slots=True)
class Folder:
    """The top level, or a part of a monorepo."""

    path: str = ""  # below the top level
    files: Mapping[str, str] = field(default_factory=dict)  # name below the folder, and text
    above: frozenset[str] = frozenset()  # names that stand in the folders above it


@dataclass(frozen=True, slots=True)
class Guess:
    """A command that may be a gate."""

    name: str
    command: str  # for sh, at the top level
    folder: str
    kind: str  # the tool
    why: str  # the file that told of it
    room: bool = True  # False: of no use there, since a daemon outside does the work


@dataclass(frozen=True, slots=True)
class _Found:
    """A guess before it has a name."""

    family: str
    purpose: str
    guess: Guess


def guesses(folders: Iterable[Folder]) -> tuple[Guess, ...]:
    """What may be gates, the top level's first; nothing that a folder above does as well."""
    found: list[_Found] = []
    done: dict[str, set[tuple[str, str]]] = {}
    for folder in sorted(folders, key=lambda one: (one.path.count("/"), one.path)):
        above = {
            pair for path, pairs in done.items() if _holds(path, folder.path) for pair in pairs
        }
        if ("", "check") in above:
            continue
        mine = done.setdefault(folder.path, set())
        for one in _of(folder):
            pair = one.family, one.purpose
            told = mine | (above if one.family not in kinds.APART else set())
            if pair in told or ("", one.purpose) in mine or ("", "check") in mine:
                continue
            mine.add(pair)
            found.append(one)
    return _named(found)


def _holds(path: str, other: str) -> bool:
    return not path or other.startswith(f"{path}/")


def _of(folder: Folder) -> Iterator[_Found]:
    yield from _targets(folder)
    yield from _scripts(folder)
    for rule in kinds.RULES:
        runner = _runner(rule.family, folder)
        if rule.alone and runner and runner.manages:
            continue
        why = _first(rule.marks, folder.files)
        if why and (not rule.also or _first(rule.also, folder.files)):
            yield _found(
                folder, rule.family, rule.purpose, rule.kind, _command(rule, runner, folder), why
            )


def _found(
    folder: Folder, family: str, purpose: str, kind: str, command: str, why: str, does: str = ""
) -> _Found:
    """`why`: the file, below the folder. `does`: what the command runs, where that is told."""
    inside = f"cd {shlex.quote(folder.path)} && " if folder.path else ""
    place = f"{folder.path}/{why}" if folder.path else why
    room = not kinds.DAEMON.search(does)
    return _Found(family, purpose, Guess("", f"{inside}{command}", folder.path, kind, place, room))


def _runner(family: str, folder: Folder) -> Runner | None:
    """The folder's own word counts before that of one above it."""
    own = (one for one in kinds.RUNNERS if one.family == family and _first(one.marks, folder.files))
    above = (
        one
        for one in kinds.RUNNERS
        if one.family == family
        and any(not text and name in folder.above and "/" not in name for name, text in one.marks)
    )
    locks = [*own]
    if locks and not (family == "node" and locks[0].marks[0][0] == "package.json"):
        return locks[0]
    return next(above, None) or (locks[0] if locks else None)


def _command(rule: Rule, runner: Runner | None, folder: Folder) -> str:
    run = runner.run if runner else ""
    if runner and not runner.manages and run.endswith("/"):  # what is in it, and nothing else
        tool = rule.command.removeprefix("{run}").split()[0]
        module = "pytest" if "-m pytest" in rule.command else "python"
        here = f"{run}{module if '{python}' in rule.command else tool}" in folder.files
        run = run if here else ""
        return rule.command.format(run=run, python=f"{run}python" if here else "python3")
    python = f"{run}python" if run else "python3"
    return rule.command.format(run=run, python=python)


def _first(marks: Iterable[Mark], files: Mapping[str, str]) -> str:
    """The first file that bears one of them; empty where none does."""
    for pattern, text in marks:
        for name in files if "*" in pattern else (pattern,):
            if name in files and matches(name, pattern):
                told = not text or re.search(text, files[name], re.M)
                if told:
                    return name
    return ""


def matches(name: str, pattern: str) -> bool:
    """`**/` stands for any folders, `*` for anything within one."""
    if pattern.startswith("**/"):
        return fnmatchcase(name.rpartition("/")[2], pattern[3:])
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _targets(folder: Folder) -> Iterator[_Found]:
    for kind, names, form in kinds.TARGETS:
        why = next((name for name in names if name in folder.files), "")
        for purpose, words in kinds.NAMES.items():
            for word in words if why and purpose != "build" else ():
                text = folder.files[why]
                if match := re.search(form.format(name=re.escape(word)), text, re.M):
                    does = _recipe(text[match.start() :])
                    yield _found(folder, "", purpose, kind, f"{kind} {word}", why, does)
                    break


def _recipe(text: str) -> str:
    """Of the target on the first line: all below it that stands further in."""
    found = re.match(r"([ \t]*).*((?:\n(?:\1[ \t].*)?)*)", text)
    return found[2] if found else ""


def _scripts(folder: Folder) -> Iterator[_Found]:
    for family, names, key, form in kinds.SCRIPTS:
        why = next((name for name in names if name in folder.files), "")
        scripts = _read(folder.files.get(why, ""), key)
        runner = _runner(family, folder)
        for purpose, words in kinds.NAMES.items():
            word = next((word for word in words if word in scripts and purpose != "check"), "")
            if (
                not word
                or kinds.PLACEHOLDER.search(scripts[word])
                or kinds.WATCHES.search(scripts[word])
            ):
                continue
            command = form.format(run=runner.run if runner else "", name=word)
            kind = runner.kind if runner else names[0].partition(".")[0]
            if word == "test" and kind != "bun":
                command = command.replace("run test", "test")  # as people type it
            yield _found(folder, family, purpose, kind, command, why, scripts[word])


def _read(text: str, key: str) -> dict[str, str]:
    try:
        found = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))[key]
        return {str(name): json.dumps(value) for name, value in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _named(found: Sequence[_Found]) -> tuple[Guess, ...]:
    """Each with a name of its own: the purpose, with the tool or the part where that is not one."""
    names: dict[str, None] = {}
    for one in found:
        same = [
            other
            for other in found
            if (other.guess.folder, other.purpose) == (one.guess.folder, one.purpose)
        ]
        name = one.purpose if len(same) == 1 else f"{one.guess.kind}-{one.purpose}"
        part = re.sub(r"[^A-Za-z0-9_]+", "-", one.guess.folder).strip("-")
        base = f"{part or 'part'}-{name}" if one.guess.folder else name
        number, name = 1, base
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names[name] = None
    return tuple(replace(one.guess, name=name) for one, name in zip(found, names, strict=True))


# ---------------------------------------------------------------- a first kern.toml


@dataclass(frozen=True, slots=True)
class Proposal:
    """A guess, and how it ended where it was run."""

    guess: Guess
    ended: Result | None = None

    @property
    def gate(self) -> bool:
        """Whether it is to be one: what was not tried is the person's to judge."""
        return self.ended is None or not self.ended.red

    @property
    def line(self) -> str:
        """As kern.toml has it: a comment where it does not pass here."""
        run = _quoted(self.guess.command)
        value = run if self.guess.room else f"{{ run = {run}, room = false }}"
        setting = f"{self.guess.name} = {value}"
        return f"{'' if self.gate else '# '}{setting}{self._note}"

    @property
    def _note(self) -> str:
        if self.ended is None:
            return ""
        if not self.ended.red:
            return f"  # {plain.span(self.ended.seconds)}"
        said = next(iter(self.ended.closed), result.first_failing(self.ended.output, _SHOWN))
        why = f": {said}" if said else ""
        return f"  # {result.outcome(self.ended)}{why}"


def kern_toml(example: str, found: Sequence[Proposal]) -> str:
    """The example with what was found in place of its gates."""
    lines = [one.line for one in found]
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
