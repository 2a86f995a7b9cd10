"""What was finished, what became of it, and how its branch is called. Values. Pure.

A work branch names its task and the branch that it is to land on, so that nothing else needs to be
written down: after a kill, who made it is told by comparing names.
"""

import hashlib

from kern import plain
from kern.frozen import frozen
from kern.model import Key

BRANCHES = "kern/work/"  # begins the name of each work branch


@frozen
class Work:
    """A task that a worker has finished: proven on its base, waiting to land."""

    key: Key
    branch: str  # the work branch, see `branch`
    base: str  # the commit that it was begun on
    commit: str  # its newest commit; between the two lies nothing but the task
    worker: int  # 1 and up
    spec: str = ""  # SPEC.md as the worker left it; git may ignore that file
    learnings: str | None = None  # LEARNINGS.md, likewise
    proved: str = ""  # what stood behind it on its base, in words

    @property
    def text(self) -> str:
        return self.key.text


@frozen
class Landed:
    work: Work
    commit: str  # on the branch
    proved: str = ""  # what stands behind it there, in words


@frozen
class Collided:
    """The task was sent back: what it changed was changed meanwhile."""

    work: Work
    other: str  # the commit that it collided with
    files: tuple[str, ...]


@frozen
class Red:
    """The task was sent back: a gate is red on the merged tree."""

    work: Work
    gate: str  # as a note says it: `gate check`
    detail: str


@frozen
class Waiting:
    """Nothing was landed: a person's uncommitted edits lie in its way. It stays in the queue."""

    work: Work
    paths: tuple[str, ...]
    why: str = ""  # where it is something else: a merge that is under way, say


@frozen
class Dropped:
    """It does not land, and is not done anew: it has landed before, or a person has ticked,
    reworded or removed the task meanwhile.
    """

    work: Work
    why: str
    ref: str = ""  # what it changed is kept there, unless it has landed


Landing = Landed | Collided | Red | Waiting | Dropped


def branch(onto: str, key: Key) -> str:
    """The work branch of a task that is to land on the branch `onto`."""
    named = f"{onto}\0{key.parent}\0{key.text}\0{key.nth}"
    digest = hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{BRANCHES}{plain.slug(key.text)}-{digest[:6]}"
