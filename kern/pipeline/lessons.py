"""What a task teaches, and LEARNINGS.md on the disk."""

from kern import plain
from kern.events import Learned, Voted, Warned
from kern.git.history import Commit
from kern.memory import capture, changes
from kern.memory.changes import Change, Taught
from kern.memory.entries import counted, parse
from kern.model import LEARNINGS, UNVERIFIED, Cause, Key, Stage, Tier
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import decode
from kern.spec.parse import Kind, is_experiment
from kern.stages import answer, record
from kern.stages.record import Made, StageRecord

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
    """What the commit adds to LEARNINGS.md stands on the disk as well, with its line ends."""
    new = site.repo.content(commit.sha, LEARNINGS)
    if new is None:  # git ignores it: it is on the disk alone
        _write(site, key, record.read(site.scope, Stage.IMPLEMENT), lesson)
        return
    old = site.repo.content(commit.parents[0], LEARNINGS) if commit.parents else None
    with site.documents.alone():
        text = site.documents.read(LEARNINGS) or ""
        before, after = decode(old or b""), decode(new)
        whole = after if text == before else changes.merged(text, before, after)
        if whole != text:
            site.documents.write(LEARNINGS, whole)


def blame(site: Site, at: Situation) -> None:
    """What a failed attempt went by was harmful. An experiment that came to a result did not fail,
    and one that ran out of time says nothing of what it was told.
    """
    second = at.second
    lesson = of(second)
    result = at.facts.experiment and answer.is_result(second.answer, second.decision)
    if result or second.cause not in _TELLING:
        lesson = Taught(told=lesson.told, misled=lesson.misled)
    if lesson.told and (lesson.used or lesson.misled):
        _write(site, second.key, second, lesson, failed=True)


def _write(
    site: Site, key: Key, second: StageRecord | None, lesson: Taught, *, failed: bool = False
) -> None:
    """LEARNINGS.md with what is decided of it. Noted before they are written, its votes count once,
    whatever happens in between.
    """
    voted = second.voted if second else {}
    with site.documents.alone():
        text = site.documents.read(LEARNINGS) or ""
        lesson = Taught(lesson.learned, lesson.experiment) if voted else lesson
        change = changes.of(text, lesson, failed=failed)
        if second and change.votes and not voted:
            ids = {vote.entry for vote in change.votes}
            new = [one for one in parse(change.text).entries if one.id in ids]
            counts = {one.id: [one.helpful, one.harmful] for one in new}
            record.save(site.scope, second.noting(voted=counts))
        whole = counted(change.text, voted)
        if whole != text:
            site.documents.write(LEARNINGS, whole)
    if not voted:
        _tell_votes(site, key, change)


def _tell_votes(site: Site, key: Key, change: Change | Made) -> None:
    for vote in change.votes:
        site.sink(Voted(key.text, *vote))


def tell(site: Site, key: Key, commit: Made | None, said: Taught) -> None:
    """What became of it, once it is done."""
    captured = capture.lessons(said.learned, said.experiment)
    texts = [lesson.text for lesson in captured.kept]
    if commit and not said.experiment and (commit.learned or commit.votes):
        texts = commit.learned.splitlines()
    if texts:
        site.sink(Learned(key.text, "\n".join(texts)))
    for text, why in captured.refused:
        site.sink(Warned(f"not kept in {LEARNINGS}, {why}: {plain.line(text, 160)}"))
    if commit:
        _tell_votes(site, key, commit)
