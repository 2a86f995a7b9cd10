"""The durable steps: one for each row of the resume table, and the two of the loop's own, a look at
what is true and the next task.

Two rules hold throughout: HEAD has the task before `[x]` is on the disk, and work is saved, then
the tree restored, then the attempt noted.
"""

from collections.abc import Callable, Collection

from kern.errors import KernError
from kern.git import refs
from kern.model import Key, Marker, Saved, Stage
from kern.pipeline import commit, facts, implement, recover, research, settle, verify
from kern.pipeline.facts import Situation
from kern.pipeline.site import CLOSE, Site
from kern.pipeline.table import Do, Settled
from kern.spec import edit, order
from kern.spec.parse import Spec, Task
from kern.stages import record

# What each row of the resume table does; SELECT is the loop's. Each returns how the task's
# iteration ended, where it did.
STEPS: dict[Do, Callable[[Site, Situation], Settled | None]] = {
    Do.STOP: recover.stop,
    Do.FINISH: settle.finish,
    Do.ABANDON: recover.undo,
    Do.BOOK: settle.book,
    Do.RELEASE: settle.release,
    Do.COMMIT: commit.commit,
    Do.PROVE: verify.prove,
    Do.UNDO: recover.undo,
    Do.CONCLUDE: commit.conclude,
    Do.RESEARCH: research.research,
    Do.IMPLEMENT: implement.implement,
}


def look(site: Site) -> Situation:
    """What is true, the markers set right first."""
    if unclosed := site.papers.spec()[1].unclosed:
        raise KernError(unclosed.said, hint=CLOSE)
    _one_active(site)
    at = facts.look(site, proved=site.memory.proved)
    task, verdict = at.task, at.facts.saved not in (Saved.NONE, Saved.OPEN)
    if at.start and not at.facts.done and task and task.marker is Marker.DONE and not verdict:
        # An agent or a gate that was at work when kern was killed can have ticked it as well.
        site.papers.edit_task(task.key, lambda text, _, now: edit.mark(text, now, Marker.ACTIVE))
        site.warn(f"ticked before kern had come to a verdict: back to [~]: {task.text}")
        return facts.look(site)
    return at


def _one_active(site: Site) -> None:
    """Of several `[~]` the start ref's stays, else the stage files', else the first."""
    _, parsed = site.papers.spec()
    if len(parsed.active) < 2:
        return
    active = {task.key for task in parsed.active}
    files = (record.read(site.scope, stage) for stage in Stage)
    names = [start.task for _, start in refs.starts(site.repo)]
    names += [one.key for one in files if one]
    stays = next((key for key in names if key in active), parsed.active[0].key)

    def others(now: Spec) -> list[Task]:
        return [task for task in now.active if task.key != stays]

    site.papers.edit(
        lambda text, now: edit.mark_all(text, [(task, Marker.PENDING) for task in others(now)])
    )
    for task in others(parsed):
        site.warn(f"more than one [~]: line {task.line} goes back to [ ]: {task.text}")


def take_next(site: Site, passed_over: Collection[Key], wanted: Key | None = None) -> Key | None:
    """Sweep, select, `[~]`. None where nothing is ready. `wanted`: that one."""
    record.sweep(site.scope)

    def apply(text: str, parsed: Spec) -> tuple[str, Key | None]:
        task = parsed.find(wanted) if wanted else order.select(parsed, passed_over)
        return (edit.mark(text, task, Marker.ACTIVE), task.key) if task else (text, None)

    return site.papers.update(apply)
