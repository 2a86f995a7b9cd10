"""The verdict on stage 2: git's word, then gates and judges on the tree as the agent left it."""

from collections.abc import Mapping, Sequence

from kern.config import FILE
from kern.events import Traced
from kern.git import protect
from kern.git.repository import Entry
from kern.model import Cause, Decision, Saved, Stage, Tier
from kern.pipeline import baseline, proof
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, put_back
from kern.plain import some
from kern.spec import questions
from kern.stages import answer, record, verdict
from kern.stages.record import StageRecord


def prove(site: Site, at: Situation) -> None:
    """The tree as the agent left it, then the witnesses' verdict, made durable."""
    _, task = at.opened
    second = at.second
    if at.start:
        whole = site.witness.whole
        site.keeper.hold(at.start, lambda: (second.tree, whole(second.tree, second.index)))
    change = {path: new for path, (_, new) in site.repo.changed(*second.change).items()}
    _name_changed_since(site, at)
    put_back(site, at, change, known=second.start)
    objection, facts = "", dict[str, object]()
    if second.answer.code is answer.Code.NEEDS_ANSWER:
        objection = questions.objection(task, second.answer.reason)
    if second.answer.code is answer.Code.SUCCESS and at.due is Tier.IMPLEMENT:
        objection = _objection(site, at, change)
        if not objection:
            objection, facts = proof.checked(site, at, change)
            _name_unheard(site, second, facts)
    found = verdict.decide(
        second.answer, task.text, at.due, subtask=at.facts.subtask, objection=objection
    )
    if found.saved is Saved.FAILED:
        own = {answer.Code.FAILED: Cause.OWN, answer.Code.UNCLEAR: Cause.FORM}
        facts = {"cause": own.get(second.answer.code, Cause.OTHER), **facts}
    decide(site, second.noting(**facts), found)


def _name_unheard(site: Site, second: StageRecord, facts: Mapping[str, object]) -> None:
    if "red" in facts and second.sent_back == 0 and not site.memory.unheard:
        site.memory.unheard = True
        site.warn(
            "a gate is red that should have sent the agent back while it implemented: it ran "
            "no Stop hook (disableAllHooks in its settings?), or the gate is green there"
        )


def _name_changed_since(site: Site, at: Situation) -> None:
    """Beside the task's paths the tree is a person's, or what a killed gate left: left so."""
    start, tree = at.second.change
    now = site.snapshots.latest(start)
    paths = site.repo.changed(tree, now).keys() - site.repo.changed(start, tree).keys()
    paths -= {*site.keeper.touched(at.second.base)}
    if paths:
        ref = site.keeper.keep(at.opened[0], f"{at.attempt}-before", tree, at.head.commit)
        site.warn(
            "changed since the task was implemented, by you or by a gate that was ended: "
            f"{some(sorted(paths))}: left as it is; as it was: git checkout {ref} -- PATH"
        )


def _objection(site: Site, at: Situation, change: Mapping[str, Entry | None]) -> str:
    """git's word: something changed, and it can be told from what is the person's."""
    start, tree = at.second.change
    if not site.witness.task_change(start, tree):
        return "SUCCESS was claimed, but nothing changed"
    _, conflicts = site.witness.expected(start, tree, at.head.commit)
    if conflicts:
        return overlap(at, conflicts)
    lost: list[str] = []
    if at.start and at.start.base == at.head.commit:
        lost = site.witness.taken_away(start, tree, at.head.commit)
    if lost:
        return f"it took away uncommitted changes of yours in {some(lost)}"
    if names := protect.obeyed(site.repo, change):
        site.warn(f"the task changes {some(names)}: it runs unasked; review it")
    new = change.get(FILE)
    return baseline.unsound_settings(site, new) if new else ""


def overlap(at: Situation, conflicts: Sequence[str]) -> str:
    """Why the task's change cannot be told from what is the person's."""
    moved = at.start is not None and at.start.base != at.head.commit
    whose = "your commit" if moved else "your uncommitted changes"
    return f"the change overlaps {whose} in {some(conflicts)}: commit or stash it"


# ---------------------------------------------------------------- the decision


def decide(site: Site, second: StageRecord, found: Decision) -> None:
    decided = second.noting(outcome=str(found))
    record.save(site.scope, decided)
    site.memory.proved = decided.written if found.saved is Saved.PROVED else ""
    site.sink(Traced(f"outcome of {second.key.text}: {found}"))


def fail(site: Site, second: StageRecord, why: str, cause: Cause) -> None:
    decide(site, second.noting(cause=cause), Decision(Saved.FAILED, why))


def reprove(site: Site, at: Situation) -> None:
    """Proof is bound to its base; HEAD has moved on by a person's commit."""
    record.save(site.scope, at.second.undecided(onto=at.head.commit))
    site.warn(
        "a commit of yours came in before the task's: checked again on top of it: "
        f"{at.opened[0].text}"
    )


def reject(site: Site, at: Situation) -> None:
    """Stage 3 rejected the change: a failed attempt."""
    reason = at.files[Stage.COMMIT].answer.reason
    fail(site, at.second, f"rejected at the commit: {reason}", Cause.COMMIT)
