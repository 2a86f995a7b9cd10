"""How an attempt or a task ends: done, noted, split, skipped, asked. Every end can be repeated."""

from collections.abc import Sequence
from dataclasses import replace

from kern import plain
from kern.events import AttemptNoted, QuestionNoted
from kern.memory.changes import Taught
from kern.model import Marker, Outcome, Saved, Stage, Tier
from kern.pipeline import attempt, landing, lessons, project
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, drop_start
from kern.pipeline.table import ATTEMPTS, Research, Settled, mends, skipped
from kern.plain import some
from kern.spec import edit, notes
from kern.spec.parse import RESULT, STUCK, Kind, Spec, Task
from kern.stages import answer, record
from kern.stages.answer import Code
from kern.stages.record import StageRecord
from kern.system import workspace


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
    second, concluded = at.files.get(Stage.IMPLEMENT), at.due is Tier.CONCLUDE
    strange = second is not None and not concluded and second.commit != done.sha
    lessons.learn(site, key, done, Taught() if strange else lessons.taught(site, at))

    def apply(text: str, parsed: Spec) -> str:
        task = parsed.find(key)
        return edit.tick(text, parsed, task, proved=not concluded) if task else text

    site.documents.edit(apply)
    drop_start(site, at)
    record.sweep(site.scope)
    proved = second.proof if second and not (concluded or strange) else ""
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
        reason += ", and no tool was called"
    why = STUCK if _no_progress(site, at) else "("
    if at.facts.experiment and answer.is_result(second.answer, second.decision):
        why = RESULT
    tail = f" {why}kept: {ref})"
    words = plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail
    note = edit.note(Kind.ATTEMPT, words, at.attempt)
    if mends(at.facts) and why != STUCK:  # first: without it the note comes all the same
        workspace.forget(site.scope, Stage.RESEARCH)
    lessons.blame(site, at)
    site.documents.edit_task(key, lambda text, _, task: edit.annotate(text, task, [note]))
    site.sink(AttemptNoted(key.text, at.attempt, reason, ref, str(second.cause)))


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


def release(site: Site, at: Situation) -> Settled:
    """A split, a skip, or a question: keep, put back, then let go."""
    task, due, asked = at.opened[1], at.due, at.facts.saved is Saved.ASKED
    if Stage.IMPLEMENT in at.files:
        second = at.second
        ref = _keep(site, at, "-asked" if asked else "-stopped")
        if asked:
            return _ask(site, at, second, ref)
        if at.facts.saved is Saved.DECOMPOSED:
            titles = answer.subtasks(second.answer, task.text)
            detail = f"{len(titles)} subtasks"
            return _let_go(site, at, Outcome.DECOMPOSED, detail, titles=titles)
        return _skip(site, at, second.decision.reason, exhausted=due is not Tier.IMPLEMENT)
    first = at.files[Stage.RESEARCH]
    if at.facts.research is Research.ASKED:
        return _ask(site, at, first, "")
    if due is Tier.SKIP and at.facts.research is Research.READY:
        last = task.of(Kind.ATTEMPT)[-1].text
        reason = f"{task.spent(0)} attempts failed, the last: {last}"
        return _skip(site, at, reason, exhausted=True)
    ends = (project.known(site, one, at.head.commit) for one in project.checks(site, task).gates)
    idle = not first.fault and not any(was and was.red for was in ends)
    return replace(_skip(site, at, first.fault or first.answer.reason), idle=idle)


def _skip(site: Site, at: Situation, reason: str, *, exhausted: bool = False) -> Settled:
    task = at.opened[1]
    again = reason == attempt.UNCHANGED_TWICE or bool(task.of(Kind.SKIPPED))
    outcome = skipped(task.full_failures(ATTEMPTS), exhausted=exhausted, again=again)
    return note(site, at, outcome, reason)


def note(site: Site, at: Situation, outcome: Outcome, reason: str) -> Settled:
    """Skipped, or blocked: a person is needed."""
    kind = Kind.BLOCKED if outcome is Outcome.BLOCKED else Kind.SKIPPED
    return _let_go(site, at, outcome, reason, edit.note(kind, reason))


def _ask(site: Site, at: Situation, asking: StageRecord, ref: str) -> Settled:
    """A question: no attempt, no skip: the task waits for its answer."""
    question = asking.answer.reason
    settled = _let_go(site, at, Outcome.ASKED, question, notes.question(question, ref))
    site.sink(QuestionNoted(settled.task, asking.stage, question, ref))
    return settled


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
