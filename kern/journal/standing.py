"""How things stand now, beside what the journal tells of what happened: as SPEC.md has its tasks,
and which refs git still has. Pure.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kern.frozen import frozen
from kern.model import SAID, UNVERIFIED, Need, unverified

NOTHING = ("skipped", "blocked", "asked")  # outcomes that call for a person
ANSWERED, BY_YOU, AGAIN = "answered", "done by you", "done, and open again"


@frozen
class Standing:
    """Tasks by their texts."""

    needs: tuple[Need, ...] | None = None  # None: SPEC.md was not looked at, or cannot be read
    held: tuple[Need, ...] = ()  # by a person
    done: frozenset[str] = frozenset()  # that are ticked
    answered: Mapping[str, str] = field(default_factory=dict)  # with the answer
    again: frozenset[str] = frozenset()  # that are not ticked, say after kern undo
    refs: frozenset[str] | None = None  # of saved attempts, as the journal names them


NOWHERE = Standing()


def state(task: Mapping[str, Any], now: Standing) -> str:
    """A task's outcome, in a word or two, with what a person has done since."""
    outcome, text = str(task["outcome"]), task["task"]
    if outcome == "done" and text in now.again:
        return AGAIN
    if outcome == "done" and unverified(task["proved"]):
        return f"done, {UNVERIFIED}"
    if outcome in (*NOTHING, "open") and text in now.done:
        return BY_YOU
    if outcome == "asked" and text in now.answered:
        return ANSWERED
    return SAID.get(outcome, outcome)


def needs(tasks: Mapping[str, Mapping[str, Any]], now: Standing) -> list[dict[str, Any]]:
    """Each task that needs a person, once: as SPEC.md has them; else as the journal left them."""
    if now.needs is not None:
        return [need._asdict() for need in now.needs]
    left = (task for task in tasks.values() if task["outcome"] in NOTHING)
    rows = (Need(0, 0, task["task"], task["detail"], "kern status") for task in left)
    return [need._asdict() for need in rows]


def ref(name: object, now: Standing) -> str:
    """The ref of a saved attempt; empty where it is gone."""
    text = str(name or "")
    return text if now.refs is None or text in now.refs else ""
