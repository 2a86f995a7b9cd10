"""What gates and judges found, as values: whether it stands in the way of a commit, and in which
words.
"""

import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kern import person, plain
from kern.config import Gate
from kern.model import HIDDEN, UNVERIFIED, Result

_LONG_S = 600.0  # a gate that takes longer is not run twice
TELLING = 160  # characters in a note
KEPT_OUTPUT = 2000  # characters for the next attempt
KEPT_STATE = 1000  # of what a task's own gate says before it
_MISSING = "install what it runs or correct [gates] in kern.toml, then run kern again"
_STRICT = (
    "fix it, then run kern again. Or take `strict` off it in kern.toml and let the next task fix "
    "it: kern --allow-red"
)
_RED = (
    "fix it, then run kern again. Or: kern --allow-red, to hold it against no task; red = 'known' "
    "in kern.toml, if it is to be expected"
)
# What differs between two runs of the same failure; counts stay, fewer failures are progress.
_PASSING = r"0x[0-9a-f]+|\d+:\d\d(?::\d\d)?|\d+(?:\.\d+)? ?(?:ms|s|sec|min)\b|\d+\.\d+"


@dataclass(frozen=True, slots=True)
class Red:
    """A red gate as stage2.json holds it."""

    name: str
    code: int | None
    output: str  # the end of it

    def like(self, other: "Red | None") -> bool:
        """Whether both failed alike, as far as is known; times and addresses do not tell them
        apart.
        """
        if other is None or self.name == HIDDEN:
            return False
        mine, theirs = (re.sub(_PASSING, "#", one.output).split() for one in (self, other))
        return (self.name, self.code, mine) == (other.name, other.code, theirs)


def objection(result: Result) -> str:
    """Why the attempt has failed, for its note."""
    before = ", was red before" if result.red_before else ", was green before the task"
    is_own = result.name.startswith("gate `")  # a task's own, which says what done means
    is_told = result.red_before is False or (result.red_before and not is_own)
    return f"{result.name} is red ({result.how}{before if is_told else ''}){_last(result)}"


def refusal(results: Sequence[Result]) -> tuple[str, str]:
    """Why no task begins where these stop it, and what to type."""
    lines = list[str]()
    for result in results:
        red = f"is {'strict and ' * result.strict}red before any task"
        what = "cannot run" if result.cannot_run else red
        lines.append(f"{result.name} {what} ({result.how}){_last(result)}")
        lines += [f"all that it printed: {result.log}"] * bool(result.log)
    hint = _STRICT if any(result.strict for result in results) else _RED
    hint = _MISSING if any(result.cannot_run for result in results) else hint
    if any("[sandbox]" in one for result in results for one in result.closed):
        hint = f"open it below [sandbox] in {person.FILE} (kern help safety); or {hint}"
    return "\n".join(lines), hint


def regard(result: Result) -> str:
    """What a gate that is red before a task and does not stop the run means for the task."""
    why = 'red = "known" in kern.toml, ' if result.known_red else ""
    counts = "the task must turn it green" if result.strict else f"{why}not held against the task"
    return f"{result.name} is red before the task ({result.how}): {counts}"


def _last(result: Result) -> str:
    last = telling(result.output, TELLING)
    return f": {last}" if last else ""


def proved(results: Sequence[Result]) -> str:
    """What stands behind a success, in words."""
    green = [f"{r.name}{' (flaky)' if r.flaky else ''}" for r in results if not r.red]
    before = [result.name for result in results if result.red]
    words = f"verified by {', '.join(green)}" if green else UNVERIFIED
    return f"{words}; red before and after: {', '.join(before)}" if before else words


def named(command: str, paths: Collection[str]) -> set[str]:
    """Of the paths those that a command's words name."""
    words = re.split(r"[\s;&|()<>`'\"=]+", command)
    return {word for one in words if (word := posixpath.normpath(one)) in paths}


def telling(output: str, limit: int) -> str:
    """The last lines that say something, on one line."""
    lines = [plain.line(line, limit) for line in plain.block(output).splitlines()]
    chosen: list[str] = []
    for line in reversed([line for line in lines if re.search(r"\w", line)]):
        if chosen and len(" / ".join((line, *chosen))) > limit:
            break
        chosen.insert(0, line)
    return " / ".join(chosen)


def evidence(result: Result) -> Red:
    return Red(result.name, result.code, plain.block(result.output)[-KEPT_OUTPUT:])


def state(result: Result, command: str) -> str:
    """What a gate said, as a stage reads it."""
    output = plain.block(result.output).strip()
    end = output if len(output) <= KEPT_STATE else f"…{output[-KEPT_STATE:]}"
    failed = "failed, " if result.red else ""
    head = f"{result.name} (`{plain.line(command, 200)}`): {failed}{result.how}"
    return f"{head}:\n{end}" if end else f"{head}, nothing printed"


# ---------------------------------------------------------------- a red gate runs once more


def runs_again(gate: Gate, end: Result) -> bool:
    """Whether it runs once more: not where it was green, nor where its red does not count."""
    final = end.code is None or end.cannot_run or end.seconds > _LONG_S
    setting = repeats(gate)
    again = not final if setting is None else bool(setting)
    return again and end.against(end.red_before).blocks


def repeats(gate: Gate) -> int | None:
    """How often, where that is settled before it is red. A task's own is strict by nature."""
    return 0 if gate.again is None and gate.strict and gate.name else gate.again


def combined(first: Result, second: Result) -> Result:
    """What the two come to, the first of which is red."""
    spent = first.seconds + second.seconds
    flaky = "" if second.red else f"red at first ({first.how}){_last(first)}"
    return replace(second, seconds=spent, flaky=flaky)
