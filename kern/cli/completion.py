"""`kern completion SHELL`: what a shell loads, and what it then asks kern at each press of the key:
commands, options, and the tasks of the SPEC.md here. A shell must never be told of a fault.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kern import plain
from kern.agents.protocol import AGENTS
from kern.cli.help import COMMANDS, TASKED, TOPICS
from kern.errors import UsageError
from kern.model import SPEC, Marker
from kern.models import EFFORTS, ROLES
from kern.person import Mode
from kern.spec import notes
from kern.spec.parse import Spec, parse

_LONGEST = 80  # characters of a task's text; a part of it is enough to name it
_SPECIAL = re.compile(r"([^\w@%+=:,./-])")

SHELLS = ("bash", "zsh", "fish")
Options = Callable[[str], Sequence[tuple[str, str]]]


class Value(NamedTuple):
    word: str
    told: str = ""


def script(shell: str) -> str:
    if shell not in SHELLS:
        raise UsageError(
            f"kern has completions for {', '.join(SHELLS)}, not for {plain.line(shell, 40)!r}",
            hint='eval "$(kern completion bash)"',
        )
    return Path(__file__).with_name(f"completion.{shell}").read_text("utf-8")


def answer(shell: str, words: Sequence[str], folder: Path, options: Options) -> str:
    """What the shell's script expects, a line for each value. `options`: of a command."""
    if shell != "bash":
        *before, last = words or [""]
        last = last[1:] if last[:1] in ("'", '"') else last  # a quote that is still open
        found = values([*before, last], folder, options)
        return "\n".join(
            _zsh(one) if shell == "zsh" else f"{one.word}\t{one.told}" for one in found
        )
    line = words[0] if words else ""
    given, quote = split(line)
    found = values(given[1:], folder, options)
    if len(found) > 1 and found[0].word.isdigit():  # the shell shows them and inserts none
        return "\n".join(f"{one.word} ({one.told})" for one in found)
    return "\n".join(_bash(one.word, line, quote) for one in found)


def split(line: str) -> tuple[list[str], str]:
    """The words of a line that ends at the cursor, and the quote that is open there."""
    for quote in ("", '"', "'"):
        try:
            *words, last = shlex.split(f"{line}\0{quote}")
        except ValueError:
            continue
        return [*words, last.rstrip("\0")], quote
    return [""], ""


def _bash(word: str, line: str, quote: str) -> str:
    if quote == '"':
        return re.sub(r'(["$`\\])', r"\\\1", word)
    if quote:
        return word.replace("'", "'\\''")
    escaped = _SPECIAL.sub(r"\\\1", word)
    typed = re.split(r"(?<!\\)\s", line)[-1]
    breaks = max(typed.rfind(":"), typed.rfind("="))  # bash replaces what follows the last of them
    return escaped[breaks + 1 :] if breaks + 1 <= len(escaped) else escaped


def _zsh(one: Value) -> str:
    return ":".join(part.replace("\\", "\\\\").replace(":", "\\:") for part in one if part)


def values(words: Sequence[str], folder: Path, options: Options) -> list[Value]:
    """What may stand in place of the last word."""
    *before, last = words or [""]
    named = [word for word in before if word in COMMANDS]
    found: Iterable[Value]
    if last.startswith("-"):
        top = () if named else ("--version", "--update", "--help")
        found = [*map(Value, top), *(Value(*one) for one in options(*named[:1] or ["run"]))]
    elif before and before[-1] in _VALUES:
        told = _VALUES[before[-1]]
        return tasks(last, "", folder) if told is None else _beginning(map(Value, told), last)
    elif not named:
        found = () if before else (Value(*one) for one in COMMANDS.items())
    elif before[-1] != named[0]:
        found = ()
    elif named[0] in TASKED:
        return tasks(last, named[0], folder)
    else:
        more = {"help": [*TOPICS, *COMMANDS], "completion": [*SHELLS]}
        found = (Value(one, COMMANDS.get(one, "")) for one in more.get(named[0], ()))
    return _beginning(found, last)


_VALUES: dict[str, Sequence[str] | None] = {  # of an option; None: a task
    **dict.fromkeys(("--after", "--under", "--task")),
    "--sandbox": tuple(Mode),
    "--since": ("today", "yesterday"),
    "--effort": EFFORTS,
    "--kind": ("decision", "pattern", "insight", "sign", "research", "attempt", "spec", "file"),
    "--limit": (),
    "--model": ("opus", "sonnet", "haiku", *(f"{role}=" for role in ROLES)),
    "--agent": (*AGENTS, *(f"{role}=" for role in ROLES)),
    "--jobs": ("auto",),
    **dict.fromkeys(("--gate", "--judge", "--branch"), ()),
    **dict.fromkeys(("--why", "--when"), ()),
    **dict.fromkeys(
        ("--max-cost", "--max-minutes", "--delay", "--older", "--run", "--until", "--scheduler"), ()
    ),
}


def _beginning(found: Iterable[Value], word: str) -> list[Value]:
    return [one for one in found if one.word.startswith(word)]


def tasks(word: str, command: str, folder: Path) -> list[Value]:
    """By number where a number or nothing is typed, else by their text: those that begin with the
    word, or the only one that has it.
    """
    spec = _spec(folder)
    asked = {one.number for one in notes.waiting(spec)}
    unfit = {
        **dict.fromkeys(("reopen", "undo"), Marker.PENDING),
        **dict.fromkeys(_OPEN, Marker.DONE),
    }.get(command)
    shown = [
        (number, plain.line(task.text)[:_LONGEST].rstrip("…"))
        for number, task in enumerate(spec.tasks, 1)
        if task.marker is not unfit and (command != "answer" or number in asked)
    ]
    if not word or word.isdecimal():
        return _beginning((Value(str(number), text) for number, text in shown), word)
    low = word.casefold()
    having = [Value(text, f"task {number}") for number, text in shown if low in text.casefold()]
    first = [one for one in having if one.word.casefold().startswith(low)]
    return first or having[: len(having) == 1]


_OPEN = ("done", "skip", "defer", "hold", "unblock", "retry")


def _spec(folder: Path) -> Spec:
    """Of the repository around the folder, without asking git."""
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            data = (place / SPEC).read_bytes()
            return parse(plain.decode(data))
    return parse("")
