"""What a task teaches, and LEARNINGS.md on the disk."""

from kern import plain
from kern.events import Learned, Voted
from kern.git.history import Commit
from kern.memory import capture, changes
from kern.memory.changes import Change, Taught
from kern.model import LEARNINGS, UNVERIFIED, Cause, Key, Stage, Tier
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import decode
from kern.spec.parse import Kind, is_experiment
from kern.stages import answer, record
from kern.stages.record import StageRecord

# What an attempt can fail over by the fault of what it went by.
_TELLING = (Cause.GATE, Cause.JUDGE, Cause.COMMIT, Cause.OWN)


def of(second: StageRecord) -> Taught:
    """What a task that is done has LEARNINGS.md say."""
    replied, task = second.answer, second.key.text
    learned, experiment = replied.learned, task if is_experiment(task) else ""
    learned = "" if answer.is_foreign(learned, task) else learned
    if experiment and not learned:
        # The agent named nothing to learn: its own account, and what stands behind it.
        learned = f"Worked ({second.proof or UNVERIFIED}). {plain.line(replied.body)}".rstrip()
    return Taught(learned, experiment, second.told, replied.used, replied.misled)


def taught(site: Site, at: Situation) -> Taught:
    """What the task has LEARNINGS.md say, as far as it is known."""
    if at.due is not Tier.CONCLUDE:
        return of(at.second) if Stage.IMPLEMENT in at.files else Taught()
    key, task = at.opened
    attempts = task.of(Kind.ATTEMPT)
    numbers = (*(note.number for note in attempts), 0)  # the last one's is still stage2.json
    records = (record.read(site.scope, Stage.IMPLEMENT, number) for number in numbers)
    learned = dict.fromkeys(one.answer.learned for one in records if one and one.key == key)
    why = (f"attempt {note.number}: {plain.line(note.text)}" for note in attempts)
    text = "\n".join(("Did not work: " + "; ".join(why), *filter(None, learned)))
    return Taught(text, experiment=key.text)


def learn(site: Site, key: Key, commit: Commit, lesson: Taught) -> None:
    """What the commit adds to LEARNINGS.md stands on the disk as well, and is told."""
    new = site.repo.content(commit.sha, LEARNINGS)
    before = _before(site, commit.parents[0]) if new is not None and commit.parents else None
    change = changes.of(_text(site) if before is None else before, lesson)
    _write(site, key, before, change if new is None else change._replace(text=decode(new)))
    if change.new:
        site.sink(Learned(key.text, "\n".join(one.text for one in change.new)))
    for text, why in capture.lessons(lesson.learned, lesson.experiment).refused:
        site.warn(f"not kept in {LEARNINGS}, {why}: {plain.line(text, 160)}")


def blame(site: Site, at: Situation) -> None:
    """What a failed attempt went by was harmful: once for each task, as what HEAD has tells. An
    experiment that came to a result did not fail, and one that ran out of time says nothing of what
    it was told.
    """
    second = at.second
    lesson = of(second)
    result = at.facts.experiment and answer.is_result(second.answer, second.decision)
    if result or second.cause not in _TELLING:
        lesson = Taught(told=lesson.told, misled=lesson.misled)
    if lesson.told and (lesson.used or lesson.misled):
        before = _before(site, at.head.commit)
        text = _text(site) if before is None else before
        _write(site, second.key, before, changes.of(text, lesson, failed=True))


def _text(site: Site) -> str:
    return site.documents.read(LEARNINGS) or ""


def _before(site: Site, commit: str) -> str | None:
    """None where git ignores it: it is on the disk alone."""
    if site.repo.ignored(LEARNINGS):
        return None
    return decode(site.repo.content(commit, LEARNINGS) or b"")


def _write(site: Site, key: Key, before: str | None, change: Change) -> None:
    """LEARNINGS.md on the disk, with what a person and other tasks have written since: twice is
    once.
    """
    with site.documents.alone():
        text = _text(site)
        known = before is None or text == before
        whole = change.text if known else changes.merged(text, before or "", change.text)
        if whole != text:
            site.documents.write(LEARNINGS, whole)
    for vote in change.votes:
        site.sink(Voted(key.text, *vote))
