"""A task on its way: what goes to a worker and what comes back, what was finished, what became of
it, and how its branch is called. Values. Pure.

A work branch names its task and the branch that it is to land on, so that nothing else needs to be
written down: after a kill, who made it is told by comparing names. What travels can be pickled, and
holds nothing of the caller's environment.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from kern import plain
from kern.model import Key

BRANCHES = "kern/work/"  # begins the name of each work branch


@dataclass(frozen=True, slots=True)
class Job:
    """One task for one ordinary kern."""

    key: Key
    number: int  # of the task in the SPEC.md that goes along, as `kern --task` takes it
    base: str  # the commit to begin on
    branch: str  # the work branch, see `work.branch`
    worker: int  # 1 and up; KERN_WORKER of agents and gates
    run: str  # the id of the run that hands it out
    papers: tuple[tuple[str, str], ...]  # path and text: SPEC.md and what else HEAD has otherwise
    options: tuple[str, ...] = ()  # of `kern 1 0`, as on a command line
    variables: tuple[tuple[str, str], ...] = ()  # KERN_… that stand for options
    tree: int = 0  # the worktree's number; 0: the worker's
    again: bool = False  # the task is in progress there: it is resumed
    kept: str = ""  # the commit with the work that is to be mended; empty: there is none
    before: tuple[str, ...] = ()  # run files of what this attempt is to mend

    @property
    def place(self) -> int:
        return self.tree or self.worker


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it. Without a `commit` the task is not done."""

    job: Job
    code: int  # the child's exit code; negative: the signal that ended it
    commit: str = ""  # the newest of the work branch, which finishes the task
    under_way: bool = False  # the task is in progress there: handed out `again`, it is resumed
    papers: tuple[tuple[str, str], ...] = ()  # SPEC.md and LEARNINGS.md as the child left them
    fault: str = ""  # why the child could not work or ended badly, in its own words
    hint: str = ""
    unfit: bool = False  # the fault is the worktree's or the worker's, none of the task's

    def paper(self, name: str) -> str | None:
        return dict(self.papers).get(name)


Carry = Callable[[Job], Outcome]  # raises nothing of a child's


@dataclass(frozen=True, slots=True)
class Work:
    """A task that a worker has finished, waiting to land."""

    key: Key
    branch: str  # the work branch, see `branch`
    base: str  # the commit that it was begun on
    commit: str  # its newest commit; between the two lies nothing but the task
    worker: int  # 1 and up
    spec: str = ""  # SPEC.md as the worker left it; git may ignore that file
    learnings: str | None = None  # LEARNINGS.md, likewise
    proved: str = ""  # what its kern, which this run has seen end, says to stand behind it

    @property
    def text(self) -> str:
        return self.key.text


@dataclass(frozen=True, slots=True)
class Landed:
    work: Work
    commit: str  # on the branch
    proved: str = ""  # what stands behind it there, in words


@dataclass(frozen=True, slots=True)
class SentBack:
    """What it changed was changed meanwhile, or a gate is red on the merged tree."""

    work: Work
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing was landed: a person's uncommitted edits lie in its way, or a merge is under way. It
    stays in the queue.
    """

    work: Work
    why: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """It does not land, and is not done anew: it has landed before, or a person has ticked,
    reworded or removed the task meanwhile.
    """

    work: Work
    why: str
    ref: str = ""  # what it changed is kept there, unless it has landed


Landing = Landed | SentBack | Waiting | Dropped


@dataclass(frozen=True, slots=True)
class Left:
    """A work branch of this branch's, which an earlier run has left."""

    branch: str
    tip: str
    key: Key
    base: str = ""  # where it was begun
    tree: int = 0  # its worktree's number; 0: none is there
    under_way: bool = False
    number: int = 0  # of the task in the worktree's SPEC.md
    known: bool = True  # whether SPEC.md still has the task


def branch(onto: str, key: Key) -> str:
    """The work branch of a task that is to land on the branch `onto`."""
    named = f"{onto}\0{key.parent}\0{key.text}\0{key.nth}"
    digest = hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{BRANCHES}{plain.slug(key.text)}-{digest[:6]}"
