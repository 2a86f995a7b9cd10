"""One task for one worker, and what came of it: values, which can travel to another machine, and
what a worker's SPEC.md says of its task, in the person's text. Pure.

A work branch names its task and the branch that it is to land on, so that nothing else needs to be
written down: after a kill, who made it is told by comparing names.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from kern import plain
from kern.model import Key
from kern.spec import edit, order
from kern.spec.parse import Kind, Spec, Task, parse

_PERSONS = (Kind.GATE, Kind.JUDGE, Kind.AFTER, Kind.HELD, Kind.ANSWER)


@dataclass(frozen=True, slots=True)
class Job:
    key: Key
    base: str  # the commit to begin on
    branch: str  # the work branch, see `branch`
    worker: int  # 1 and up, and its worktree's number; KERN_WORKER of agents and gates
    run: str = ""  # the id of the run that hands it out
    onto: str = ""  # the branch that it is to land on
    # Path and text: SPEC.md and what HEAD has otherwise.
    documents: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()  # of `kern 1 0`, as on a command line
    kept: str = ""  # the commit to be mended, on top of `base` and of what does not land
    failed: str = ""  # the stage file that tells of that, which this attempt mends


@dataclass(frozen=True, slots=True)
class Work:
    """Without a `commit` the task is not done."""

    job: Job
    code: int = 0  # the kern's exit code; negative: the signal that ended it
    commit: str = ""  # the newest of the work branch, on top of the job's base
    under_way: bool = False  # the task is in progress there: handed out again, it is resumed
    spec: str = ""  # SPEC.md and LEARNINGS.md as that kern left them
    learnings: str = ""
    fault: str = ""  # why it could not work or ended badly, in its own words
    hint: str = ""
    proved: str = ""  # what stands behind it, where this run may believe that


def branch(onto: str, key: Key) -> str:
    """The work branch of a task that is to land on the branch `onto`."""
    identity = f"{onto}\0{key.parent}\0{key.text}\0{key.nth}"
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    return f"kern/work/{plain.slug(key.text)}-{digest[:6]}"


def choose(
    spec: Spec, busy: Collection[Key], passed_over: Collection[Key] = (), only: Key | None = None
) -> Task | None:
    """The next task in the order of SPEC.md: what was skipped last, the subtasks of one task after
    one another. `busy`: those that are under way or wait to land; `only`: no other task.
    """

    def top(index: int) -> int:
        return next((above for above in [*spec.above(spec.tasks[index])][-1:]), index)

    busy_parents = {top(index) for index, task in enumerate(spec.tasks) if task.key in busy}
    free = (one for index, one in order.ready(spec) if top(index) not in busy_parents)
    return order.foremost((one for one in free if only in (None, one.key)), passed_over)


# ---------------------------------------------------------------- SPEC.md, written anew


def ticked(text: str, key: Key, theirs: str) -> str:
    """With the task done and its notes in the worker's SPEC.md. A parent of which it was the last
    open subtask is done with it, unless it has checks that the worker did not see.
    """
    parsed = parse(text := edit.replayed(text, _kerns(theirs, key), key))
    task = parsed.find(key)
    return edit.tick(text, parsed, task, proved=False) if task else text


def _kerns(theirs: str, key: Key) -> str:
    """Without notes that a person writes, who may have changed or removed them meanwhile."""
    task = parse(theirs).find(key)
    return edit.without(theirs, task.of(*_PERSONS)) if task else theirs


def noted(text: str, key: Key, theirs: str) -> str:
    """With the notes and the subtasks that the worker's SPEC.md has under the task, each once."""
    parsed, new = parse(text), parse(theirs := _kerns(theirs, key))
    task, other = parsed.find(key), new.find(key)
    if not (task and other):
        return text
    titles = [one.text for one in new.tasks if one.parent == new.tasks.index(other)]
    return edit.noted(edit.add_subtasks(text, parsed, task, titles), task, theirs, other)
