"""Stages 1 and 2 in a room: nothing that an agent does there reaches the person's tree or git."""

import os
from collections.abc import Sequence
from dataclasses import replace

from kern import plain
from kern.agents.protocol import Reply
from kern.checks import result
from kern.config import Gate, Settings
from kern.errors import Interrupted, KernError, TransientFault, UsageError
from kern.git import faults, protect, refs
from kern.git.faults import GitFailed
from kern.git.refs import StartRef
from kern.git.repository import Head
from kern.model import Stage, Tier
from kern.pipeline import baseline, rooms
from kern.pipeline import implement as before_rooms
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.plain import some
from kern.sandbox.wall import Room
from kern.spec import edit, notes
from kern.spec.notes import Checks
from kern.spec.parse import Kind
from kern.stages import answer, briefs
from kern.stages.record import StageRecord, now


def research(site: Site, at: Situation) -> None:
    key, task = at.opened
    began, tree = now(), rooms.base(site, at.head)
    settings = rooms.settings(site)
    wanted = baseline.checks(site, task, settings)
    state = [*own_gates(site, at, wanted), *rooms.state(site, at.head, settings.probes)]

    def settle(reply: Reply) -> None:
        if reply.wrote:
            tools = ", ".join(reply.wrote)
            raise TransientFault(
                f"research stage: the agent used {tools}, which this stage does not offer"
            )
        if not reply.text.strip() and not reply.result.get("is_error"):
            raise TransientFault("research stage: the answer is empty")

    prompt = briefs.research(
        site.templates[Stage.RESEARCH],
        task,
        briefs.known(site.repo, site.papers),
        state,
        baseline.seen(site, wanted, at.head.commit, tree),
    )
    room = rooms.of(site).for_agent(tree, at.head)
    said = site.caller.call(prompt, task=key.text, attempt=at.attempt, settle=settle, room=room)
    if task.of(Kind.RESEARCH):  # of an earlier one
        site.papers.edit_task(
            key, lambda text, _, found: edit.without(text, found.of(Kind.RESEARCH))
        )
    made = save(site, said, key, Stage.RESEARCH, at.attempt, base=at.head.commit, time=began)
    asked = made.answer.reason if made.answer.code is answer.Code.NEEDS_ANSWER else ""
    if asked and (why := notes.objection(task, asked)):
        site.warn(f"research: {why}; implement goes on with what it found")


def own_gates(site: Site, at: Situation, wanted: Checks) -> list[str]:
    """How the task's own gates end before it, a text each for the stages. They ought to fail."""
    mine = [replace(gate, again=0) for gate in wanted.gates if not gate.name]
    fresh = rooms.gates_before(site, at.head, mine)
    found = []
    for gate in mine:
        was = baseline.known(site, gate, at.head.commit, rooms.base(site, at.head))
        assert was is not None
        found.append(result.before(was, gate.command))
        if gate in fresh and not was.red:
            site.warn(f"{gate.label} is green before the task: it proves nothing of it")
    return found


def check(site: Site) -> None:
    """Before the first task: nothing is paid where no task could be proven."""
    if gates := rooms.settings(site).gates:
        gates_before(site, site.repo.head(), gates)
    site.memory.checked = True


def gates_before(site: Site, head: Head, wanted: Sequence[Gate]) -> None:
    """The project's gates before the task. Raises UsageError where these stop a run."""
    unknown = rooms.gates_before(site, head, wanted)
    tree, on_red = rooms.base(site, head), site.caller.settings.on_red
    ends = {gate: baseline.known(site, gate, head.commit, tree) for gate in wanted}
    red = {gate: was for gate, was in ends.items() if was and was.red}
    if stop := [r for r in red.values() if r.stops(on_red, first=not site.memory.checked)]:
        message, hint = result.refusal(stop)
        raise UsageError(message, hint=hint)
    site.memory.checked = True
    for gate in unknown:
        if gate in red:
            site.warn(result.regard(red[gate], on_red))


# ---------------------------------------------------------------- stage 2


def implement(site: Site, at: Situation) -> None:
    """The start ref, the agent, what it left, stage2.json."""
    key, _ = at.opened
    last = before_rooms.attempt_before(site, at)
    settings = rooms.settings(site)
    start = rooms.begin(site, at)
    mended = before_rooms.mended(site, at, last, start)
    begun = site.repo.tree_with(start.tree, mended) if mended else start.tree
    room: Room | None = None

    def begin_anew() -> None:
        nonlocal room
        if room and (ref := rooms.unfinished(site, start, "retry")):
            site.warn(f"its work so far is undone and saved as {ref}")
        room = rooms.of(site).for_agent(begun, at.head)

    try:
        order = _order(site, at, start, settings, last, before_rooms.mending(site, last, mended))
        begin_anew()
        said = site.caller.call(
            order.prompt,
            task=key.text,
            attempt=at.attempt,
            mode=order.mode,
            gates=order.gates,
            again=begin_anew,
            room=room,
        )
    except Interrupted:
        raise  # the next run saves what is there
    except KernError:
        if room and (ref := rooms.unfinished(site, start, "retry")):
            site.warn(f"its work so far is saved as {ref}")
        refs.delete(site.repo, start.ref, start.commit)
        raise
    tree, violation = _left(site, start)
    refs.hold(site.repo, start, tree)
    facts: dict[str, object] = {"base": at.head.commit, "start": start.tree, "tree": tree}
    facts |= before_rooms.noted(at, violation, said, order)
    began = at.files[Stage.RESEARCH].time
    save(site, said, key, Stage.IMPLEMENT, at.attempt, **facts, time=began)


def _left(site: Site, start: StartRef) -> tuple[str, str]:
    """The tree as the agent left it, and what no commit may hold of that."""
    work, most = rooms.of(site).work, site.caller.settings.large_file * (1 << 20)
    try:
        tree = work.candidate()
    except GitFailed as exc:
        if faults.met(exc.stderr) or "No space left" in exc.stderr:
            raise
        return start.tree, f"git cannot add what it left: {plain.line(exc.stderr, 200)}"
    change = site.repo.changed(start.tree, tree)
    new = [path for path, (old, _) in change.items() if old is None]
    large = [path for path in new if most and os.lstat(work.tree / path).st_size > most]
    if large:
        return tree, f"it made {some(large)}, which is larger than large_file in kern.toml"
    if made := rooms.strays(change):
        return tree, f"it made a repository of its own in {some(made)}: no commit can hold that"
    if planted := protect.obeyed(site.repo, {path: change[path][1] for path in new}):
        site.warn(
            f"the agent made {some(planted)}, which git or agents would obey unasked: left out; "
            f"to have it: git show {tree[:12]}:PATH"
        )
        tree = site.repo.tree_with(tree, dict.fromkeys(planted))
    return tree, ""


def _order(
    site: Site,
    at: Situation,
    start: StartRef,
    settings: Settings,
    last: StageRecord | None,
    mending: briefs.Mending | None,
) -> before_rooms.Order:
    """How things stand before the agent works, and what it is told of that."""
    _, task = at.opened
    wanted = baseline.checks(site, task, settings)
    state, gates = list[str](), list[Gate]()
    if at.due is Tier.IMPLEMENT:
        gates_before(site, at.head, settings.gates)
        state = own_gates(site, at, wanted)
        wanted = baseline.seen(site, wanted, at.head.commit, start.tree)
        gates = baseline.at_the_end(wanted)
    state = [*state, *rooms.state(site, at.head, settings.probes)]
    return before_rooms.order(site, at, wanted, gates, state, last, mending, settings)
