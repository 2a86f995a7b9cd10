"""The durable steps: one for each row of the resume table, and the two of the loop's own, a look at
what is true and the next task.

Two rules hold throughout: HEAD has the task before `[x]` is on the disk, and work is saved, then
the tree restored, then the attempt noted.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from kern.errors import KernError
from kern.git import refs
from kern.model import Key, Marker, Saved, Stage
from kern.pipeline import attempt, commit, facts, implement, research, settle, verify
from kern.pipeline.facts import Situation
from kern.pipeline.site import CLOSE, Site, drop_start
from kern.pipeline.table import Do, Settled
from kern.spec import edit, order
from kern.spec.parse import Spec, Task
from kern.stages import record
from kern.system import workspace


def look(site: Site) -> Situation:
    """What is true, the markers set right first."""
    _, parsed = site.documents.spec()
    if parsed.unclosed:
        raise KernError(parsed.unclosed.said, hint=CLOSE)
    if len(parsed.active) > 1:
        _one_active(site)
    at = facts.look(site, proved=site.memory.proved)
    task, verdict = at.task, at.facts.saved not in (Saved.NONE, Saved.OPEN)
    if at.start and not at.facts.done and task and task.marker is Marker.DONE and not verdict:
        # An agent or a gate that was at work when kern was killed can have ticked it as well.
        site.documents.edit_task(task.key, lambda text, _, now: edit.mark(text, now, Marker.ACTIVE))
        site.warn(f"ticked before kern had come to a verdict: back to [~]: {task.text}")
        return facts.look(site)
    return at


def _one_active(site: Site) -> None:
    """Of several `[~]` the one stays that has a start ref or a stage file, else the first."""
    keys = {start.task for _, start in refs.starts(site.repo)}
    keys |= {one.key for stage in Stage if (one := record.read(site.scope, stage))}

    def others(now: Spec) -> list[Task]:
        stays = next((task for task in now.active if task.key in keys), now.active[0])
        return [task for task in now.active if task is not stays]

    for task in others(site.documents.spec()[1]):
        site.warn(f"more than one [~]: line {task.line} goes back to [ ]: {task.text}")
    site.documents.edit(
        lambda text, now: edit.mark_all(text, [(task, Marker.PENDING) for task in others(now)])
    )


def take_next(site: Site, passed_over: Collection[Key], only: Key | None = None) -> Key | None:
    """Sweep, select, `[~]`. None where nothing is ready. `wanted`: that one."""
    record.sweep(site.scope)

    def apply(text: str, parsed: Spec) -> tuple[str, Key | None]:
        task = parsed.find(only) if only else order.select(parsed, passed_over)
        return (edit.mark(text, task, Marker.ACTIVE), task.key) if task else (text, None)

    return site.documents.update(apply)


def require_here(site: Site, at: Situation) -> None:
    """Raises KernError where the task in progress was begun on another branch of this tree."""
    if not at.facts.active or at.files or (at.start and at.start.task == at.key):
        return
    for name, start in refs.starts(site.repo):
        if name != at.head.name and start.task == at.key:
            raise KernError(
                f"the task in progress was begun on branch {name}: {start.task.text}",
                hint=f"git switch {name}, or set its marker in SPEC.md to [ ] here",
            )


def undo(site: Site, at: Situation) -> None:
    """An attempt is open that does not count: kern was killed before its answer was saved, or the
    task was unmarked, ticked, reworded or removed. Its work is saved. Not an attempt.
    """
    start = at.start
    assert start is not None
    attempt.undo_mistakes(site, replace(at.head, commit=start.base), "the agent")
    if second := facts.files(site, start.task, start.attempt, start).get(Stage.IMPLEMENT):
        ref = site.keep(start.task, f"{start.attempt}-killed", second.tree, start.base)
        site.rooms.work.accept(second.tree)
    else:
        ref = attempt.unfinished(site, start)
    attempt.restore(site, at)
    killed = at.facts.active and start.task == at.key
    why = f"no longer in progress: {start.task.text}"
    if killed:
        why = "an earlier run was killed while an agent implemented"
        # A stage2.json that does not count must not come back to count.
        workspace.retire(site.scope, f"{start.attempt}-lost")
    if ref:
        since = "" if site.rooms.mounted else " and what you changed since"
        site.warn(f"{why}: its work{since} is saved: git show {ref}")
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
