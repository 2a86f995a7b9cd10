"""What an earlier run of many at once has left, as refs and worktrees tell of it: finished work
lands, half-done work is resumed or kept, and nothing is left over but what is to go on.
"""

from collections.abc import Iterator, Mapping

from kern import plain
from kern.config import FILE
from kern.errors import KernError
from kern.fleet import land, work, worktree
from kern.fleet.work import Left, Work
from kern.fleet.worktree import Yard
from kern.git import history, refs
from kern.git.ignore import left_out
from kern.git.repository import Repo
from kern.git.room import Room, visible
from kern.model import LEARNINGS, SPEC, Key, Marker
from kern.pipeline import facts
from kern.pipeline.site import Site
from kern.plain import decode
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import process

_GRACE_S = 5.0  # an agent is ended by its own kern


def take_up(site: Site, yard: Yard, *, resume: bool = True) -> Iterator[Work | Left]:
    """Finished work, which is to land; what is half done, and with `resume` to be handed out again.
    All else is kept as a ref, and gone. Orphans are ended first.
    """
    if ended := _end_orphans(site.repo, yard):
        site.warn(f"ended {plain.count(ended, 'process')} that an earlier run left behind")
    for left in look(site, yard):
        if done := finished(site, yard, left):
            yield done
        elif resume and left.under_way and left.known and left.number:
            yield left
        else:
            if ref := _kept(site, yard, left):
                what = "half done by an earlier run" if left.known else "no longer in SPEC.md"
                site.warn(f"{what}: {left.key.text}: its work is saved as {ref}")
            worktree.drop(site.repo, left.branch)


def tidy(site: Site, yard: Yard, used: Mapping[str, int], *, keep: bool) -> int:
    """What is finished, or in progress in its worktree, stays; how many are in progress. `keep`:
    what was printed there, which a person was told of. `used`: this run's trees, by work branch.
    """
    found = look(site, yard)
    stays = {
        left.branch: left.tree for left in found if left.under_way or finished(site, yard, left)
    }
    for number in worktree.numbers(yard):
        if number not in stays.values():
            worktree.remove(yard, number)
            if not keep:
                worktree.forget_runs(site.scope.base, yard.place(number))
    for branch in {*used} - {*stays}:
        worktree.drop(site.repo, branch)
    worktree.close(yard, keep=bool(stays or keep))
    if not stays:  # what has landed before this run comes from no worker any more
        told = site.repo.text("for-each-ref", "--format=delete %(refname)", land.LANDED)
        site.repo.git("update-ref", "--stdin", given=f"{told}\n".encode() if told else b"")
    return sum(left.under_way for left in found)


def _end_orphans(repo: Repo, yard: Yard) -> int:
    """The kerns of a run that was killed, and what they started."""
    ended = process.sweep((process.OF, str(repo.root)), _GRACE_S)
    for number in worktree.numbers(yard):
        ended += process.sweep(("KERN_ROOT", str(yard.place(number))))
    return ended


def look(site: Site, yard: Yard) -> list[Left]:
    """The work branches of this branch, in the order of its tasks."""
    if not (there := worktree.branches(yard.repo)):
        return []
    onto, begun = site.scope.branch, worktree.begun(yard.repo)
    names = {work.branch(onto, one.key): one.key for one in site.papers.spec()[1].tasks}
    trees = _trees(yard)
    found = []
    for branch, tip in there.items():
        number, made = trees.get(branch, (0, None))
        theirs = parse(_spec(yard.repo, made, tip))
        own = {work.branch(onto, one.key): one for one in theirs.tasks}
        task = own.get(branch)
        key: Key | None = names.get(branch) or (task.key if task and made else None)
        if key is None:  # another branch's
            continue
        active = bool(made) and task is not None and task.marker is Marker.ACTIVE
        at = theirs.tasks.index(task) + 1 if task else 0
        base = yard.repo.text("merge-base", tip, f"refs/heads/{onto}")
        under_way = branch in begun or active
        found.append(Left(branch, tip, key, base, number, under_way, at, branch in names))
    places = list(names)
    return sorted(found, key=lambda one: places.index(one.branch) if one.known else -1)


def _trees(yard: Yard) -> dict[str, tuple[int, Repo]]:
    """By the work branch that each is on."""
    found: dict[str, tuple[int, Repo]] = {}
    for number in worktree.numbers(yard):
        made = worktree.of(yard, number)
        if made and (head := made.plain_head()):
            found.setdefault(head.branch, (number, made))
    return found


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
    if left.under_way or not tip.parents or not facts.ticks(site.repo, tip, left.key):
        return None
    made = worktree.of(yard, left.tree) if left.tree else None
    learned = site.repo.content(left.tip, LEARNINGS)
    return Work(
        *(left.key, left.branch, tip.parents[0], left.tip, left.tree or 1),
        _spec(site.repo, made, left.tip),
        None if learned is None else decode(learned),
    )


def _kept(site: Site, yard: Yard, left: Left) -> str:
    """Half-done work as a ref, before its worktree goes; empty where there is none."""
    made = worktree.of(yard, left.tree) if left.tree else None
    if made is None:
        return ""
    start = refs.start(made, left.branch)
    own = Room(made, "work", site.repo) if start and start.mounted else None
    tree = own.candidate() if own else visible(made)
    changed = site.repo.changed(site.repo.tree(left.tip), tree)
    # Where no task had begun, files may lack because git was killed at making the worktree.
    paths = [path for path, (_, new) in changed.items() if new or left.under_way]
    if all(left_out(path) or path == FILE for path in paths):
        return ""
    message = f"{left.key.text}\n\nunfinished\n"
    return refs.keep(site.repo, refs.slug(left.key), "unfinished", tree, message, left.tip)
