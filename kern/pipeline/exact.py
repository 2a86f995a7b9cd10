"""What comes of a gate that ran in a room, beside its end: what it rewrote there, and why it is red
where it is green in the working tree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kern.git import checkout
from kern.git.repository import Entry
from kern.model import Result
from kern.pipeline.facts import Situation
from kern.pipeline.hooks import MOST_FIXES
from kern.pipeline.site import Site
from kern.plain import some
from kern.stages import record


def take_in(site: Site, at: Situation, label: str, candidate: str) -> bool:
    """Whether the gate rewrote files of the task, as a formatter does: they are part of its change
    by now, and the gates run again. What else it rewrote is gone with the room.
    """
    assert site.room
    second = at.second
    made = site.room.candidate()
    rewritten = site.repo.changed(candidate, made) if made != candidate else {}
    task = site.repo.changed(*second.change)
    own = {p: new for p, (old, new) in rewritten.items() if p in task and task[p][1] == old}
    if others := sorted(rewritten.keys() - own.keys()):
        _say_once(site, f"{label} rewrote {some(others)}, which is not part of the task: not kept")
    if not own or second.fixed >= MOST_FIXES or not _untouched(site, second.tree, own):
        return False
    checkout.put_back(site.repo, own)
    tree = site.repo.tree_with(second.tree, own)
    record.save(site.scope, second.undecided(tree=tree, fixed=second.fixed + 1))
    site.warn(f"{label} changed {some(sorted(own))}: now part of the task; the gates run again")
    return True


def _untouched(site: Site, tree: str, paths: Mapping[str, Entry | None]) -> bool:
    """Whether the working tree has of them what the agent left."""
    return not site.repo.changed(tree, site.snapshots.take(tree)).keys() & paths.keys()


def explained(
    site: Site, ended: Result, uncommitted: Sequence[str], in_tree: Callable[[], Result]
) -> Result:
    """A red end with what is missing in the room, where that is why. `uncommitted`: what of the
    working tree is not to be committed. `in_tree` runs the gate there.
    """
    assert site.room
    missing = [*uncommitted, *site.room.new()]
    lacking = [*missing, *site.room.absent]
    if not ended.red or not lacking or in_tree().red:
        return ended
    lacking = [path for path in lacking if _stem(path) in ended.output] or missing or lacking
    why = "committed" if {*lacking} & {*missing} else "in its room (kern help checks)"
    told = f"green in your tree: it needs {some(lacking)}, which is not {why}"
    site.warn(f"{ended.name}: {told}")
    return replace(ended, output=f"{ended.output.rstrip()}\nerror: {told}")


def _stem(path: str) -> str:
    """As an import has it."""
    name = path.rstrip("/").rpartition("/")[2]
    return name.lstrip(".").partition(".")[0]


def _say_once(site: Site, text: str) -> None:
    if text not in site.memory.told:
        site.memory.told.add(text)
        site.warn(text)
