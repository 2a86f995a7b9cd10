"""Stage 2: the start ref, the agent, and what it may not have done.

The second attempt mends the first where that went the right way: its change is in the tree again,
and what failed is told. After that, an attempt begins anew, and so does research. What was finished
and collided with what others did is mended each time.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kern import plain
from kern.config import Gate, Settings
from kern.errors import Interrupted, KernError
from kern.git import objects, operations, refs, staging
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Entry
from kern.model import Cause, Stage, Tier
from kern.pipeline import agents, baseline, guarded, limits
from kern.pipeline.facts import Situation
from kern.pipeline.guarded import Papers
from kern.pipeline.site import Site, save
from kern.pipeline.table import mends
from kern.spec.notes import Checks
from kern.stages import briefs, change, record, verdict
from kern.stages.briefs import Mending
from kern.stages.call import Said
from kern.stages.prompts import Prompt
from kern.stages.record import StageRecord
from kern.system import workspace

_RIGHT_WAY = {Cause.FORM, Cause.GATE, Cause.JUDGE, Cause.HOOK, Cause.COMMIT, Cause.TIME}
_KEPT = 4096  # characters of the change before
_ANSWER = 1500  # characters of the answer before


class Order(NamedTuple):
    """What the agent is asked, and the gates that send it back."""

    prompt: Prompt
    mode: str
    gates: Sequence[Gate]


def implement(site: Site, at: Situation) -> None:
    """The start ref, the agent, what it may not have done, stage2.json."""
    key, _ = at.opened
    last = attempt_before(site, at)
    if at.due is Tier.IMPLEMENT:
        baseline.beforehand(site, at)
    before = site.snapshots.latest()
    settings = baseline.settings(site, before)  # their faults come before the start ref
    papers = guarded.take(site)
    site.keeper.ignored.take(key, at.attempt)
    start = site.keeper.begin(at.head, key, at.attempt, before, papers[0].text)
    mended_work = mended(site, at, last, start)

    def begin_anew() -> None:
        """No half-done work in the tree."""
        limits.enforce(site, at.head, start)
        guarded.settle(site, papers)
        site.keeper.back_for_retry(start, site.scope.transcript(Stage.IMPLEMENT))

    def bring_back() -> None:
        """What is to be mended, into the tree, which is as before stage 2."""
        name, tree = f"{at.attempt}-edited", start.tree
        site.keeper.put_back(key, mended_work, start=tree, known=tree, base=start.base, name=name)

    def again() -> bool:
        begin_anew()
        bring_back()
        return True

    try:
        order = _order(site, at, start, settings, last, mending(site, last, mended_work))
        bring_back()
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
            _interrupted(site, start, papers)
        raise
    except KernError:
        begin_anew()  # while a person settles it
        refs.delete(site.repo, start.ref, start.commit)
        raise
    assert said is not None
    violation, facts = limits.left(site, at.head, start, papers)
    if said.idle and not mended_work:  # what changed meanwhile is a person's
        facts |= {"tree": facts["start"], "index": staging.noted({})}
    facts |= noted(at, violation, said, order)
    refs.seal(site.repo, start)
    began = at.files[Stage.RESEARCH].time
    save(site, said, key, Stage.IMPLEMENT, at.attempt, **facts, time=began)


def _interrupted(site: Site, start: StartRef, papers: Papers) -> None:
    """What it planted goes; a stage file that lies there without an end is none of kern's."""
    limits.restore(site, start)
    guarded.settle(site, papers)
    workspace.forget(site.scope, Stage.IMPLEMENT)
    refs.seal(site.repo, start)


def attempt_before(site: Site, at: Situation) -> StageRecord | None:
    """Of the same task; its files make room."""
    if at.attempt == 1:
        return None
    workspace.retire(site.scope, str(at.attempt - 1))
    last = record.read(site.scope, Stage.IMPLEMENT, at.attempt - 1)
    return last if last and last.key == at.key else None


def mended(
    site: Site, at: Situation, last: StageRecord | None, start: StartRef
) -> Mapping[str, Entry | None]:
    """What the attempt before changed, path by path, where it can be mended: once, and only while
    nobody has changed the files that it changed.
    """
    collided = last is not None and last.cause is Cause.COLLISION and at.due is Tier.IMPLEMENT
    if last is None or not (collided or (last.cause in _RIGHT_WAY and mends(at.facts))):
        return {}
    if last.index:  # what it did to the index alone is in no tree
        return {}
    if (
        "failure" not in site.templates[Stage.IMPLEMENT].variables
    ):  # a project's, which cannot say so
        return {}
    if objects.lacks(site.repo, last.base, *last.change):
        return {}
    found = {path: new for path, (_, new) in site.repo.changed(*last.change).items()}
    if any(entry and entry.mode == SUBMODULE for entry in found.values()):
        return {}
    return {} if found.keys() & site.repo.changed(last.start, start.tree).keys() else found


def mending(
    site: Site, last: StageRecord | None, mended: Mapping[str, Entry | None]
) -> Mending | None:
    """What the agent is told of it."""
    if last is None or not mended:
        return None
    said = last.answer.body[:_ANSWER]
    printed = f"\nThe end of what {last.red.name} printed:\n{last.red.output}" if last.red else ""
    failure = f"{last.decision.reason}{printed}\n\nIts answer was:\n{said}"
    return Mending(failure, "".join(change.shown(site.repo, *last.change, _KEPT)))


def _order(
    site: Site,
    at: Situation,
    start: StartRef,
    settings: Settings,
    last: StageRecord | None,
    mending: Mending | None,
) -> Order:
    """How things stand before the agent works, and what it is told of that."""
    _, task = at.opened
    wanted = baseline.checks(site, task, settings)
    state, gates = list[str](), list[Gate]()
    if at.due is Tier.IMPLEMENT:
        baseline.gates(site, at.head, start, settings.gates)
        state = baseline.own(site, at.head, start, wanted)
        wanted = baseline.seen(site, wanted, at.head.commit, start.tree)
        gates = baseline.at_the_end(wanted)
    state = [*state, *baseline.state(site, settings.probes, at.head, start)]
    return order(site, at, wanted, gates, state, last, mending, settings)


def order(
    site: Site,
    at: Situation,
    wanted: Checks,
    gates: Sequence[Gate],
    state: Sequence[str],
    last: StageRecord | None,
    mending: Mending | None,
    settings: Settings,
) -> Order:
    """The prompt. `state`: how things stand before the agent works."""
    _, task = at.opened
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
        state,
        mending,
    )
    gates = gates if site.caller.runs_gates(prompt) else []
    return Order(prompt, str(briefs.work(task, at.due, mending)), gates)


def noted(at: Situation, violation: str, said: Said, order: Order) -> dict[str, object]:
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
