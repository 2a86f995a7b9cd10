"""The verdict on stage 2, in a room that holds exactly what is to be committed: git's word, then
gates and judges. Each can turn a success into an attempt, none can make one.
"""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain

from kern import config
from kern.checks import again, result
from kern.config import FILE, Gate
from kern.errors import UsageError
from kern.events import GateEnded, GateStarted
from kern.git import history, protect
from kern.git.repository import LINK, SUBMODULE, Change
from kern.model import Aide, Cause, Decision, OnRed, Result, Saved, Tier
from kern.pipeline import baseline, limits, rooms, settle, verify
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import some
from kern.spec import notes
from kern.stages import answer, briefs, record, verdict
from kern.stages.ending import may_not_write

MOST_FIXES = 2  # by gates and hooks, in one attempt


def prove(site: Site, at: Situation) -> None:
    """The witnesses' verdict, made durable."""
    _, task = at.opened
    second = at.second
    objection, facts = "", dict[str, object]()
    if second.answer.code is answer.Code.NEEDS_ANSWER:
        objection = notes.objection(task, second.answer.reason)
    if second.answer.code is answer.Code.SUCCESS and at.due is Tier.IMPLEMENT:
        tree, conflicts = rooms.candidate(site, at)
        if conflicts:
            objection = f"the change overlaps your commit in {some(conflicts)}"
            facts = {"cause": Cause.COLLISION}
        else:
            change = site.repo.changed(at.head.commit, tree)
            objection = _objection(site, change)
            if not objection:
                objection, facts = _checked(site, at, tree, change)
            if facts.get("again"):
                return
            verify.name_unheard(site, second, facts)
    found = verdict.decide(
        second.answer, task.text, at.due, subtask=at.facts.subtask, objection=objection
    )
    if found.saved is Saved.FAILED:
        own = {answer.Code.FAILED: Cause.OWN, answer.Code.UNCLEAR: Cause.FORM}
        facts = {"cause": own.get(second.answer.code, Cause.OTHER), **facts}
    if objection == verify.UNCHANGED and verify.was_unchanged(site, at):
        found = Decision(Saved.SKIPPED, settle.UNCHANGED_TWICE)
    verify.decide(site, second.noting(**facts), found)


def _objection(site: Site, change: Mapping[str, Change]) -> str:
    if not change:
        return verify.UNCHANGED
    if names := protect.obeyed(site.repo, {path: new for path, (_, new) in change.items()}):
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
    wanted = baseline.checks(site, at.opened[1], rooms.settings(site))
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
    risks = again.risks(results, site.memory.flaky)
    site.memory.flaky |= {ended.name for ended in results if ended.flaky}
    doubts = verify.doubted(site.repo, wanted.gates, change, at.head.commit, tree)
    return "", {"proof": result.proved(results) + doubts + risks}


def _gate(site: Site, gate: Gate, at: Situation, tree: str) -> Result:
    known = baseline.known(site, gate, at.head.commit, at.second.start)
    allowed = site.caller.settings.on_red is OnRed.ALLOW or None
    known_by = limits.subject(site, gate, tree, tree)

    def once() -> Result:
        site.caller.heed()
        site.sink(GateStarted(gate.label, gate.command))
        ended = site.gates.run(gate, known_by, exact=tree)
        site.memory.again = _takes_in(site, at, gate.label, tree)
        return ended.against(known.red if known else allowed)

    ended = once()
    if not site.memory.again:
        ended = site.gates.counted(gate, known_by, ended, once)
    if not site.memory.again:
        ended = rooms.explained(site, gate, tree, ended)
    site.sink(GateEnded(ended))
    return ended


def _takes_in(site: Site, at: Situation, label: str, tree: str) -> bool:
    """Whether the gate rewrote files of the task, as a formatter does: all gates run again on that.
    What else it rewrote is gone with the room.
    """
    made = rooms.of(site).proof.candidate()
    if made == tree:
        return False
    second, task = at.second, site.repo.changed(at.head.commit, tree)
    rewritten = {path: new for path, (_, new) in site.repo.changed(tree, made).items()}
    own = {path: new for path, new in rewritten.items() if path in task}
    others = sorted(rewritten.keys() - own.keys())
    note = f"{label} rewrote {some(others)}, which is not part of the task: not kept"
    if others and note not in site.memory.told:
        site.memory.told.add(note)
        site.warn(note)
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
    while (agreed := verdict.agreed(judges)) is None:
        said = site.caller.call(
            prompt,
            task=key.text,
            attempt=at.attempt,
            settle=may_not_write("judge"),
            room=rooms.of(site).for_proof(tree, at.head),
        )
        judges.append(verdict.judged(criterion, said.fault or said.reply.text))
        site.sink(GateEnded(judges[-1]))
    if disagreement := verdict.disagreement(judges):
        site.warn(disagreement)
    return agreed


def reprove(site: Site, at: Situation) -> None:
    """Proof is bound to its base: on top of a person's commits the gates run again."""
    base, head = at.second.bound_to, at.head.commit
    since = history.since(site.repo, base, head) or (history.commit(site.repo, head),)
    record.save(site.scope, at.second.undecided(onto=head))
    site.warn(
        "a commit of yours came in before the task's: checked again on top of it: "
        f"{at.opened[0].text}{limits.commits(since)}"
    )
