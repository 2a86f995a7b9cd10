"""The attempt that stage 2 is: begun by a ref, its tree taken, kept or put back."""

from kern import plain
from kern.git import index, refs
from kern.git.faults import GitFailed
from kern.git.ignored import Ignored
from kern.git.refs import StartRef
from kern.model import Stage
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site


def ignored(site: Site) -> Ignored:
    """The copies of ignored files, which an agent in place works on."""
    return Ignored(site.repo, site.warn, site.memory.told)


def begin(site: Site, at: Situation, number: int = 0) -> StartRef:
    """The start ref: from now on the attempt has begun."""
    key, _ = at.opened
    number, mounted = number or at.attempt, site.rooms.mounted
    if not mounted:
        ignored(site).take(key, number)
    return refs.begin(site.repo, at.head, key, number, mounted=mounted)


def candidate(site: Site, at: Situation) -> tuple[str, list[str]]:
    """What is to be committed on HEAD, or the paths in which a commit of the person's collides."""
    start, tree = at.second.change
    onto = site.repo.tree(at.head.commit)
    return (tree, []) if onto == start else index.merge(site.repo, start, onto, tree)


def unfinished(site: Site, start: StartRef, name: str = "killed") -> str:
    """What an agent whose end kern did not see has left, under a ref; empty where nothing."""
    work = site.rooms.work
    if not work.index.exists():
        return ""
    if site.rooms.place:
        site.rooms.place.set_repositories_aside()
    try:
        tree = work.candidate()
    except GitFailed as exc:  # a repository without a commit, say
        site.warn(f"git cannot add all that the agent left: {plain.line(exc.stderr, 200)}")
        return ""
    if not site.repo.changed(start.tree, tree):
        return ""
    ref = site.keep(start.task, f"{start.attempt}-{name}", tree, start.base)
    work.accept(tree)
    return ref


def restore(site: Site, at: Situation, *, again: bool = False) -> None:
    """In place: the tree as it is committed, and what git ignores as it was before the attempt,
    which may begin `again`.
    """
    if not (place := site.rooms.place):
        return
    if Stage.IMPLEMENT in at.files:
        place.accept(at.second.tree)
    place.fill(site.repo.tree(site.repo.head().commit))
    if at.key:
        number = at.start.attempt if at.start else at.attempt
        ignored(site).restore(at.key, number, again=again)
