"""The state machine: what is true on disk and in git in, the next thing to do out. Total, bounded,
pure.

There is one way through a task, whether kern was killed or not: each durable step changes the
facts, and `resume` reads them anew. The order of the steps makes every state in between readable.
"""

from dataclasses import dataclass
from enum import StrEnum

from kern.model import Key, Outcome, Saved, Tier

ATTEMPTS = 3  # before the next tier


class Start(StrEnum):
    """What the start ref on this branch says: stage 2 of some attempt was begun."""

    NONE = "none"
    THIS = "this attempt"
    EARLIER = "an attempt that is noted already"
    LATER = "an attempt whose notes were deleted"
    OTHER = "another task"


class Held(StrEnum):
    """The marker of the start ref's task where no task is `[~]`."""

    PENDING = "pending"
    DONE = "done"
    GONE = "gone"


class Research(StrEnum):
    NONE = "none"
    READY = "ready"
    NO_TASK = "no task"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Facts:
    active: bool = False  # a task is [~]
    elsewhere: bool = False  # its start ref stands on another branch of this working tree
    start: Start = Start.NONE
    held: Held = Held.PENDING
    done: bool = False  # a commit since the base ticks the task
    research: Research = Research.NONE
    noted: bool = False  # the research note stands in SPEC.md
    saved: Saved = Saved.NONE
    own: bool = False  # it was this very process that proved it
    rejected: bool = False  # stage3.json of this attempt says so
    at_base: bool = True  # HEAD is the commit that stage 2 began on
    attempts: int = 0  # noted since the last skip
    subtask: bool = False
    experiment: bool = False


class Do(StrEnum):
    """The next thing to do; the letters are the rows of the resume table in `kern help design`."""

    STOP = "a: stop, the task is in progress on another branch"
    FINISH = "c: the commit is there: tick the task"
    SELECT = "d: take the next task"
    TAKE_OVER = "e: you ticked it: save the work and go on"
    REMARK = "e: it was ticked before its gates ran: set it back to [~]"
    ABANDON = (
        "f: the task was opened again, reworded or removed: its unfinished work is saved and the "
        "tree restored first"
    )
    BOOK = "g: save the failed attempt, restore the tree, note why"
    RELEASE = "h: split or skip the task"
    ASK = "h: save the work, restore the tree, note the question"
    COMMIT = "i: commit the finished work"
    REJECT = "i: the commit stage rejected the change: a failed attempt"
    REPROVE = "j: the branch has moved: run the gates again on what is there"
    PROVE = "k: run the gates on the finished work"
    UNDO = "l: save the interrupted attempt, restore the tree, retry"
    NOTE_RESEARCH = "m: write the research note"
    SKIP_UNFIT = "m: skip: research found nothing to do"
    ASK_FIRST = "m: note the question that research asks"
    IMPLEMENT = "m: implement"
    DECOMPOSE = "m: split the task into subtasks"
    SKIP = "m: skip: the attempts are used up"
    CONCLUDE = "m: the experiment did not work: commit what it taught"
    RESEARCH = "n: research"

    @property
    def words(self) -> str:
        """For a person, who knows nothing of the table."""
        return self.partition(": ")[2]


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
    if facts.active and facts.elsewhere:
        return Do.STOP
    if facts.done and (facts.active or facts.start is not Start.NONE):
        return Do.FINISH
    return _in_progress(facts) if facts.active else _at_rest(facts)


def _at_rest(facts: Facts) -> Do:
    if facts.start is Start.NONE:
        return Do.SELECT
    if facts.held is not Held.DONE:
        return Do.ABANDON
    # Until the verdict is there, an agent or a gate of a killed run can have ticked it as well.
    return Do.REMARK if facts.saved in (Saved.NONE, Saved.OPEN) else Do.TAKE_OVER


def _in_progress(facts: Facts) -> Do:
    if facts.start is Start.OTHER:
        return Do.ABANDON
    match facts.saved:
        case Saved.FAILED:
            return Do.BOOK
        case Saved.DECOMPOSED | Saved.SKIPPED:
            return Do.RELEASE
        case Saved.ASKED:
            return Do.ASK
        case Saved.PROVED if facts.rejected:
            return Do.REJECT
        case Saved.PROVED if not facts.at_base:
            return Do.REPROVE
        case Saved.PROVED if not facts.own:  # a file says so, and anyone can write a file
            return Do.PROVE
        case Saved.PROVED:
            return Do.COMMIT
        case Saved.OPEN:
            return Do.PROVE
        case Saved.NONE:
            pass
    if facts.start in (Start.THIS, Start.LATER):
        return Do.UNDO
    return _ahead(facts)


def _ahead(facts: Facts) -> Do:
    """No attempt is open: research, then the tier that the notes call for."""
    mode = due(facts)
    if mode is Tier.CONCLUDE:  # nobody is asked any more, for research neither
        return Do.CONCLUDE
    if facts.research is Research.NONE:
        return Do.RESEARCH
    if facts.research is Research.NO_TASK:
        return Do.SKIP_UNFIT
    if facts.research is Research.ASKED:
        return Do.ASK_FIRST
    if not facts.noted:
        return Do.NOTE_RESEARCH
    match mode:
        case Tier.IMPLEMENT:
            return Do.IMPLEMENT
        case Tier.DECOMPOSE:
            return Do.DECOMPOSE
        case Tier.SKIP:
            return Do.SKIP


def due(facts: Facts) -> Tier:
    return tier(facts.attempts, subtask=facts.subtask, experiment=facts.experiment)


def mends(facts: Facts) -> bool:
    """Whether this attempt may mend the first; where it fails as well, research runs anew."""
    return facts.attempts == 1 and due(facts) is Tier.IMPLEMENT and not facts.experiment


def tier(attempts: int, *, subtask: bool, experiment: bool) -> Tier:
    if attempts < ATTEMPTS:
        return Tier.IMPLEMENT
    if experiment:
        return Tier.CONCLUDE
    return Tier.SKIP if subtask else Tier.DECOMPOSE


def skipped(full_failures: int, *, exhausted: bool, again: bool = False) -> Outcome:
    """`exhausted`: the attempts are used up; else there is nothing to do, `again`. The second time
    a person is needed.
    """
    return Outcome.BLOCKED if (full_failures if exhausted else again) else Outcome.SKIPPED
