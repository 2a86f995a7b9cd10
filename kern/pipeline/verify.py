"""The verdict on stage 2, where exactly lies what is to be committed: git's word, then gates and
judges. Each can turn a success into an attempt, none can make one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain

from kern import config, plain
from kern.checks import result
from kern.config import FILE, Gate
from kern.errors import UsageError
from kern.events import GateEnded, GateStarted, Traced
from kern.git import history, protected_files
from kern.git.history import Commit
from kern.git.repository import LINK, SUBMODULE, Change, Repo
from kern.model import Aide, Cause, Decision, OnRed, Result, Saved, Stage, Tier
from kern.pipeline import attempt, baseline, project, settle, watched
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import some
from kern.spec import notes
from kern.stages import answer, briefs, record
from kern.stages.change import weakened
from kern.stages.record import StageRecord

UNCHANGED = "SUCCESS was claimed, but nothing changed"
_MOST_TOLD = 5  # commits
MOST_FIXES = 2  # by gates and hooks, in one attempt


def prove(site: Site, at: Situation) -> None:
    """The witnesses' verdict, made durable."""
    _, task = at.opened
    if not _is_on_head(site, at):
        return
    at = _with_edits(site, at)
    second = at.second
    objection, facts = "", dict[str, object]()
    if second.answer.code is answer.Code.NEEDS_ANSWER:
        objection = notes.objection(task, second.answer.reason)
    if second.answer.code is answer.Code.SUCCESS and at.due is Tier.IMPLEMENT:
        tree, conflicts = attempt.candidate(site, at)
        if conflicts:
            objection = f"the change overlaps your commit in {some(conflicts)}"
            facts = {"cause": Cause.COLLISION}
        else:
            change = site.repo.changed(at.head.commit, tree)
            objection = "" if site.repo.changed(*second.change) else UNCHANGED
            objection = objection or _objection(site, change)
            if not objection:
                objection, facts = _checked(site, at, tree, change)
            if facts.get("again"):
                return
    found = answer.decide(
        second.answer, task.text, at.due, subtask=at.facts.subtask, objection=objection
    )
    if found.saved is Saved.FAILED:
        own = {answer.Code.FAILED: Cause.OWN, answer.Code.UNCLEAR: Cause.FORM}
        facts = {"cause": own.get(second.answer.code, Cause.OTHER), **facts}
    if objection == UNCHANGED and was_unchanged(site, at):
        found = Decision(Saved.SKIPPED, settle.UNCHANGED_TWICE)
    decide(site, second.noting(**facts), found)


def was_unchanged(site: Site, at: Situation) -> bool:
    """Whether the attempt before claimed success without a change as well."""
    last = record.read(site.scope, Stage.IMPLEMENT, at.attempt - 1) if at.attempt > 1 else None
    return last is not None and last.key == at.key and last.decision.reason == UNCHANGED


def _with_edits(site: Site, at: Situation) -> Situation:
    """In place, with what a person has changed since in the task's files: it is proven with the
    rest.
    """
    key, second = at.opened[0], at.second
    if site.rooms.mounted or key in site.memory.looked or second.run == site.caller.run:
        return at
    site.memory.looked.add(key)
    since = site.repo.changed(second.tree, site.rooms.work.candidate())
    moved = site.repo.changed(second.bound_to, at.head.commit)
    task = site.repo.changed(*second.change).keys()
    edited = {p: new for p, (_, new) in since.items() if p in task and p not in moved}
    # A person who stashed all leaves what was there before, a hook that was ended what git has.
    for known in (second.start, at.head.commit):
        edited = {p: new for p, new in edited.items() if new != site.repo.entry(known, p)}
    if edited and second.answer.code is answer.Code.SUCCESS:
        ref = site.keep(key, f"{at.attempt}-before", second.tree, at.head.commit)
        second = second.undecided(tree=site.repo.tree_with(second.tree, edited))
        record.save(site.scope, second)
        at = replace(at, files={**at.files, Stage.IMPLEMENT: second})
        site.warn(
            "changed since the task was implemented, and proven with the rest: "
            f"{some(sorted(edited))}; as it was: git checkout {ref} -- PATH"
        )
    site.rooms.work.accept(second.tree)
    return at


def _objection(site: Site, change: Mapping[str, Change]) -> str:
    if names := protected_files.obeyed(site.repo, {path: new for path, (_, new) in change.items()}):
        site.warn(f"the task changes {some(names)}: it runs unasked; review it", kept=True)
    new = change.get(FILE, (None, None))[1]
    if new is None:
        return ""
    if new.mode in (LINK, SUBMODULE):
        return f"it made {FILE} a {'link' if new.mode == LINK else 'submodule'}"
    site.warn(f"the task changes {FILE}: that counts from the next task on")
    try:
        config.parse(site.repo.data(new.blob))
    except UsageError as exc:
        return str(exc)
    return ""


def _checked(
    site: Site, at: Situation, tree: str, change: Mapping[str, Change]
) -> tuple[str, dict[str, object]]:
    """What a gate or a judge holds against the change; and what is to be noted."""
    wanted = baseline.checks(site, at.opened[1], project.settings(site))
    if not wanted.shown:
        return "", {}
    asked = chain(
        (_gate(site, gate, at, tree) for gate in wanted.gates),
        (_judge(site, criterion, at, tree) for criterion in wanted.criteria),
    )
    results: list[Result] = []
    site.memory.again = False
    for ended in asked:
        results.append(ended)
        if site.memory.again:
            return "", {"again": True}
        if ended.blocks:
            cause = Cause.JUDGE if ended.name.startswith("judge") else Cause.GATE
            return result.objection(ended), {"red": asdict(result.evidence(ended)), "cause": cause}
    risks = result.risks(results, site.memory.flaky)
    site.memory.flaky |= {ended.name for ended in results if ended.flaky}
    doubts = doubted(site.repo, wanted.gates, change, at.head.commit, tree)
    beside = site.rooms.held_beside(mounted=all(gate.room for gate in wanted.gates))
    return "", {"proof": result.proved(results) + beside + doubts + risks}


