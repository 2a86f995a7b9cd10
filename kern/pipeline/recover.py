"""What follows a kill, or a person's hand in the middle of a task: nothing is lost."""

import contextlib
import json

from kern.errors import KernError
from kern.git import backups, history, refs
from kern.journal import store
from kern.model import Marker, Stage
from kern.models import ROLES
from kern.pipeline import facts, isolation, limits
from kern.pipeline import undo as reverting
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, drop_start, keep
from kern.pipeline.table import Do, resume
from kern.plain import some
from kern.sandbox import confine
from kern.sandbox.wall import Kind
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


def unplant(site: Site, killed: Holder | None) -> None:
    """A stage 2 that a kill cut off may have planted what this run would go by; a gate as well,
    so that no stage file is asked whether it had ended. An answer that lies there although kern
    saw no end of it is none of kern's. `killed`: the last run; one that came to its own end has
    restored what others planted, and what changed since is a person's.
    """
    if killed:
        _count(site, killed.run)
    for line in reverting.finish(site.repo, site.papers):
        site.warn(line)
    if site.rooms:
        return
    branch = site.repo.head().name
    for where, start in refs.starts(site.repo):
        if where != branch:
            continue
        if killed or start.spec:
            limits.restore(site, start, "an agent or gate of an earlier run, or you since,")
        if start.spec and not refs.damage(site.repo, start):
            workspace.retire(site.scope, f"{start.attempt}-lost")
            refs.seal(site.repo, start)


def undo(site: Site, at: Situation) -> None:
    """Stage 2 was begun and its answer never saved. Not an attempt."""
    assert at.start is not None
    # A stage2.json that does not count must not come back to count.
    workspace.retire(site.scope, f"{at.start.attempt}-lost")
    limits.enforce(site, at.head, at.start, by="stage [23]")
    ref = site.keeper.back_to(at.start, f"{at.start.attempt}-killed")
    if ref:
        paths = sorted(site.repo.changed(at.start.tree, f"{ref}^{{tree}}"))
        site.warn(
            "an earlier run was killed while an agent implemented: the tree is as it was before; "
            f"its work and what you changed since are saved: {some(paths)}; "
            f"git diff {at.start.tree[:12]} {ref}; yours back: git checkout {ref} -- PATH"
        )
    site.keeper.ignored.restore(at.start.task, at.start.attempt)
    drop_start(site, at)


def abandon(site: Site, at: Situation) -> None:
    """The task was unmarked, reworded or removed while its stage 2 stood open."""
    start = at.start
    assert start is not None
    limits.enforce(site, at.head, start, by="stage [23]")
    second = record.load(site.scope, Stage.IMPLEMENT)
    if second and (second.key, second.attempt) == (start.task, start.attempt):
        parent = refs.before(site.repo, start)
        site.keeper.keep(start.task, str(start.attempt), second.tree, parent)
    ref = site.keeper.back_to(start, f"{start.attempt}-killed")
    site.keeper.ignored.restore(start.task, start.attempt)
    kept = f": its work is saved as {ref}, the tree is as it was before" if ref else ""
    site.warn(f"no longer in progress: {start.task.text}{kept}")
    record.sweep(site.scope)  # or its answer would count again if the task is taken up again
    refs.delete(site.repo, start.ref, start.commit)


def take_over(site: Site, at: Situation) -> None:
    """A person ticked the task before kern could; the tree is theirs."""
    assert at.start is not None
    if at.head.commit != at.base:
        limits.take_back(site, at.start, at.base, "stage 3", "the commit stage")
    ref = site.keeper.keep(
        at.start.task,
        f"{at.start.attempt}-taken-over",
        site.snapshots.take(at.start.tree),
        at.head.commit,
    )
    site.warn(f"you ticked it yourself: {at.start.task.text}: left as it is, and saved as {ref}")
    site.keeper.ignored.name_changed(at.start.task, at.start.attempt)
    drop_start(site, at)


def remark(site: Site, at: Situation) -> None:
    """Before the verdict: an agent or a gate of a killed run can have ticked it."""
    assert at.key is not None
    site.papers.edit_task(at.key, lambda text, _, task: edit.mark(text, task, Marker.ACTIVE))
    site.warn(f"ticked before kern had come to a verdict: back to [~]: {at.key.text}")


def name_taken_out(site: Site, at: Situation) -> None:
    """Before a commit that another run began: a hook framework that was killed leaves the tree
    as git has it, without what the person had not committed.
    """
    key, _ = at.opened
    second = at.files.get(Stage.IMPLEMENT)
    if key in site.memory.looked or (second and second.run == site.caller.run):
        return
    site.memory.looked.add(key)
    if second:
        before, held = second.change
    else:
        assert at.start is not None
        before = held = at.start.tree
    now = site.snapshots.take(before)
    expected, _ = site.witness.expected(before, held, at.head.commit)
    gone: set[str] = set()
    for git_has in filter(None, (expected, at.head.commit) if now != held else ()):
        there = site.witness.uncommitted(git_has, now)
        gone |= {*site.witness.uncommitted(git_has, held)} - {*there}
    if not gone:
        return
    ref = keep(site, at, "before", held)
    since = history.commit(site.repo, at.start.commit).seconds if at.start else 0
    home = isolation.homes(site.repo) / confine.audience(Kind.COMMITTER)
    saved = [f"; saved by {one}" for one in backups.commands(site.repo, gone, since, home)]
    site.warn(
        f"your uncommitted changes of {some(sorted(gone))} are no longer in the working tree: "
        "a hook that was ended may have taken them out. "
        f"To restore them: git restore --source={ref} -- PATH{''.join(saved)}"
    )


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
