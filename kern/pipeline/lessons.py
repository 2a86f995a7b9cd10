"""What a task teaches, and LEARNINGS.md on the disk."""

import time
from collections.abc import Callable, Sequence

from kern import plain
from kern.events import Learned, Voted, Warned
from kern.git.history import Commit
from kern.memory import capture, changes
from kern.memory.changes import Change, Taught
from kern.memory.entries import parse
from kern.model import LEARNINGS, UNVERIFIED, Cause, Key, Stage, Tier
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import decode
from kern.spec import edit
from kern.spec.parse import Kind, is_experiment
from kern.stages import record, verdict
from kern.stages.record import Made, StageRecord

# What an attempt can fail over by the fault of what it went by.
_TELLING = (Cause.GATE, Cause.JUDGE, Cause.COMMIT, Cause.OWN)


def of(second: StageRecord) -> Taught:
    """What a task that is done has LEARNINGS.md say."""
    replied, experiment = second.answer, is_experiment(second.key.text)
    learned = replied.learned
    if experiment and not learned:
        # The agent named nothing to learn: its own account, and what stands behind it.
        learned = f"Worked ({second.proof or UNVERIFIED}). {plain.line(replied.body)}".rstrip()
    return Taught(
        *(learned, experiment, second.attempt > 1, second.told),
        *(replied.used, replied.misled, second.bound_to),
    )


def taught(site: Site, at: Situation) -> Taught:
    """What the task has LEARNINGS.md say, as far as it is known."""
    if at.due is not Tier.CONCLUDE:
        return of(at.second) if Stage.IMPLEMENT in at.files else Taught()
    key, task = at.opened
    tried = task.of(Kind.ATTEMPT)
    numbers = (*(note.number for note in tried), 0)  # the last one's is still stage2.json
    found = (record.read(site.scope, Stage.IMPLEMENT, number) for number in numbers)
    learned = dict.fromkeys(one.answer.learned for one in found if one and one.key == key)
    why = [f"- attempt {note.number}: {plain.line(note.text)}" for note in tried]
    said = (part for one in learned if one for part in ("", one))
    text = "\n".join(("Did not work:", "", *why, *said))
    return Taught(text, whole=True, commit=at.head.commit)


def written(text: str, date: str, key: Key, said: Taught) -> tuple[str, Change]:
    """What is to be appended to LEARNINGS.md, and what else changes in it."""
    change = changes.succeeded(text, said, edit.topic(key.text))
    there, added = changes.applied(text, change.swaps), ""
    for body in change.bodies:
        added += edit.learning(there + added, date, key.text, body)
    return added, change


def learn(site: Site, key: Key, commit: Commit, said: Taught) -> None:
    """What the commit adds to LEARNINGS.md stands on the disk as well, with its line ends."""
    new = site.repo.content(commit.sha, LEARNINGS)
    if new is None:  # git ignores it: it is on the disk alone
        _on_disk(site, key, time.strftime("%Y-%m-%d", time.gmtime(commit.seconds)), said)
        return
    old = site.repo.content(commit.parents[0], LEARNINGS) if commit.parents else None
    if new == old:
        return
    with site.papers.alone():
        text = site.papers.read(LEARNINGS) or ""
        if text == decode(old or b""):
            site.papers.write(LEARNINGS, decode(new))
            return
        merged, added = changes.merged(decode(old or b""), text, decode(new))
        if added or merged != text:
            site.papers.write(LEARNINGS, merged + edit.appended(merged, added))


def _on_disk(site: Site, key: Key, date: str, said: Taught) -> None:
    """The date is the commit's: also tomorrow."""
    second = record.read(site.scope, Stage.IMPLEMENT)
    _vote(site, key, second, lambda text: written(text, date, key, said))


def blame(site: Site, at: Situation) -> None:
    """What a failed attempt went by was harmful. An experiment that came to a result did not fail,
    and one that ran out of time says nothing of what it was told.
    """
    second = at.second
    said = of(second)
    result = at.facts.experiment and verdict.is_result(second.answer, second.decision)
    if result or second.cause not in _TELLING:
        said = Taught(told=said.told, misled=said.misled)
    if not said.told or not (said.used or said.misled):
        return
    _vote(site, second.key, second, lambda text: ("", changes.failed(text, said)))


def _vote(
    site: Site,
    key: Key,
    second: StageRecord | None,
    decide: Callable[[str], tuple[str, Change]],
) -> None:
    """LEARNINGS.md with what is decided of it; the votes are told once."""
    fresh = second is None or second.swaps is None
    with site.papers.alone():
        text = site.papers.read(LEARNINGS) or ""
        added, change = decide(text)
        new = changes.applied(text, _settled(site, second, change)) + added
        if new != text:
            site.papers.write(LEARNINGS, new)
    for vote in change.votes if fresh else ():
        site.sink(Voted(key.text, *vote))


def _settled(site: Site, second: StageRecord | None, change: Change) -> Sequence[changes.Swap]:
    """The votes as they were first decided. Noted before they are written, they count once,
    whatever happens in between.
    """
    if second is None or not change.swaps:
        return change.swaps if second is None else second.swaps or ()
    if second.swaps is None:
        record.save(site.scope, second.noting(swaps=[*map(list, change.swaps)]))
        return change.swaps
    return second.swaps


def tell(site: Site, key: Key, made: Made | None, said: Taught) -> None:
    """What became of it, once it is done."""
    found = capture.whole(said.learned) if said.whole else None
    found = found or capture.lessons(said.learned, overcame=said.overcame)
    texts = [lesson.text for lesson in found.kept]
    if made and not said.whole and (made.learned or made.votes):
        texts = [entry.text for entry in parse(made.learned)]
    if texts:
        site.sink(Learned(key.text, "\n".join(texts)))
    for text, why in found.refused:
        site.sink(Warned(f"not kept in {LEARNINGS}, {why}: {plain.line(text, 160)}"))
    for vote in made.votes if made else ():
        site.sink(Voted(key.text, *vote))
