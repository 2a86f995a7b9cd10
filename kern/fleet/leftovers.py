"""What an earlier run of many at once has left, told by refs and worktrees alone: finished work
lands, half-done work is resumed, the rest goes.
"""

from kern.config import FILE
from kern.errors import KernError
from kern.fleet import work, worktrees
from kern.fleet.work import Work
from kern.fleet.worktrees import Yard
from kern.frozen import frozen
from kern.git import history, refs
from kern.git.repository import Repo
from kern.git.snapshot import Snapshots, left_out
from kern.model import LEARNINGS, SPEC, Key, Marker
from kern.pipeline.site import Site
from kern.plain import decode
from kern.spec import checklist
from kern.spec.checklist import Spec
from kern.spec.documents import Documents
from kern.system import descendants, process

OF = "KERN_OF"  # marks the kerns of a working tree's workers: its path
_GRACE_S = (5.0, 3.0)  # an agent is ended by its own kern


@frozen
class Left:
    """A work branch of this branch's."""

    branch: str
    tip: str
    key: Key
    base: str = ""  # where it was begun
    tree: int = 0  # its worktree's number; 0: none is there
    under_way: bool = False
    number: int = 0  # of the task in the worktree's SPEC.md
    known: bool = True  # whether SPEC.md still has the task


def end_orphans(repo: Repo, yard: Yard) -> int:
    """The kerns of a run that was killed, and what they started."""
    ended = descendants.sweep((OF, str(repo.root)), _GRACE_S)
    for number in worktrees.numbers(yard):
        ended += process.sweep(("KERN_ROOT", str(yard.place(number))))
    return ended


def look(yard: Yard, onto: str, parsed: Spec) -> list[Left]:
    """Of the branch `onto`, in the order of its tasks; a branch of another's is none of these."""
    there = worktrees.branches(yard.repo)
    if not there:
        return []
    begun = worktrees.begun(yard.repo)
    names = {work.branch(onto, task.key): task.key for task in parsed.tasks}
    trees: dict[str, tuple[int, Repo]] = {}
    for number in worktrees.numbers(yard):
        made = worktrees.of(yard, number)
        head = made.plain_head() if made else None
        if made and head:
            trees.setdefault(head.branch, (number, made))
    found = []
    for branch, tip in there.items():
        number, made = trees.get(branch, (0, None))
        text = _spec(yard.repo, made, tip)
        theirs = checklist.parse(text)
        own = {work.branch(onto, task.key): task for task in theirs.tasks}
        task = own.get(branch)
        key = names.get(branch) or (task.key if task and made else None)
        if key is None:
            continue
        active = bool(made) and task is not None and task.marker is Marker.ACTIVE
        at = theirs.tasks.index(task) + 1 if task else 0
        under = branch in begun or active
        base = yard.repo.text("merge-base", tip, f"refs/heads/{onto}")
        found.append(Left(branch, tip, key, base, number, under, at, branch in names))
    places = list(names)
    return sorted(found, key=lambda one: places.index(one.branch) if one.known else -1)


def _spec(repo: Repo, made: Repo | None, tip: str) -> str:
    if made:
        try:
            return Documents(made.root).read(SPEC) or ""
        except KernError:
            return ""
    return decode(repo.content(tip, SPEC) or b"")


def finished(site: Site, yard: Yard, left: Left) -> Work | None:
    """What waits to land; None where its newest commit is not the task's."""
    tip = history.commit(site.repo, left.tip)
    if left.under_way or not tip.parents or not site.witness.ticks(tip, left.key):
        return None
    made = worktrees.of(yard, left.tree) if left.tree else None
    learned = site.repo.content(left.tip, LEARNINGS)
    return Work(
        *(left.key, left.branch, tip.parents[0], left.tip, left.tree or 1),
        _spec(site.repo, made, left.tip),
        None if learned is None else decode(learned),
    )


def keep(site: Site, yard: Yard, left: Left) -> str:
    """Half-done work as a ref, before its worktree goes; empty where there is none."""
    made = worktrees.of(yard, left.tree) if left.tree else None
    if made is None:
        return ""
    tree = Snapshots(made).take(left.tip)
    changed = site.repo.changed(site.repo.tree(left.tip), tree)
    # Where no task had begun, files may lack because git was killed at making the worktree.
    work = [path for path, (_, new) in changed.items() if new or left.under_way]
    if all(left_out(path) or path == FILE for path in work):
        return ""
    message = f"{left.key.text}\n\nunfinished\n"
    return refs.keep(site.repo, refs.slug(left.key), "unfinished", tree, message, left.tip)
