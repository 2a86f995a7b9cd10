"""The second attempt mends the first where that went the right way: its change is in the tree
again, and what failed is told. After that, an attempt begins anew, and so does research. What was
finished and collided with what others did is mended each time.
"""

from kern.git import objects
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Entry
from kern.model import Cause, Stage, Tier
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.stages import patches
from kern.stages.briefs import Mending
from kern.stages.record import StageRecord

_RIGHT_WAY = {Cause.FORM, Cause.GATE, Cause.JUDGE, Cause.HOOK, Cause.COMMIT, Cause.TIME}
_ANSWER = 1500  # characters of the answer before


def mending(site: Site, at: Situation, last: StageRecord | None, start: StartRef) -> Mending | None:
    """Of the attempt before, where it can be mended: once, and only while nobody has changed the
    files that it changed.
    """
    collided = last is not None and last.cause is Cause.COLLISION and at.due is Tier.IMPLEMENT
    if last is None or not (collided or (last.cause in _RIGHT_WAY and is_second(at))):
        return None
    if last.index:  # what it did to the index alone is in no tree
        return None
    if not site.templates[Stage.IMPLEMENT].uses("FAILURE"):  # a project's, which cannot say so
        return None
    if not _change(site, last, start):
        return None
    said = last.answer.body[:_ANSWER]
    printed = f"\nThe end of what {last.red.name} printed:\n{last.red.output}" if last.red else ""
    failure = f"{last.decision.reason}{printed}\n\nIts answer was:\n{said}"
    return Mending(failure, patches.kept(site.repo, *last.change))


def _change(site: Site, last: StageRecord, start: StartRef) -> dict[str, Entry | None]:
    """What it changed, path by path; empty where that cannot be had, or lies over other edits."""
    if objects.lacks(site.repo, last.base, *last.change):
        return {}
    found = {path: new for path, (_, new) in site.repo.changed(*last.change).items()}
    if any(entry and entry.mode == SUBMODULE for entry in found.values()):
        return {}
    return {} if found.keys() & site.repo.changed(last.start, start.tree).keys() else found


def bring_back(site: Site, at: Situation, last: StageRecord, start: StartRef) -> None:
    """Its change into the working tree, which is as before stage 2."""
    site.keeper.put_back(
        at.opened[0],
        _change(site, last, start),
        start=start.tree,
        known=start.tree,
        base=start.base,
        name=f"{at.attempt}-edited",
    )


def is_second(at: Situation) -> bool:
    """Whether this attempt may mend the first; where it fails as well, research runs anew."""
    return at.facts.attempts == 1 and at.due is Tier.IMPLEMENT and not at.facts.experiment
