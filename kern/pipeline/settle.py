"""How an attempt or a task ends: done, noted, split, skipped, asked; and what it teaches. Every end
can be repeated.
"""

from collections.abc import Sequence
from dataclasses import replace

from kern import events, plain
from kern.git.history import Commit
from kern.memory import capture, changes
from kern.memory.changes import Change, Taught
from kern.model import LEARNINGS, UNVERIFIED, Cause, Key, Marker, Outcome, Saved, Stage, Tier
from kern.pipeline import attempt, landing, project
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, drop_start
from kern.pipeline.table import ATTEMPTS, Settled, mends, skipped
from kern.plain import some
from kern.spec import edit, notes
from kern.spec.parse import RESULT, STUCK, Kind, Spec, Task, is_experiment
from kern.stages import answer, record
from kern.stages.answer import Code
from kern.stages.record import StageRecord
from kern.system import workspace

# What an attempt can fail over by the fault of what it went by.
_TELLING = (Cause.GATE, Cause.JUDGE, Cause.COMMIT, Cause.OWN)


def finish(site: Site, at: Situation) -> Settled:
    """HEAD has the task. All of it can be repeated."""
    assert at.done is not None and at.key is not None
    key, done = at.key, at.done
    landing.follow(site.repo, site.documents)
    if changed := site.rooms.landed():
        site.warn(
            f"the task changed {some(changed)}, which git ignores: yours is as it was; "
            "run your install there"
        )
    if not site.rooms.mounted:
        attempt.ignored(site).name_changed(key, at.attempt)
    concluded = at.due is Tier.CONCLUDE
    second = None if concluded else at.files.get(Stage.IMPLEMENT)
    strange = second is not None and second.commit != done.sha
    _learn(site, key, done, Taught() if strange else taught(site, at))

    def apply(text: str, parsed: Spec) -> str:
        task = parsed.find(key)
        return edit.tick(text, parsed, task, proved=not concluded) if task else text

    site.documents.edit(apply)
    drop_start(site, at)
    record.sweep(site.scope)
    proved = second.proof if second and not strange else ""
    if strange:
        site.warn(
            f"{done.sha[:7]} {done.subject!r} ticks the task and is not the commit that kern made: "
            "no gate has seen it",
            kept=True,
        )
    outcome = Outcome.CONCLUDED if concluded else Outcome.DONE
    return Settled(key.text, outcome, f"{done.sha[:7]} {done.subject}", key, proved, done.sha)


def book(site: Site, at: Situation) -> None:
    """Keep the attempt, put the tree back, note it; the note is what counts."""
    key, second = at.opened[0], at.second
    ref = _keep(site, at, always=True)
    reason = second.decision.reason or answer.NO_REASON
    if second.answer.code is Code.SUCCESS and not second.acted:
        reason += ", and no call of its can have changed a file"
    why = STUCK if _no_progress(site, at) else "("
    if at.facts.experiment and answer.is_result(second.answer, second.decision):
        why = RESULT
    note, event = attempt.failure(key, at.attempt, reason, ref, second.cause, why)
    if mends(at.facts) and why != STUCK:  # first: without it the note comes all the same
        workspace.forget(site.scope, Stage.RESEARCH)
    _blame(site, at)
    site.documents.edit_task(key, lambda text, _, task: edit.annotate(text, task, [note]))
    site.sink(event)


def _no_progress(site: Site, at: Situation) -> bool:
    """Two attempts in a row with the same tree or the same red gate: the next tier is due."""
    one, other = attempt.earlier(site, at), at.second
    if not at.facts.attempts or one is None:
        return False
    return one.tree == other.tree or (one.red is not None and one.red.like(other.red))


def _keep(site: Site, at: Situation, name: str = "", *, always: bool = False) -> str:
    """What stage 2 changed goes under a ref, if there was anything, then out of the tree."""
    (start, tree), ref = at.second.change, ""
    if always or start != tree:
        ref = site.keep(at.opened[0], f"{at.attempt}{name}", tree, at.second.base)
    attempt.restore(site, at)
    return ref


def undo(site: Site, at: Situation) -> None:
    """An attempt is open that does not count: kern was killed before its answer was saved, or the
    task was unmarked, ticked, reworded or removed. Its work is saved. Not an attempt.
    """
    start = at.start
    assert start is not None
    attempt.undo_mistakes(site, replace(at.head, commit=start.base), "the agent")
    killed = at.facts.active and start.task == at.key
    why = f"no longer in progress: {start.task.text}"
    if killed:
        why = "an earlier run was killed while an agent implemented"
        # A stage2.json that does not count must not come back to count.
        workspace.retire(site.scope, f"{start.attempt}-lost")
    attempt.put_aside(site, at, start, why)
    drop_start(site, at)
    if not killed:  # or its answer would count again if the task is taken up again
        record.sweep(site.scope)