def doubted(repo: Repo, gates: Iterable[Gate], change: Collection[str], old: str, new: str) -> str:
    """What lessens the word of green gates, to follow it: the change is of what they go by."""
    named = {path for gate in gates for path in result.named(gate.command, change)}
    changed = f"; the task changed {some(sorted(named))}, named by a gate" if named else ""
    tests = weakened(repo, old, new)
    return changed + (f"; tests: {some(tests)}" if tests else "")


def _gate(site: Site, gate: Gate, at: Situation, tree: str) -> Result:
    known = baseline.known(site, gate, at.head.commit)
    allowed = site.caller.settings.on_red is OnRed.ALLOW or None
    known_by = project.subject(site, tree)

    def once() -> Result:
        site.caller.heed()
        site.sink(GateStarted(gate.label, gate.command))
        with watched.watched(site, at.head, at.start, gate.label):
            ended = site.gates.run(gate, known_by, exact=tree)
        site.memory.again = _takes_in(site, at, gate, tree)
        return ended.against(known.red if known else allowed)

    ended = once()
    if not site.memory.again:
        ended = site.gates.counted(gate, known_by, ended, once)
    if not site.memory.again:
        ended = project.explained(site, gate, ended)
    site.sink(GateEnded(ended))
    return ended


def _takes_in(site: Site, at: Situation, gate: Gate, tree: str) -> bool:
    """Whether the gate rewrote files of the task, as a formatter does: all gates run again on that.
    What else it rewrote is gone with the room.
    """
    label, made = gate.label, site.rooms.proven(mounted=gate.room).candidate()
    if made == tree:
        return False
    second, task = at.second, site.repo.changed(at.head.commit, tree)
    rewritten = {path: new for path, (_, new) in site.repo.changed(tree, made).items()}
    own = {path: new for path, new in rewritten.items() if path in task and new}
    others = sorted(rewritten.keys() - own.keys())
    note = f"{label} rewrote {some(others)}, which is not part of the task: not kept"
    if others and note not in site.memory.told:
        site.memory.told.add(note)
        site.warn(note)
    if not others:
        site.rooms.work.accept(made)
    if not own or second.fixed >= MOST_FIXES:
        return False
    fixed = site.repo.tree_with(second.tree, own)
    record.save(site.scope, second.undecided(tree=fixed, fixed=second.fixed + 1))
    site.warn(f"{label} changed {some(sorted(own))}: now part of the task; the gates run again")
    return True


def _judge(site: Site, criterion: str, at: Situation, tree: str) -> Result:
    key, task = at.opened
    form = site.templates[Aide.JUDGE]
    prompt = briefs.judged(site.repo, form, task, criterion, at.head.commit, tree)
    judges: list[Result] = []
    while (agreed := answer.agreed(judges)) is None:
        with watched.watched(site, at.head, at.start, "the judge"):
            said = site.caller.call(
                prompt,
                task=key.text,
                attempt=at.attempt,
                room=site.rooms.for_proof(tree, at.head),
                again=lambda: site.rooms.for_proof(tree, at.head),
            )
        judges.append(answer.judged(criterion, said.fault or said.reply.text))
        site.sink(GateEnded(judges[-1]))
    if disagreement := answer.disagreement(judges):
        site.warn(disagreement)
    return agreed


# ---------------------------------------------------------------- the decision


def decide(site: Site, second: StageRecord, found: Decision) -> None:
    decided = second.noting(outcome=str(found))
    record.save(site.scope, decided)
    site.memory.proved = decided.written if found.saved is Saved.PROVED else ""
    site.sink(Traced(f"outcome of {second.key.text}: {found}"))


def fail(site: Site, second: StageRecord, why: str, cause: Cause) -> None:
    decide(site, second.noting(cause=cause), Decision(Saved.FAILED, why))


def commits(made: Sequence[Commit]) -> str:
    """What a person is to know of those that came while an agent worked."""
    made = made[-_MOST_TOLD:]
    told = ", ".join(f"{one.sha[:7]} {plain.line(one.subject, 60)!r}" for one in made)
    undo = " ".join(one.sha[:7] for one in reversed(made))
    return f": {told}; if that was not you: git show {made[-1].sha[:7]}, git revert {undo}"


def _is_on_head(site: Site, at: Situation) -> bool:
    """Proof is bound to its base: on top of a person's commits the gates run there. False where
    that has been noted, and the facts are others now.
    """
    base, head = at.second.bound_to, at.head.commit
    if base == head:
        return True
    watched.undo_mistakes(site, replace(at.head, commit=base), at.start, "the commit stage")
    if site.repo.head() == at.head:
        since = history.since(site.repo, base, head) or (history.commit(site.repo, head),)
        record.save(site.scope, at.second.undecided(onto=head))
        site.warn(
            "a commit of yours came in before the task's: checked on top of it: "
            f"{at.opened[0].text}{commits(since)}"
        )
    return False
