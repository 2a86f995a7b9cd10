"""Stage 2: the start ref, the agent, and what it left.

The second attempt mends the first where that went the right way: its change is in the tree again,
and what failed is told. After that, an attempt begins anew, and so does research. What was finished
and collided with what others did is mended each time.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kern import plain
from kern.config import LARGE, Gate, Settings
from kern.errors import Interrupted, KernError
from kern.git import faults, operations, protected_files, refs
from kern.git.faults import GitFailed
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Entry
from kern.model import Cause, Stage, Tier
from kern.pipeline import agents, attempt, baseline, project, watched
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.pipeline.table import mends
from kern.plain import some
from kern.sandbox.wall import Room
from kern.stages import answer, briefs, change, record
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
    gates: Sequence[Gate]


def implement(site: Site, at: Situation) -> None:
    """The start ref, the agent, what it left, stage2.json."""
    key, _ = at.opened
    last = attempt_before(site, at)
    settings = project.settings(site)
    start = attempt.begin(site, at)
    earlier = mended(site, at, last, start)
    begun = site.repo.tree_with(start.tree, earlier) if earlier else start.tree
    room: Room | None = None
    working = False

    def begin_anew() -> None:
        nonlocal room, working
        if working and (ref := attempt.unfinished(site, start, "retry")):
            site.warn(f"its work so far is undone and saved as {ref}")
        if working:
            attempt.restore(site, at, again=True)
        room, working = site.rooms.for_agent(begun, at.head), True

    try:
        order = _order(site, at, settings, last, mending(site, last, earlier))
        begin_anew()
        with watched.watched(site, at.head, start, "the agent") as broken:
            said = site.caller.call(
                order.prompt,
                task=key.text,
                attempt=at.attempt,
                env={"GIT_REFLOG_ACTION": f"kern {site.caller.run} stage 2"},
                config=operations.refuse_push(site.repo),
                gates=order.gates,
                again=begin_anew,
                room=room,
            )
    except Interrupted:
        workspace.forget(site.scope, Stage.IMPLEMENT)  # an answer that lies there is not kern's
        refs.hold(site.repo, start)
        raise  # the next run saves what is there
    except KernError:
        if working and (ref := attempt.unfinished(site, start, "retry")):
            site.warn(f"its work so far is saved as {ref}")
        attempt.restore(site, at)
        refs.delete(site.repo, start.ref, start.commit)
        raise
    tree, violation = start.tree, ""
    if site.rooms.mounted or earlier or not said.idle:  # else what changed is a person's
        tree, violation = _left(site, start)
    refs.hold(site.repo, start, tree)
    violation = "; ".join(filter(None, (*broken, violation)))
    facts: dict[str, object] = {"base": at.head.commit, "start": start.tree, "tree": tree}
    facts |= noted(at, violation, said, order)
    began = at.files[Stage.RESEARCH].time
    save(site, said, key, Stage.IMPLEMENT, at.attempt, **facts, time=began)


def _left(site: Site, start: StartRef) -> tuple[str, str]:
    """The tree as the agent left it, and what no commit may hold of that."""
    work = site.rooms.work
    try:
        tree = work.candidate()
    except GitFailed as exc:
        if faults.met(exc.stderr) or faults.of_the_disk(exc.stderr):
            raise
        return start.tree, f"git cannot add what it left: {plain.line(exc.stderr, 200)}"
    site.rooms.work.accept(tree)
    tree = _without_commits(site, start, tree)
    change = site.repo.changed(start.tree, tree)
    new = [path for path, (old, _) in change.items() if old is None]
    large = [path for path in new if os.lstat(work.tree / path).st_size > LARGE]
    if large:
        return (
            tree,
            f"it made {some(large)}, which is larger than {LARGE >> 20} MiB: Git LFS or .gitignore",
        )
    if made := [p for p, (old, now) in change.items() if _is_module(now) and not _is_module(old)]:
        return tree, f"it made a repository of its own in {some(made)}: no commit can hold that"
    if planted := protected_files.obeyed(site.repo, {path: change[path][1] for path in new}):
        site.warn(
            f"the agent made {some(planted)}, which git or agents would obey unasked: left out; "
            f"to have it: git show {tree[:12]}:PATH"
        )
        tree = site.repo.tree_with(tree, dict.fromkeys(planted))
    return tree, ""


def _is_module(entry: Entry | None) -> bool:
    """Or a repository that an agent made in the tree, which no commit can hold."""
    return entry is not None and entry.mode == SUBMODULE


def _without_commits(site: Site, start: StartRef, tree: str) -> str:
    """In place, without what a person has committed while the agent worked."""
    if site.rooms.mounted or (now := site.repo.head().commit) == start.base:
        return tree
    came = site.repo.changed(start.base, now)
    same = {p: old for p, (old, new) in came.items() if site.repo.entry(tree, p) == new}
    return site.repo.tree_with(tree, same)


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
    if (
        "failure" not in site.templates[Stage.IMPLEMENT].variables
    ):  # a project's, which cannot say so
        return {}
    if not all(map(site.repo.store.id, last.change)):
        return {}
    found = {path: new for path, (_, new) in site.repo.changed(*last.change).items()}
    if any(map(_is_module, found.values())):
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
    return Mending(failure, change.shown(site.repo, *last.change, _KEPT))


def _order(
    site: Site,
    at: Situation,
    settings: Settings,
    last: StageRecord | None,
    mending: Mending | None,
) -> Order:
    """How things stand before the agent works, and what it is told of that."""
    _, task = at.opened
    wanted = baseline.checks(site, task, settings)
    state, gates = list[str](), list[Gate]()
    if at.due is Tier.IMPLEMENT:
        baseline.gates(site, at.head, settings.gates)
        state = baseline.own(site, at, wanted)
        wanted = baseline.seen(site, wanted, at.head.commit)
        gates = baseline.at_the_end(wanted)
    state += project.state(site, at.head, settings.probes)
    researched = at.files[Stage.RESEARCH].answer
    form = site.templates[Stage.IMPLEMENT]
    reading = agents.read_guidance(form)
    prompt = briefs.brief(
        form,
        task,
        briefs.known(site.repo, site.papers, researched, by_itself=reading),
        wanted,
        state,
        at.due,
        researched.body,
        last.red if last else None,
        mending,
    )
    gates = gates if site.caller.runs_gates(prompt) else []
    return Order(prompt, gates)


def noted(at: Situation, violation: str, said: Said, order: Order) -> dict[str, object]:
    """How it ended badly, and how often it was sent back."""
    facts = dict[str, object]()
    if why := violation or said.fault:
        timed_out = said.fault.startswith("timed out")
        facts["outcome"] = str(answer.broken(plain.line(why), at.due))
        facts["cause"] = Cause.LIMIT if violation else Cause.TIME if timed_out else Cause.OTHER
    if told := {one.id: one.text for one, _ in order.prompt.memory.chosen}:
        facts["told"] = told
    if order.gates:
        facts["sent_back"] = said.reply.sent_back
    return facts
