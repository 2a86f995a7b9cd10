"""The state machine: what is true on disk and in git in, the next thing to do out. Total, bounded,
pure.

There is one way through a task, whether kern was killed or not: each durable step changes the
facts, and `resume` reads them anew. The order of the steps makes every state in between readable.
"""

from dataclasses import dataclass
from enum import StrEnum

from kern.model import Key, Outcome, Saved, Tier
from kern.stages.answer import Code

ATTEMPTS = 3  # before the next tier


class Start(StrEnum):
    """What the start ref on this branch says: stage 2 of some attempt was begun."""

    NONE = "none"
    OPEN = "an attempt that is not noted"
    NOTED = "an attempt that is noted already"
    OTHER = "another task"


@dataclass(frozen=True, slots=True)
class Facts:
    active: bool = False  # a task is [~]
    start: Start = Start.NONE
    done: bool = False  # a commit since the base ticks the task
    research: Code | None = None  # READY, NO_TASK or NEEDS_ANSWER
    noted: bool = False  # the research note stands in SPEC.md
    saved: Saved = Saved.NONE
    own: bool = False  # it was this very process that proved it
    at_base: bool = True  # HEAD is the commit that it is bound to
    attempts: int = 0  # noted since the last skip
    subtask: bool = False
    experiment: bool = False


class Do(StrEnum):
    """The next thing to do, in words for a person: the rows of the table in `kern help inside`."""

    FINISH = "the commit is there: tick the task"
    SELECT = "take the next task"
    ABANDON = "the task was taken out of progress: its unfinished work is saved first"
    BOOK = "save the failed attempt, note why"
    RELEASE = "split or skip the task, or note its question"
    COMMIT = "commit the finished work"
    PROVE = "run the gates on the finished work"
    UNDO = "save the interrupted attempt, retry"
    CONCLUDE = "the experiment did not work: commit what it taught"
    RESEARCH = "research"
    IMPLEMENT = "implement"


@dataclass(frozen=True, slots=True)
class Settled:
    """How a task's iteration ended."""

    task: str
    outcome: Outcome
    detail: str
    key: Key
    proved: str = ""  # what stands behind it, empty without any check
    commit: str = ""  # full hash
    idle: bool = False  # it was done already: no failure


def resume(facts: Facts) -> Do:
    """The resume table, first match wins."""
    if facts.done and (facts.active or facts.start is not Start.NONE):
        return Do.FINISH
    if not facts.active:
        return Do.SELECT if facts.start is Start.NONE else Do.ABANDON
    if facts.start is Start.OTHER:
        return Do.ABANDON
    match facts.saved:
        case Saved.FAILED:
            return Do.BOOK
        case Saved.DECOMPOSED | Saved.SKIPPED | Saved.ASKED:
            return Do.RELEASE
        case Saved.PROVED if facts.own and facts.at_base:
            return Do.COMMIT
        case Saved.PROVED | Saved.OPEN:  # a file says so, and anyone can write a file
            return Do.PROVE
        case Saved.NONE:
            return Do.UNDO if facts.start is Start.OPEN else _ahead(facts)


def _ahead(facts: Facts) -> Do:
    """No attempt is open: research, then the tier that the notes call for."""
    mode = due(facts)
    if mode is Tier.CONCLUDE:  # nobody is asked any more, for research neither
        return Do.CONCLUDE
    if facts.research in (Code.NO_TASK, Code.NEEDS_ANSWER):
        return Do.RELEASE
    if facts.research is None or not facts.noted:
        return Do.RESEARCH
    return Do.RELEASE if mode is Tier.SKIP else Do.IMPLEMENT


def due(facts: Facts) -> Tier:
    if facts.attempts < ATTEMPTS:
        return Tier.IMPLEMENT
    if facts.experiment:
        return Tier.CONCLUDE
    return Tier.SKIP if facts.subtask else Tier.DECOMPOSE


def mends(facts: Facts) -> bool:
    """Whether this attempt may mend the first; where it fails as well, research runs anew."""
    return facts.attempts == 1 and due(facts) is Tier.IMPLEMENT and not facts.experiment


def skipped(full_failures: int, *, exhausted: bool, again: bool = False) -> Outcome:
    """`exhausted`: the attempts are used up; else there is nothing to do, `again`. The second time
    a person is needed.
    """
    return Outcome.BLOCKED if (full_failures if exhausted else again) else Outcome.SKIPPED
