"""How an attempt or a task ends: done, noted, split, skipped, asked. Every end can be repeated."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

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
    key, _ = at.opened
    second = at.second
    ref = _keep(site, at, str(at.attempt), always=True)
    reason = second.decision.reason or "no reason given"
    if second.answer.code is Code.SUCCESS and not second.acted:
        reason += ", and no tool was called"
    why = STUCK if _no_progress(site, at) else "("
    if at.facts.experiment and answer.is_result(second.answer, second.decision):
        why = RESULT
    tail = f" {why}kept: {ref})"
    words = plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail
    note = edit.note(Kind.ATTEMPT, words, at.attempt)

    def apply(text: str, _: Spec, task: Task) -> str:
        there = any(known.number == at.attempt for known in task.of(Kind.ATTEMPT))
        return text if there else edit.annotate(text, task, [note])

    if mends(at.facts) and why != STUCK:  # first: without it the note comes all the same
        workspace.forget(site.scope, Stage.RESEARCH)
    lessons.blame(site, at)
    site.documents.edit_task(key, apply)
    site.sink(AttemptNoted(key.text, at.attempt, reason, ref, str(second.cause)))


def _no_progress(site: Site, at: Situation) -> bool:
    """Two attempts in a row with the same tree or the same red gate: the next tier is due."""
    one, other = attempt.earlier(site, at), at.second
    if not at.facts.attempts or one is None:
        return False
    if one.tree == other.tree:
        # An agent that was cut off before it changed anything has not tried yet.
        return not (other.fault and other.tree == other.start)
    return one.red is not None and one.red.like(other.red)


def _keep(site: Site, at: Situation, name: str, *, always: bool = False) -> str:
    """What stage 2 changed goes under a ref, if there was anything, then out of the tree."""
    start, tree = at.second.change
    ref = ""
    if always or start != tree:
        base = at.start.base if at.start else at.second.base
        ref = site.keep(at.opened[0], name, tree, base)
    attempt.restore(site, at)
    return ref


def release(site: Site, at: Situation) -> Settled:
    """A split, a skip, or a question: keep, put back, then let go."""
    _, task = at.opened
    second, saved = at.files.get(Stage.IMPLEMENT), at.facts.saved
    if saved is Saved.ASKED or (at.facts.research is Research.ASKED and second is None):
        return _ask(site, at)
    if second is not None and saved in (Saved.DECOMPOSED, Saved.SKIPPED):
        _keep(site, at, f"{at.attempt}-stopped")
        if saved is Saved.DECOMPOSED:
            titles = answer.subtasks(second.answer, task.text)
            split = partial(edit.add_subtasks, titles=titles)
            return _let_go(site, at, Outcome.DECOMPOSED, f"{len(titles)} subtasks", split)
        return _skip(site, at, second.decision.reason, exhausted=at.due is not Tier.IMPLEMENT)
    if at.due is Tier.SKIP and at.facts.research is Research.READY:
        last = task.of(Kind.ATTEMPT)[-1].text
        reason = f"{task.spent(0)} attempts failed, the last: {last}"
        return _skip(site, at, reason, exhausted=True)
    first = at.files[Stage.RESEARCH]
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
    line = edit.note(Kind.BLOCKED if outcome is Outcome.BLOCKED else Kind.SKIPPED, reason)
    return _let_go(
        site, at, outcome, reason, lambda text, _, task: edit.annotate(text, task, [line])
    )


def _ask(site: Site, at: Situation) -> Settled:
    """A question: no attempt, no skip: the task waits for its answer."""
    stage = Stage.IMPLEMENT if at.facts.saved is Saved.ASKED else Stage.RESEARCH
    ref = _keep(site, at, f"{at.attempt}-asked") if stage is Stage.IMPLEMENT else ""
    question = at.files[stage].answer.reason

    def apply(text: str, _: Spec, fresh: Task) -> str:
        waits = notes.pending(fresh)
        there = waits is not None and notes.same(question, waits)
        return text if there else edit.annotate(text, fresh, [notes.question(question, ref)])

    settled = _let_go(site, at, Outcome.ASKED, question, apply)
    site.sink(QuestionNoted(settled.task, stage, question, ref))
    return settled


def _let_go(
    site: Site,
    at: Situation,
    outcome: Outcome,
    detail: str,
    change: Callable[[str, Spec, Task], str],
) -> Settled:
    """Drop the ref, then one write: the task is pending again, and `change` says why."""
    key, _ = at.opened
    drop_start(site, at)

    def apply(text: str, parsed: Spec, task: Task) -> str:
        return change(edit.mark(text, task, Marker.PENDING), parsed, task)

    site.documents.edit_task(key, apply)
    record.sweep(site.scope)
    return Settled(key.text, outcome, detail, key)
