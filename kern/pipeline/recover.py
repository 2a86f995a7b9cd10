"""What follows a kill, or a person's hand in the middle of a task: nothing is lost."""

import contextlib
import json
from dataclasses import replace

from kern.errors import KernError
from kern.git import refs
from kern.git.refs import StartRef
from kern.journal import store
from kern.model import Marker, Stage
from kern.models import ROLES
from kern.pipeline import facts, rooms
from kern.pipeline import undo as reverting
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, drop_start
from kern.pipeline.table import Do, resume
from kern.spec import edit
from kern.stages import record
from kern.system import workspace
from kern.system.lock import Holder

_UNFINISHED = (Do.UNDO, Do.ABANDON, Do.BOOK, Do.RELEASE, Do.ASK)
_FINISHED = (Do.PROVE, Do.REPROVE, Do.COMMIT)


def left(site: Site) -> str:
    """What a person should know of the tree where the run is interrupted. The facts say it: the
    signal may come while the agent works, after it, or in its gates.
    """
    do = Do.SELECT
    with contextlib.suppress(KernError):  # what is wrong is the next run's to say
        do = resume(facts.look(site).facts)
    if do in _UNFINISHED:
        return (
            "the agent's unfinished work is in your working tree: do not commit it. The next run "
            "saves it to a ref and restores the tree, including edits that you make now"
        )
    if do in _FINISHED:
        work = "the agent's work is in your working tree: do not commit it"
        return f"{work}. The next run checks it, with what you change in its files"
    return ""


def _count(site: Site, run: str) -> None:
    """The call in which that run was killed cost something, and its journal says nothing of it."""
    found = store.tail(store.place(site.repo.common_dir), having=json.dumps(run).encode())
    calls = [one for one in found if one["kind"] == "stage" and one["run"] == run]
    role = next((role for role in ROLES if calls and role == calls[-1].get("stage")), None)
    if role and calls[-1].get("did") == "start":
        who = str(calls[-1].get("model")), str(calls[-1].get("agent"))
        task, attempt = str(calls[-1].get("task")), int(calls[-1].get("attempt") or 1)
        site.caller.cut_off(role, task, attempt, who)


def tidy(site: Site, killed: Holder | None) -> None:
    """What a killed run has begun, and no look at the facts would finish. `killed`: that run."""
    if killed:
        _count(site, killed.run)
    reverting.finish(site.repo, site.papers)
    branch = site.repo.head().name
    for where, start in refs.starts(site.repo):
        if where != branch or refs.damage(site.repo, start):
            continue
        _undo_commits(site, start)
        if start.spec:
            workspace.retire(site.scope, f"{start.attempt}-lost")
            refs.seal(site.repo, start)


def _undo_commits(site: Site, start: StartRef) -> None:
    """In place: of an agent or a gate that was at work when kern was killed."""
    second = record.load(site.scope, Stage.IMPLEMENT)
    base = second.bound_to if second and second.key == start.task else start.base
    rooms.undo_commits(site, replace(site.repo.head(), commit=base), start, "an agent or a gate")


def undo(site: Site, at: Situation) -> None:
    """Stage 2 was begun and its answer never saved. Not an attempt."""
    assert at.start is not None
    # A stage2.json that does not count must not come back to count.
    workspace.retire(site.scope, f"{at.start.attempt}-lost")
    rooms.undo_mistakes(site, replace(at.head, commit=at.start.base), at.start, "the agent")
    ref = rooms.unfinished(site, at.start)
    rooms.restore(site, at)
    if ref:
        since = "" if rooms.of(site).mounted else " and what you changed since"
        site.warn(
            f"an earlier run was killed while an agent implemented: its work{since} is saved: "
            f"git show {ref}"
        )
    drop_start(site, at)


def abandon(site: Site, at: Situation) -> None:
    """The task was unmarked, reworded or removed while its stage 2 stood open."""
    start = at.start
    assert start is not None
    rooms.undo_mistakes(site, replace(at.head, commit=start.base), start, "the agent")
    ref = ""
    second = record.load(site.scope, Stage.IMPLEMENT)
    if second and (second.key, second.attempt) == (start.task, start.attempt):
        parent = refs.before(site.repo, start)
        ref = site.keep(start.task, str(start.attempt), second.tree, parent)
        rooms.accept(site, second.tree)
    else:
        ref = rooms.unfinished(site, start)
    rooms.restore(site, at)
    kept = f": its work is saved as {ref}" if ref else ""
    site.warn(f"no longer in progress: {start.task.text}{kept}")
    record.sweep(site.scope)  # or its answer would count again if the task is taken up again
    refs.delete(site.repo, start.ref, start.commit)


def take_over(site: Site, at: Situation) -> None:
    """A person ticked the task before kern could: in place, what is in the tree is theirs."""
    assert at.start is not None
    kept = ""
    second = record.load(site.scope, Stage.IMPLEMENT)
    if second and (second.key, second.attempt) == (at.start.task, at.start.attempt):
        parent = refs.before(site.repo, at.start)
        ref = site.keep(at.start.task, f"{at.start.attempt}-taken-over", second.tree, parent)
        kept = f"; what kern's agent had done is saved as {ref}"
    site.warn(f"you ticked it yourself: {at.start.task.text}: left as it is{kept}")
    drop_start(site, at)


def remark(site: Site, at: Situation) -> None:
    """Before the verdict: an agent or a gate of a killed run can have ticked it."""
    assert at.key is not None
    site.papers.edit_task(at.key, lambda text, _, task: edit.mark(text, task, Marker.ACTIVE))
    site.warn(f"ticked before kern had come to a verdict: back to [~]: {at.key.text}")


def stop(site: Site, at: Situation) -> None:
    """The task in progress belongs to another branch of this working tree."""
    commit = refs.detached(at.other_branch)
    where = f"a detached HEAD at {commit}" if commit else f"branch {at.other_branch}"
    back = f"switch -c NAME {commit}" if commit else f"switch {at.other_branch}"
    text = at.key.text if at.key else ""
    raise KernError(
        f"the task in progress was begun on {where}: {text}",
        hint=f"git {back}, or set its marker in SPEC.md to [ ] here",
    )
