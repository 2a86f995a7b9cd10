"""Gates, then judges, on the tree as the agent left it: what they hold against it, or what stands
behind it. With a baseline: what was red before the task is not the task's fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from kern.checks import result
from kern.config import Gate
from kern.events import GateEnded, GateStarted
from kern.git.repository import Change, Entry
from kern.model import Aide, Cause, OnRed, Result
from kern.pipeline import baseline, limits
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, put_back
from kern.plain import some
from kern.stages import briefs, patches, verdict
from kern.stages.ending import may_not_write

Noted = dict[str, object]  # what stage2.json is to remember


def checked(site: Site, at: Situation, change: Mapping[str, Entry | None]) -> tuple[str, Noted]:
    """What a gate or a judge holds against the change; and what is to be noted."""
    wanted = baseline.checks(site, at.opened[1], baseline.settings(site, at.second.start))
    if not wanted.shown:
        return "", {}
    now = site.snapshots.take(at.second.start)
    dirty = site.witness.uncommitted(at.head.commit, now)
    if others := [path for path in dirty if path not in change]:
        site.warn(f"note: the gates also saw your uncommitted {some(others)}")
    results: list[Result] = []
    for gate in wanted.gates:
        results.append(_gate(site, gate, at, change))
        if results[-1].blocks:
            break
    else:
        for criterion in wanted.criteria:
            results.append(_judge(site, criterion, at))
            if results[-1].blocks:
                break
    if results[-1].blocks:
        cause = Cause.JUDGE if results[-1].name.startswith("judge") else Cause.GATE
        red = asdict(result.evidence(results[-1]))
        return result.objection(results[-1]), {"red": red, "cause": cause}
    named = {path for gate in wanted.gates for path in result.named(gate.command, change)}
    changed = f"; the task changed {some(sorted(named))}, named by a gate" if named else ""
    tests = patches.weakened(site.repo, *at.second.change)
    weaker = f"; tests: {some(tests)}" if tests else ""
    return "", {"proof": result.proved(results) + changed + weaker}


def _gate(site: Site, gate: Gate, at: Situation, change: Mapping[str, Entry | None]) -> Result:
    """On the tree as the agent left it, which it is again afterwards in the task's paths."""
    start = at.second.start
    site.caller.heed()
    before = site.snapshots.take(start)
    site.sink(GateStarted(gate.label, gate.command))
    # What a person has changed since stage 2, say a setting of git's, is theirs.
    ref = at.start and replace(at.start, guard=site.keeper.guard.take(at.start.tree))
    with limits.contained(site, gate.label, at.head, ref):
        ended = site.gates.run(gate, before)
    known = site.gates.known(gate, start)
    allowed = site.caller.settings.on_red is OnRed.ALLOW or None
    ended = ended.against(known.red if known else allowed)
    strayed = site.repo.changed(before, site.snapshots.take(start))
    if strayed.keys() & change.keys():
        put_back(site, at, change, known=before, by=f"{gate.label}, or you,")
    touched = site.keeper.touched(at.head.commit)
    if others := sorted(strayed.keys() - change.keys() - {*touched}):
        _name_others(site, gate, at, others, strayed, before)
    site.sink(GateEnded(ended))
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
        ref = site.keeper.keep(at.opened[0], f"{at.attempt}-before-gate", before, at.head.commit)
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
        said = site.caller.call(
            prompt, task=key.text, attempt=at.attempt, settle=may_not_write("judge")
        )
        assert said is not None
        judges.append(verdict.judged(criterion, said.fault or said.reply.text))
        site.sink(GateEnded(judges[-1]))
    if disagreement := verdict.disagreement(judges):
        site.warn(disagreement)
    return agreed
