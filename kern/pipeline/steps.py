"""The durable steps: one for each row of the resume table, and the two of the loop's own, a look at
what is true and the next task.

Two rules hold throughout: HEAD has the task before `[x]` is on the disk, and work is saved, then
the tree restored, then the attempt noted.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from kern.errors import KernError
from kern.model import Key, Marker, Saved
from kern.pipeline import attempt, commit, facts, implement, research, settle, verify
from kern.pipeline.facts import Situation
from kern.pipeline.site import CLOSE, Site, drop_start
from kern.pipeline.table import Do, Settled
from kern.spec import edit, order
from kern.spec.parse import Spec
from kern.stages import record
from kern.system import workspace


def look(site: Site) -> Situation:
    """What is true, the markers set right first."""
    _, parsed = site.documents.spec()
    if parsed.unclosed:
        raise KernError(parsed.unclosed.said, hint=CLOSE)
    at = facts.look(site, proved=site.memory.proved)
    task, verdict = at.task, at.facts.saved not in (Saved.NONE, Saved.OPEN)
    if at.start and not at.facts.done and task and task.marker is Marker.DONE and not verdict:
        # An agent or a gate that was at work when kern was killed can have ticked it as well.
        site.documents.edit_task(task.key, lambda text, _, now: edit.mark(text, now, Marker.ACTIVE))
        site.warn(f"ticked before kern had come to a verdict: back to [~]: {task.text}")
        return facts.look(site)
    return at


def take_next(site: Site, passed_over: Collection[Key], only: Key | None = None) -> Key | None:
    """Sweep, select, `[~]`. None where nothing is ready. `wanted`: that one."""
    record.sweep(site.scope)

    def apply(text: str, parsed: Spec) -> tuple[str, Key | None]:
        task = parsed.find(only) if only else order.select(parsed, passed_over)
        return (edit.mark(text, task, Marker.ACTIVE), task.key) if task else (text, None)

    return site.documents.update(apply)


def undo(site: Site, at: Situation) -> None:
    """An attempt is open that does not count: kern was killed before its answer was saved, or the
    task was unmarked, ticked, reworded or removed. Its work is saved. Not an attempt.
    """
    start = at.start
    assert start is not None
    attempt.undo_mistakes(site, replace(at.head, commit=start.base), "the agent")
    killed = at.facts.active and start.task == at.key
    why = f"no longer in progress: {start.task.text}"
    if killed:
        why = "an earlier run was killed while an agent implemented"
        # A stage2.json that does not count must not come back to count.
        workspace.retire(site.scope, f"{start.attempt}-lost")
    attempt.put_aside(site, at, start, why)
    drop_start(site, at)
    if not killed:  # or its answer would count again if the task is taken up again
        record.sweep(site.scope)


# What each row of the resume table does; SELECT is the loop's. Each returns how the task's
# iteration ended, where it did.
STEPS: dict[Do, Callable[[Site, Situation], Settled | None]] = {
    Do.FINISH: settle.finish,
    Do.ABANDON: undo,
    Do.BOOK: settle.book,
    Do.RELEASE: settle.release,
    Do.COMMIT: commit.commit,
    Do.PROVE: verify.prove,
    Do.UNDO: undo,
    Do.CONCLUDE: commit.conclude,
    Do.RESEARCH: research.research,
    Do.IMPLEMENT: implement.implement,
}
