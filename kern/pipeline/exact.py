"""What comes of a gate that ran in a room, beside its end: what it rewrote there, and why it is red
where it is green in the working tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kern.config import Gate
from kern.git import checkout
from kern.git.repository import Entry
from kern.model import Result
from kern.pipeline.facts import Situation
from kern.pipeline.hooks import MOST_FIXES
from kern.pipeline.site import Site
from kern.plain import some
from kern.stages import record

IN_TREE = "green in your tree"


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


def explained(site: Site, gate: Gate, ended: Result, uncommitted: Sequence[str]) -> Result:
    """A red end with what is missing in the room, where that is why. `uncommitted`: what of the
    working tree is not to be committed.
    """
    assert site.room
    if not ended.red:
        return ended
    missing, absent = [*uncommitted, *site.room.new()], site.room.absent
    if missing and not site.gates.beside(gate).red:
        missing = [path for path in missing if _stem(path) in ended.output] or missing
        told = f"{IN_TREE}: it needs {some(missing)}, which is not committed"
    elif absent:
        told = f"its room has no place for {some(absent)} (kern help checks)"
    else:
        return ended
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
