"""Stages 1 and 2. What research finds out is saved, then noted in SPEC.md; the start ref, the agent
that implements, and what it left.

The second attempt mends the first where that went the right way: its change is in the tree again,
and what failed is told. After that, an attempt begins anew, and so does research. What was finished
and collided with what others did is mended each time.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial

from kern import plain
from kern.config import LARGE, Gate
from kern.errors import KernError
from kern.git import history, refs, shadow
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Entry
from kern.model import Cause, Decision, Saved, Stage, Tier
from kern.pipeline import attempt, project
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.pipeline.table import mends
from kern.plain import some
from kern.spec import edit, notes
from kern.spec.parse import Kind
from kern.stages import answer, briefs, change
from kern.stages.call import Said
from kern.stages.prompts import Prompt
from kern.stages.record import StageRecord, now
from kern.system import process, workspace

_RIGHT_WAY = {Cause.FORM, Cause.GATE, Cause.JUDGE, Cause.HOOK, Cause.COMMIT, Cause.TIME}
_KEPT = 4096  # characters of the change before
_ANSWER = 1500  # characters of the answer before


def research(site: Site, at: Situation) -> None:
    """The answer, or its note: one durable step each."""
    key, task = at.opened
    if Stage.RESEARCH in at.files:
        lines = edit.research(at.files[Stage.RESEARCH].answer.findings or [("Findings", "none")])
        site.documents.edit_task(key, lambda text, _, now: edit.annotate(text, now, lines))
        return
    began, tree = now(), site.repo.tree(at.head.commit)
    required, state = project.standing(site, at)
    form = site.templates[Stage.RESEARCH]
    prompt = briefs.brief(site.repo, site.documents, form, task, required, state)
    fill = partial(site.rooms.for_agent, tree, at.head, writes=False)
    reply, _ = attempt.ask(
        site, at, prompt, "research", fill, tree=tree, back=tree, red=required.red
    )
    if reply.doubt:  # an attempt that came no further, the second of which ends the task
        _retire_earlier(site, at)
        start = attempt.begin(site, at)
        why = f"research: {reply.doubt}"
        outcome = answer.broken(why, at.due if at.due is Tier.IMPLEMENT else Tier.DECOMPOSE)
        if any(why in note.text for note in task.of(Kind.ATTEMPT, Kind.SKIPPED)):
            outcome = Decision(Saved.SKIPPED, f"{why} (twice)")
        _save(site, at, start, tree, reply, str(outcome), cause=Cause.FORM, time=began)
        return
    if task.of(Kind.RESEARCH):  # of an earlier one
        site.documents.edit_task(
            key, lambda text, _, now: edit.without(text, now.of(Kind.RESEARCH))
        )
    first = save(site, reply, key, Stage.RESEARCH, at.attempt, base=at.head.commit, time=began)
    asks = first.answer.code is answer.Code.NEEDS_ANSWER
    if asks and (why := notes.objection(task, first.answer.reason)):
        site.warn(f"research: {why}; implement goes on with what it found")


def implement(site: Site, at: Situation) -> None:
    """The start ref, the agent, what it left, stage2.json."""
    _retire_earlier(site, at)
    last = attempt.earlier(site, at)
    earlier = _earlier(site, at, last)
    prompt, sends_back, red = _order(site, at, last, bool(earlier))
    start = attempt.begin(site, at)
    base = site.repo.tree_with(start.tree, earlier)
    fill = partial(site.rooms.for_agent, base, at.head)

    def again() -> None:
        attempt.put_aside(site, at, start, "cut off", again=True)
        fill()

    try:
        reply, broken = attempt.ask(
            *(site, at, prompt, "the agent", fill),
            tree=base,
            red=red,
            env=process.reflog(site.caller.run),
            config=history.refuse_push(site.repo),
            gates=sends_back,
            again=again,
        )
    except KernError:
        attempt.put_aside(site, at, start, "cut off")
        refs.delete(site.repo, start.ref, start.commit)
        raise
    tree, violation = _left(site, start)
    limits = "; ".join(filter(None, (*broken, violation)))
    why = plain.line(limits or reply.fault or reply.doubt)
    late = Cause.TIME if reply.fault.startswith("timed out") else Cause.OTHER
    _save(
        *(site, at, start, tree, reply, str(answer.broken(why, at.due)) if why else ""),
        told={one.id: one.text for one, _ in prompt.memory.chosen},
        acted=reply.acted,
        time=at.files[Stage.RESEARCH].time,
        cause=Cause.LIMIT if limits else Cause.FORM if reply.doubt else late,
    )


def _retire_earlier(site: Site, at: Situation) -> None:
    if at.attempt > 1:
        workspace.retire(site.scope, str(at.attempt - 1))


def _save(
    site: Site, at: Situation, start: StartRef, tree: str, reply: Said, outcome: str, **more: object
) -> None:
    """The tree, then stage2.json; its `outcome`, where that is settled whatever was answered."""
    refs.hold(site.repo, start, tree)
    facts = {"base": at.head.commit, "start": start.tree, "tree": tree, "outcome": outcome, **more}
    save(site, reply, at.opened[0], Stage.IMPLEMENT, at.attempt, **facts)


def _left(site: Site, start: StartRef) -> tuple[str, str]:
    """The tree as the agent left it, and what no commit may hold of that."""
    tree, why = attempt.left(site, start)
    if why:
        return tree, why
    work = site.rooms.work
    work.accept(tree)
    new = {p: now for p, (old, now) in site.repo.changed(start.tree, tree).items() if old is None}
    if large := [path for path in new if os.lstat(work.tree / path).st_size > LARGE]:
        limit = f"larger than {LARGE >> 20} MiB: Git LFS or .gitignore"
        return tree, f"it made {some(large)}, which is {limit}"
    if submodules := [path for path, now in new.items() if now and now.mode == SUBMODULE]:
        where = some(submodules)
        return tree, f"it made a repository of its own in {where}: no commit can hold that"
    if planted := shadow.obeyed(site.repo, new):
        site.warn(
            f"the agent made {some(planted)}, which git or agents would obey unasked: left out; "
            f"to have it: git show {tree[:12]}:PATH"
        )
        tree = site.repo.tree_with(tree, dict.fromkeys(planted))
    return tree, ""


# ---------------------------------------------------------------- what it is told


def _earlier(site: Site, at: Situation, last: StageRecord | None) -> Mapping[str, Entry | None]:
    """What the attempt before changed, where it can be mended: once, and only while nobody has
    changed the files that it changed.
    """
    if last is None or not all(map(site.repo.store.id, last.change)):
        return {}
    collided = last.cause is Cause.COLLISION and at.due is Tier.IMPLEMENT
    if not (collided or (last.cause in _RIGHT_WAY and mends(at.facts))):
        return {}
    changed = {path: new for path, (_, new) in site.repo.changed(*last.change).items()}
    since = site.repo.changed(last.start, site.repo.tree(at.head.commit))
    return {} if changed.keys() & since.keys() else changed


def _order(
    site: Site, at: Situation, last: StageRecord | None, mends: bool
) -> tuple[Prompt, Sequence[Gate], frozenset[Gate]]:
    """How things stand before the agent works, and what it is told of that; the gates that send it
    back, and those that are red.
    """
    required, state = project.standing(site, at)
    researched = at.files[Stage.RESEARCH].answer
    prompt = briefs.brief(
        *(site.repo, site.documents, site.templates[Stage.IMPLEMENT], at.opened[1]),
        required,
        state,
        at.due,
        researched.body,
        last.red if last else None,
        _mending(site, last) if last and mends else briefs.NOTHING,
    )
    sends_back = at.due is Tier.IMPLEMENT and site.caller.programs[prompt.by.agent].agent.gates
    return prompt, project.at_the_end(required) if sends_back else (), required.red


def _mending(site: Site, last: StageRecord) -> dict[str, list[str]]:
    printed = f"\nThe end of what {last.red.name} printed:\n{last.red.output}" if last.red else ""
    quote = last.answer.body[:_ANSWER]
    failure = f"{last.decision.reason}{printed}\n\nIts answer was:\n{quote}"
    return {"failure": [failure], "kept": [change.shown(site.repo, *last.change, _KEPT)]}
