"""Whether it was harmless: what kern said and left, and what the next kerns made of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from tests.matrix.parked import SIGNALS
from tests.matrix.place import IGNORED, PERSONS, Place
from tests.matrix.stories import Story

# What the next kern keeps of work whose answer was never saved.
_KEPT = re.compile(r"refs/kern/attempts/[\w-]+/\d+-(killed|commit|edited|retry|stopped)(\+\d+)? ")
_LOST = re.compile(r"\d+ attempt\d+-lost(-transcript)?\.json")


@dataclass(frozen=True)
class Ran:
    code: int
    err: str


@dataclass(frozen=True)
class Told:
    """How a story ended: what it left, whom it asked, and how its runs ended."""

    portrait: Mapping[str, Any]
    calls: Sequence[str]
    runs: Sequence[Ran]


def of_the_end(what: str, ran: Ran, undisturbed: Ran) -> tuple[bool, list[str]]:
    """Whether kern went on in spite of it; and what is wrong with how it ended."""
    if number := SIGNALS.get(what):
        expected = -number if what == "SIGKILL" else 128 + number
        wrong = [] if ran.code == expected else [f"ended with {ran.code}, not {expected}"]
        return False, wrong + _traceback(ran)
    if ran.code == undisturbed.code and not re.search(r"^kern: ", ran.err, re.M):
        return True, _traceback(ran)
    wrong = _traceback(ran)
    if ran.code not in (1, 2):
        wrong.append(f"ended with {ran.code}")
    if not re.search(
        r"^kern: (?!cannot use:).*(no space left|input/output error)", ran.err, re.M | re.I
    ):
        wrong.append("does not say what failed")
    if "  hint: " not in ran.err:
        wrong.append("does not say what to do")
    return False, [f"{line}: {ran.err[-300:]}" for line in wrong]


def _traceback(ran: Ran) -> list[str]:
    return ["a traceback:\n" + ran.err] if "Traceback" in ran.err else []


def in_between(place: Place) -> list[str]:
    """What must hold at every moment: 2, 4 and 6 of `kern help design`."""
    wrong = _touched(place)
    spec = place.spec
    if _ticked(spec) - _ticked(place.git("show", "HEAD:SPEC.md")):
        wrong.append("[x] on disk before HEAD has it")
    for ref in re.findall(r"\(kept: ([^)]+)\)", spec):
        if not place.git("for-each-ref", f"refs/{ref}"):
            wrong.append(f"a note without its ref {ref}")
    return wrong


def _ticked(spec: str) -> set[str]:
    return {*re.findall(r"\[x\] .*", spec)}


def _touched(place: Place) -> list[str]:
    return [
        f"{name} of the person's was touched"
        for name, text in PERSONS.items()
        if place.read(name) != text
    ]


def alive(place: Place) -> list[str]:
    """Processes that an agent left."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("KERN_ROOT") == str(place.root):
                found.append(f"still alive: {' '.join(process.cmdline())[:60]}")
        except (psutil.Error, OSError):
            continue
    return found


def of_the_story(told: Told, expected: Told, before: Sequence[str]) -> list[str]:
    """What differs from an end that is right; `before`: the answers that were saved."""
    wrong = [f"{line}" for ran in told.runs for line in _traceback(ran)]
    if told.runs[-1].code != expected.runs[-1].code:
        wrong.append(f"the last run ended with {told.runs[-1].code}: {told.runs[-1].err[-300:]}")
    asked = list(told.calls[len(before) :])
    rest = list(expected.calls[len(before) :])
    wrong += _asked(asked, rest)
    for name, value in expected.portrait.items():
        found = told.portrait[name]
        if name in ("refs", "swept"):
            extra = _KEPT if name == "refs" else _LOST
            found = [line for line in found if line in value or not extra.match(line)]
        if found != value:
            wrong.append(f"{name}: {found}\n  instead of {value}")
    return wrong


def of_the_telling(story: Story, told: Told) -> list[str]:
    """Whether the undisturbed kern told the story at all: the others are only compared with it."""
    subjects = [line.partition("|")[0] for line in told.portrait["history"] if line]
    commits = ["start", story.commits] if story.commits else ["start"]
    wrong = [] if subjects == commits[::-1] else [f"the history is {subjects}"]
    if told.portrait["ignored"] != IGNORED:
        wrong.append("an ignored file is not as it was before the attempt that failed")
    asked = " ".join(told.calls)
    return wrong if asked == story.asks else [*wrong, f"asked {asked}, not {story.asks}"]


def _asked(asked: list[str], rest: list[str]) -> list[str]:
    """Nobody is asked whose answer was saved."""
    return [] if asked == rest else [f"asked {asked}, not {rest}"]
