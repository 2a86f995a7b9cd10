"""Stage 2: the start ref, the agent, and what it may not have done."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from kern import plain
from kern.config import Gate, Settings
from kern.errors import Interrupted, KernError
from kern.git import operations, refs
from kern.git.refs import StartRef
from kern.model import Cause, Stage, Tier
from kern.pipeline import agents, baseline, guarded, limits, mend
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.stages import briefs, record, verdict
from kern.stages.briefs import Mending
from kern.stages.call import Said
from kern.stages.prompt import Prompt
from kern.stages.record import StageRecord
from kern.system import workspace


class _Order(NamedTuple):
    """What the agent is asked, and the gates that send it back."""

    prompt: Prompt
    mode: str
    gates: Sequence[Gate]


def implement(site: Site, at: Situation) -> None:
    """The start ref, the agent, what it may not have done, stage2.json."""
    key, _ = at.opened
    last = _attempt_before(site, at)
    before = site.snapshots.latest()
    settings = baseline.settings(site, before)  # their faults come before the start ref
    papers = guarded.take(site)
    start = site.keeper.begin(at.head, key, at.attempt, before, papers.texts[0])
    mending = mend.mending(site, at, last, start)

    def begin_anew() -> None:
        """No half-done work in the tree."""
        limits.enforce(site, at.head, start)
        guarded.settle(site, papers, trusted=False)
        site.keeper.back_for_retry(start, site.scope.transcript(Stage.IMPLEMENT))

    def again() -> bool:
        begin_anew()
        if last and mending:
            mend.bring_back(site, at, last, start)
        return True

    try:
        order = _order(site, at, start, settings, last, mending)
        if last and mending:
            mend.bring_back(site, at, last, start)
        said = site.caller.call(
            order.prompt,
            task=key.text,
            attempt=at.attempt,
            mode=order.mode,
            env={"GIT_REFLOG_ACTION": f"kern {site.caller.run} stage 2"},
            config=operations.refuse_push(site.repo),
            gates=order.gates,
            again=again,
        )
    except Interrupted:
        with contextlib.suppress(KernError):  # then the next run does it, from the start ref
            limits.restore(site, start)
            guarded.settle(site, papers, trusted=False)
            refs.seal(site.repo, start)
        raise
    except KernError:
        begin_anew()  # while a person settles it
        refs.delete(site.repo, start.ref, start.commit)
        raise
    assert said is not None
    violation, facts = limits.left(site, at.head, start, papers)
    facts |= _noted(at, violation, said, order)
    refs.seal(site.repo, start)
    began = at.files[Stage.RESEARCH].time
    save(site, said, key, Stage.IMPLEMENT, at.attempt, **facts, time=began)


def _attempt_before(site: Site, at: Situation) -> StageRecord | None:
    """Of the same task; its files make room."""
    if at.attempt == 1:
        return None
    workspace.retire(site.scope, str(at.attempt - 1))
    last = record.read(site.scope, Stage.IMPLEMENT, at.attempt - 1)
    return last if last and last.key == at.key else None


def _order(
    site: Site,
    at: Situation,
    start: StartRef,
    settings: Settings,
    last: StageRecord | None,
    mending: Mending | None,
) -> _Order:
    """How things stand before the agent works, and what it is told of that."""
    _, task = at.opened
    wanted = baseline.checks(site, task, settings)
    state, gates = list[str](), list[Gate]()
    if at.due is Tier.IMPLEMENT:
        baseline.gates(site, at.head, start, settings.gates)
        state = baseline.own(site, at.head, start, wanted)
        wanted = baseline.seen(site, wanted, start.tree)
        gates = baseline.at_the_end(wanted)
    researched = at.files[Stage.RESEARCH].answer
    form = site.templates[Stage.IMPLEMENT]
    reading = agents.read_guidance(form) and not settings.bare
    prompt = briefs.implement(
        form,
        task,
        at.due,
        researched.body,
        briefs.for_work(site.repo, site.papers, researched, by_itself=reading),
        wanted,
        last.red if last else None,
        [*state, *baseline.state(site, settings.probes, at.head, start)],
        mending,
    )
    gates = gates if site.caller.runs_gates(prompt) else []
    return _Order(prompt, str(briefs.work(task, at.due, mending)), gates)


def _noted(at: Situation, violation: str, said: Said, order: _Order) -> dict[str, object]:
    """How it ended badly, and how often it was sent back."""
    facts = dict[str, object]()
    if why := violation or said.fault:
        timed_out = said.fault.startswith("timed out")
        facts["outcome"] = str(verdict.broken(plain.line(why), at.due))
        facts["cause"] = Cause.LIMIT if violation else Cause.TIME if timed_out else Cause.OTHER
    if told := {one.entry.id: one.entry.mark for one in order.prompt.memory.chosen}:
        facts["told"] = told
    if order.gates:
        facts["sent_back"] = said.reply.sent_back
    return facts
