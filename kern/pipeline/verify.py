"""The verdict on stage 2: git's word, then gates and judges on the tree as the agent left it. What
was red before the task is not the task's fault.
"""

import contextlib
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain

from kern.checks import again, result
from kern.config import FILE, Gate
from kern.events import GateEnded, Traced
from kern.git import history, protect
from kern.git.repository import Change, Entry, Repo
from kern.model import Aide, Cause, Decision, OnRed, Result, Saved, Stage, Tier
from kern.pipeline import baseline, exact, limits, settle
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, keep, put_back
from kern.plain import some
from kern.spec import notes
from kern.spec.notes import Checks
from kern.stages import answer, briefs, record, verdict
from kern.stages.change import weakened
from kern.stages.ending import may_not_write
from kern.stages.record import StageRecord

UNCHANGED = "SUCCESS was claimed, but nothing changed"


def prove(site: Site, at: Situation) -> None:
    """The tree as the agent left it, then the witnesses' verdict, made durable."""
    _, task = at.opened
    at = _with_edits(site, at)
    second = at.second
    if at.start:
        whole = site.witness.whole
        site.keeper.hold(at.start, lambda: (second.tree, whole(second.tree, second.index)))
    change = {path: new for path, (_, new) in site.repo.changed(*second.change).items()}
    objection, facts = "", dict[str, object]()
    if second.answer.code is answer.Code.NEEDS_ANSWER:
        objection = notes.objection(task, second.answer.reason)
    if second.answer.code is answer.Code.SUCCESS and at.due is Tier.IMPLEMENT:
        objection = _objection(site, at, change)
        if not objection:
            wanted = baseline.checks(site, task, baseline.settings(site, second.start))
            objection, facts = _checked(site, at, wanted, change)
            if facts.get("again"):
                return
            name_unheard(site, second, facts)
    found = verdict.decide(
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


def name_unheard(site: Site, second: StageRecord, facts: Mapping[str, object]) -> None:
    if "red" in facts and second.sent_back == 0 and not site.memory.unheard:
        site.memory.unheard = True
        site.warn(
            "a gate is red that should have sent the agent back while it implemented: it ran "
            "no Stop hook (disableAllHooks in its settings?), or the gate is green there"
        )


def _with_edits(site: Site, at: Situation) -> Situation:
    """With what a person has changed since in the task's files: it is proven with the rest, where
    it can be told from what is not committed. Otherwise they are as the agent left them.
    """
    second, task = at.second, site.repo.changed(*at.second.change)
    since = site.repo.changed(second.tree, site.snapshots.latest(second.start))
    merged, _ = site.witness.expected(*second.change, at.head.commit)
    # A hook that was ended leaves what git has, a person who stashed all, what was there before.
    known = [site.repo.entries(tree) for tree in (second.start, merged, at.head.commit) if tree]
    edited = {
        path: since[path][1]
        for path in task.keys() & since.keys() - {*site.keeper.touched(second.base)}
        if all(since[path][1] != tree.get(path) for tree in known)
    }
    tree = site.repo.tree_with(second.tree, edited)
    success = second.answer.code is answer.Code.SUCCESS
    if edited and success and not _mixed(site, second.start, tree, at.head.commit):
        ref = keep(site, at, "before", second.tree)
        second = second.undecided(tree=tree)
        record.save(site.scope, second)
        at = replace(at, files={**at.files, Stage.IMPLEMENT: second})
        site.warn(
            "changed since the task was implemented, and proven with the rest: "
            f"{some(sorted(edited))}; as it was: git checkout {ref} -- PATH"
        )
    wanted = {path: new for path, (_, new) in site.repo.changed(*second.change).items()}
    put_back(site, at, wanted, known=second.start)
    return at


def _mixed(site: Site, start: str, tree: str, onto: str) -> bool:
    """Whether the change cannot be told from what a person has not committed."""
    _, conflicts = site.witness.expected(start, tree, onto)
    return bool(conflicts or site.witness.taken_away(start, tree, onto))


def _objection(site: Site, at: Situation, change: Mapping[str, Entry | None]) -> str:
    """git's word: something changed, and it can be told from what is the person's."""
    start, tree = at.second.change
    if not site.witness.task_change(start, tree):
        return UNCHANGED
    _, conflicts = site.witness.expected(start, tree, at.head.commit)
    if conflicts:
        return overlap(at, conflicts)
    lost: list[str] = []
    if at.start and at.start.base == at.head.commit:
        lost = site.witness.taken_away(start, tree, at.head.commit)
    if lost:
        return f"it took away uncommitted changes of yours in {some(lost)}"
    if names := protect.obeyed(site.repo, change):
        site.warn(f"the task changes {some(names)}: it runs unasked; review it", kept=True)
    new = change.get(FILE)
    return baseline.unsound_settings(site, new) if new else ""


def overlap(at: Situation, conflicts: Sequence[str]) -> str:
    """Why the task's change cannot be told from what is the person's."""
    moved = at.start is not None and at.start.base != at.head.commit
    whose = "your commit" if moved else "your uncommitted changes"
    return f"the change overlaps {whose} in {some(conflicts)}: commit or stash it"


# ---------------------------------------------------------------- gates, then judges


def _checked(
    site: Site, at: Situation, wanted: Checks, change: Mapping[str, Entry | None]
) -> tuple[str, dict[str, object]]:
    """What a gate or a judge holds against the change; and what is to be noted."""
    if not wanted.shown:
        return "", {}
    others = [] if all(map(site.gates.apart, wanted.gates)) else _beside(site, at, change)
    if others:
        site.warn(f"note: the gates also saw your uncommitted {some(others)}")
    asked = chain(
        (_gate(site, gate, at, change) for gate in wanted.gates),
        (_judge(site, criterion, at) for criterion in wanted.criteria),
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
    where = f", in your tree, which also held {some(others)}" if others else ""
    risks = again.risks(results, site.memory.flaky)
    site.memory.flaky |= {ended.name for ended in results if ended.flaky}
    doubts = doubted(site.repo, wanted.gates, change, *at.second.change)
    return "", {"proof": result.proved(results) + where + doubts + risks}


def doubted(repo: Repo, gates: Iterable[Gate], change: Collection[str], old: str, new: str) -> str:
    """What lessens the word of green gates, to follow it: the change is of what they go by."""
    named = {path for gate in gates for path in result.named(gate.command, change)}
    changed = f"; the task changed {some(sorted(named))}, named by a gate" if named else ""
    tests = weakened(repo, old, new)
    return changed + (f"; tests: {some(tests)}" if tests else "")


def _beside(site: Site, at: Situation, change: Mapping[str, Entry | None]) -> list[str]:
    """What of the working tree is neither committed nor of the task."""
    now = site.snapshots.take(at.second.start)
    dirty = site.witness.uncommitted(at.head.commit, now)
    return [path for path in dirty if path not in change]


def _gate(site: Site, gate: Gate, at: Situation, change: Mapping[str, Entry | None]) -> Result:
    known = baseline.known(site, gate, at.second.base, at.second.start)
    allowed = site.caller.settings.on_red is OnRed.ALLOW or None
    run = _in_room if site.gates.apart(gate) else _in_tree

    def once() -> Result:
        site.caller.heed()
        return run(site, gate, at, change).against(known.red if known else allowed)

    ended = once()
    if not site.memory.again:
        subject = limits.subject(site, gate, _candidate(site, at), at.second.tree)
        ended = site.gates.counted(gate, subject, ended, once)
    if not site.memory.again and site.gates.apart(gate):
        ended = exact.explained(site, gate, ended, _beside(site, at, change))
    site.sink(GateEnded(ended))
    return ended


def _in_room(site: Site, gate: Gate, at: Situation, _: Mapping[str, Entry | None]) -> Result:
    """On exactly what is to be committed."""
    candidate = _candidate(site, at)
    ended = limits.gate(site, gate, at.second.tree, at.head, None, exact=candidate)
    site.memory.again = exact.take_in(site, at, gate.label, candidate)
    return ended


def _candidate(site: Site, at: Situation) -> str:
    return site.witness.expected(*at.second.change, at.head.commit)[0]


def _in_tree(site: Site, gate: Gate, at: Situation, change: Mapping[str, Entry | None]) -> Result:
    """On the tree as the agent left it, which it is again afterwards in the task's paths."""
    start = at.second.start
    before = site.snapshots.take(start)
    # What a person has changed since stage 2, say a setting of git's, is theirs.
    ref = at.start and replace(at.start, guard=site.keeper.guard.take(at.start.tree))
    ended = limits.gate(site, gate, before, at.head, ref)
    strayed = site.repo.changed(before, site.snapshots.take(start))
    if strayed.keys() & change.keys():
        put_back(site, at, change, known=before, by=f"{gate.label}, or you,")
    touched = site.keeper.touched(at.head.commit)
    if others := sorted(strayed.keys() - change.keys() - {*touched}):
        _name_others(site, gate, at, others, strayed, before)
    return ended


def _name_others(
    site: Site,
    gate: Gate,
    at: Situation,
    others: Sequence[str],
    strayed: Mapping[str, Change],
    before: str,
) -> None:
    """What a gate does beside the task's paths is left as it is; what was there is kept."""
    made = [path for path in others if strayed[path][0] is None]
    known = site.witness.made
    for path, (old, new) in strayed.items():
        if new and path in others and (old is None or known.get(path) == old):
            known[path] = new
    if made:
        site.warn(
            f"{gate.label} made {some(made)}: left there, never committed; add "
            "what it makes to .gitignore"
        )
    if changed := [path for path in others if path not in made]:
        ref = keep(site, at, "before-gate", before)
        site.warn(
            f"{some(changed)} changed while {gate.label} ran: left as it is, and not "
            f"committed; as it was: git checkout {ref} -- PATH"
        )


def _judge(site: Site, criterion: str, at: Situation) -> Result:
    key, task = at.opened
    whole = site.witness.whole(at.second.tree, at.second.index)
    form = site.templates[Aide.JUDGE]
    prompt = briefs.judged(site.repo, form, task, criterion, at.second.start, whole)
    judges: list[Result] = []
    while (agreed := verdict.agreed(judges)) is None:
        with _reading(site, at):
            said = site.caller.call(
                prompt, task=key.text, attempt=at.attempt, settle=may_not_write("judge")
            )
        judges.append(verdict.judged(criterion, said.fault or said.reply.text))
        site.sink(GateEnded(judges[-1]))
    if disagreement := verdict.disagreement(judges):
        site.warn(disagreement)
    return agreed


@contextlib.contextmanager
def _reading(site: Site, at: Situation) -> Iterator[None]:
    """An agent that sees exactly what is to be committed, where there is a room."""
    hold = site.caller.hold
    if site.gates.furnish:
        room = site.gates.furnish(_candidate(site, at))
        site.caller.hold = functools.partial(hold, room=room)
    try:
        yield
    finally:
        site.caller.hold = hold


# ---------------------------------------------------------------- the decision


def decide(site: Site, second: StageRecord, found: Decision) -> None:
    decided = second.noting(outcome=str(found))
    record.save(site.scope, decided)
    site.memory.proved = decided.written if found.saved is Saved.PROVED else ""
    site.sink(Traced(f"outcome of {second.key.text}: {found}"))


def fail(site: Site, second: StageRecord, why: str, cause: Cause) -> None:
    decide(site, second.noting(cause=cause), Decision(Saved.FAILED, why))


def reprove(site: Site, at: Situation) -> None:
    """Proof is bound to its base. What kern's own children made of HEAD since is undone; on top of
    a person's commits, also those that hold the task's files, the gates run again.
    """
    base, head = at.second.bound_to, at.head.commit
    if at.start and limits.take_back(site, at.start, base, "stage 3", "the commit stage"):
        return
    since = history.since(site.repo, base, head) or (history.commit(site.repo, head),)
    record.save(site.scope, at.second.undecided(onto=head))
    site.warn(
        "a commit of yours came in before the task's: checked again on top of it: "
        f"{at.opened[0].text}{limits.commits(since)}"
    )


def reject(site: Site, at: Situation) -> None:
    """Stage 3 rejected the change: a failed attempt."""
    reason = at.files[Stage.COMMIT].answer.reason
    fail(site, at.second, f"rejected at the commit: {reason}", Cause.COMMIT)
