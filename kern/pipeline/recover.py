"""What follows a kill, or a person's hand in the middle of a task: nothing is lost."""

import json
from dataclasses import replace

from kern import plain
from kern.errors import KernError
from kern.git import refs
from kern.journal import store
from kern.model import Stage
from kern.models import ROLES
from kern.pipeline import attempt, facts, landing, watched
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, drop_start
from kern.stages import record
from kern.system import process, workspace
from kern.system.lock import Holder


def left(site: Site) -> str:
    """In place, what a person should know of the tree where the run is interrupted."""
    if site.rooms.mounted or not refs.start(site.repo, site.repo.head().name):
        return ""
    return (
        "the task's unfinished work is in your working tree: do not commit it. The next run goes "
        "on with it, or saves it to a ref and restores the tree, with edits that you make now"
    )


def tidy(site: Site, killed: Holder | None) -> None:
    """What a killed run has begun, and no look at the facts would finish; what a reboot took.
    `killed`: that run.
    """
    workspace.restore(site.scope)
    # An agent that outlived a killed kern would go on editing.
    if ended := process.sweep(("KERN_ROOT", str(site.repo.root))):
        site.warn(f"ended {plain.count(ended, 'process')} that an earlier run left behind")
    if killed:
        _count(site, killed.run)
    landing.follow(site.repo, site.papers)


def _count(site: Site, run: str) -> None:
    """The call in which that run was killed cost something, and its journal says nothing of it."""
    found = store.tail(store.place(site.repo.common_dir), having=json.dumps(run).encode())
    calls = [one for one in found if one["kind"] == "stage" and one["run"] == run]
    role = next((role for role in ROLES if calls and role == calls[-1].get("stage")), None)
    if role and calls[-1].get("did") == "start":
        who = str(calls[-1].get("model")), str(calls[-1].get("agent"))
        task, attempt = str(calls[-1].get("task")), int(calls[-1].get("attempt") or 1)
        site.caller.cut_off(role, task, attempt, who)


def undo(site: Site, at: Situation) -> None:
    """An attempt is open that does not count: kern was killed before its answer was saved, or the
    task was unmarked, ticked, reworded or removed. Its work is saved. Not an attempt.
    """
    start = at.start
    assert start is not None
    watched.undo_mistakes(site, replace(at.head, commit=start.base), start, "the agent")
    if second := facts.files(site, start.task, start.attempt, start).get(Stage.IMPLEMENT):
        ref = site.keep(start.task, f"{start.attempt}-killed", second.tree, start.base)
        site.rooms.work.accept(second.tree)
    else:
        ref = attempt.unfinished(site, start)
    attempt.restore(site, at)
    why, ours = f"no longer in progress: {start.task.text}", False
    if at.facts.active and start.task == at.key:
        why, ours = "an earlier run was killed while an agent implemented", True
        # A stage2.json that does not count must not come back to count.
        workspace.retire(site.scope, f"{start.attempt}-lost")
    if ref:
        since = "" if site.rooms.mounted else " and what you changed since"
        site.warn(f"{why}: its work{since} is saved: git show {ref}")
    drop_start(site, at)
    if not ours:  # or its answer would count again if the task is taken up again
        record.sweep(site.scope)


def stop(site: Site, at: Situation) -> None:
    """The task in progress belongs to another branch of this working tree."""
    text = at.key.text if at.key else ""
    raise KernError(
        f"the task in progress was begun on branch {at.other_branch}: {text}",
        hint=f"git switch {at.other_branch}, or set its marker in SPEC.md to [ ] here",
    )