def release(site: Site, at: Situation) -> Settled:
    """A split, a skip, or a question: keep, put back, then let go."""
    (_, task), facts, second = at.opened, at.facts, at.files.get(Stage.IMPLEMENT)
    asked = facts.saved is Saved.ASKED or facts.research is Code.NEEDS_ANSWER
    ref = _keep(site, at, "-asked" if asked else "-stopped") if second else ""
    one = second or at.files[Stage.RESEARCH]
    if asked:
        line = notes.question(one.answer.reason, ref)
        return _let_go(site, at, Outcome.ASKED, one.answer.reason, line)
    if facts.saved is Saved.DECOMPOSED:
        titles = answer.subtasks(one.answer, task.text)
        return _let_go(site, at, Outcome.DECOMPOSED, f"{len(titles)} subtasks", titles=titles)
    if second:
        return _skip(site, at, one.decision.reason, exhausted=at.due is not Tier.IMPLEMENT)
    if at.due is Tier.SKIP and facts.research is Code.READY:
        reason = f"{task.spent(0)} attempts failed, the last: {task.of(Kind.ATTEMPT)[-1].text}"
        return _skip(site, at, reason, exhausted=True)
    ends = (project.known(site, one, at.head.commit) for one in project.checks(site, task).gates)
    idle = not one.fault and not any(was and was.red for was in ends)
    return replace(_skip(site, at, one.fault or one.answer.reason), idle=idle)


def _skip(site: Site, at: Situation, reason: str, *, exhausted: bool = False) -> Settled:
    task = at.opened[1]
    again = reason == attempt.UNCHANGED_TWICE or bool(task.of(Kind.SKIPPED))
    outcome = skipped(task.full_failures(ATTEMPTS), exhausted=exhausted, again=again)
    return note(site, at, outcome, reason)


def note(site: Site, at: Situation, outcome: Outcome, reason: str) -> Settled:
    """Skipped, or blocked: a person is needed."""
    kind = Kind.BLOCKED if outcome is Outcome.BLOCKED else Kind.SKIPPED
    return _let_go(site, at, outcome, reason, edit.note(kind, reason))


def _let_go(
    site: Site,
    at: Situation,
    outcome: Outcome,
    detail: str,
    line: str = "",
    titles: Sequence[str] = (),
) -> Settled:
    """Drop the ref, then one write: the task is pending again, and a note or subtasks say why."""
    key, _ = at.opened
    drop_start(site, at)

    def apply(text: str, parsed: Spec, task: Task) -> str:
        text = edit.mark(text, task, Marker.PENDING)
        if titles:
            return edit.add_subtasks(text, parsed, task, titles)
        return edit.annotate(text, task, [line])

    site.documents.edit_task(key, apply)
    record.sweep(site.scope)
    return Settled(key.text, outcome, detail, key)


# ---------------------------------------------------------------- what it teaches


def lesson_of(second: StageRecord) -> Taught:
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
        return lesson_of(at.second) if Stage.IMPLEMENT in at.files else Taught()
    key, task = at.opened
    attempts = task.of(Kind.ATTEMPT)
    numbers = (*(note.number for note in attempts), 0)  # the last one's is still stage2.json
    records = (record.read(site.scope, Stage.IMPLEMENT, number) for number in numbers)
    learned = dict.fromkeys(one.answer.learned for one in records if one and one.key == key)
    why = (f"attempt {note.number}: {plain.line(note.text)}" for note in attempts)
    text = "\n".join(("Did not work: " + "; ".join(why), *filter(None, learned)))
    return Taught(text, experiment=key.text)


def _learn(site: Site, key: Key, commit: Commit, lesson: Taught) -> None:
    """What the commit adds to LEARNINGS.md stands on the disk as well, and is told."""
    new, *old = (site.repo.content(one, LEARNINGS) for one in (commit.sha, *commit.parents[:1]))
    before = _learnings(site) if new is None else plain.decode(b"".join(filter(None, old)))
    change = changes.of(before, lesson)
    _write(site, key, before, change if new is None else change._replace(text=plain.decode(new)))
    if change.new:
        text = "\n".join(one.text for one in change.new)
        site.sink(events.new("learning", task=key.text, text=text))
    for one in capture.lessons(lesson.learned, lesson.experiment):
        if one.wrong:
            site.warn(f"not kept in {LEARNINGS}, {one.wrong}: {plain.line(one.text, 160)}")


def _blame(site: Site, at: Situation) -> None:
    """What a failed attempt went by was harmful: once for each task, as what HEAD has tells. An
    experiment that came to a result did not fail, and one that ran out of time says nothing of what
    it was told.
    """
    second = at.second
    lesson = lesson_of(second)
    result = at.facts.experiment and answer.is_result(second.answer, second.decision)
    if result or second.cause not in _TELLING:
        lesson = Taught(told=lesson.told, misled=lesson.misled)
    if lesson.told and (lesson.used or lesson.misled):
        before = _learnings(site, at.head.commit)
        _write(site, second.key, before, changes.of(before, lesson, failed=True))


def _learnings(site: Site, *commit: str) -> str:
    """As the commit has it; as it lies on the disk where git ignores it."""
    if commit and not site.repo.ignored(LEARNINGS):
        return plain.decode(site.repo.content(commit[0], LEARNINGS) or b"")
    return site.documents.read(LEARNINGS) or ""


def _write(site: Site, key: Key, before: str, change: Change) -> None:
    """LEARNINGS.md on the disk, with what a person and other tasks have written since: twice is
    once.
    """
    with site.documents.alone():
        text = _learnings(site)
        whole = change.text if text == before else changes.merged(text, before, change.text)
        if whole != text:
            site.documents.write(LEARNINGS, whole)
    for vote in change.votes:
        facts = {"entry": vote.entry, "helpful": vote.helpful, "reason": vote.why}
        site.sink(events.new("vote", task=key.text, **facts))
