"""What follows a kill, or a person's hand, in the middle of a task in a room."""

from kern.git import refs
from kern.model import Stage
from kern.pipeline import rooms
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, drop_start
from kern.stages import record
from kern.system import workspace


def undo(site: Site, at: Situation) -> None:
    """Stage 2 was begun and its answer never saved. Not an attempt."""
    assert at.start is not None
    # A stage2.json that does not count must not come back to count.
    workspace.retire(site.scope, f"{at.start.attempt}-lost")
    if ref := rooms.unfinished(site, at.start):
        site.warn(
            "an earlier run was killed while an agent implemented: its work is saved: "
            f"git show {ref}"
        )
    drop_start(site, at)


def abandon(site: Site, at: Situation) -> None:
    """The task was unmarked, reworded or removed while its stage 2 stood open."""
    start = at.start
    assert start is not None
    ref = ""
    second = record.load(site.scope, Stage.IMPLEMENT)
    if second and (second.key, second.attempt) == (start.task, start.attempt):
        parent = refs.before(site.repo, start)
        ref = site.keeper.keep(start.task, str(start.attempt), second.tree, parent)
    else:
        ref = rooms.unfinished(site, start)
    kept = f": its work is saved as {ref}" if ref else ""
    site.warn(f"no longer in progress: {start.task.text}{kept}")
    record.sweep(site.scope)  # or its answer would count again if the task is taken up again
    refs.delete(site.repo, start.ref, start.commit)


def take_over(site: Site, at: Situation) -> None:
    """A person ticked the task before kern could."""
    assert at.start is not None
    second = record.load(site.scope, Stage.IMPLEMENT)
    kept = ""
    if second and (second.key, second.attempt) == (at.start.task, at.start.attempt):
        parent = refs.before(site.repo, at.start)
        ref = site.keeper.keep(at.start.task, f"{at.start.attempt}-taken-over", second.tree, parent)
        kept = f"; what kern's agent had done is saved as {ref}"
    site.warn(f"you ticked it yourself: {at.start.task.text}: left as it is{kept}")
    drop_start(site, at)
