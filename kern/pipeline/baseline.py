"""How things stand before an agent works: the settings that count, the gates on the tree before the
task, and what the project's probes say. What any of them changes goes back.
"""

from collections.abc import Sequence
from dataclasses import replace

from kern import config
from kern.checks import result
from kern.config import FILE, Gate, Probe, Settings
from kern.errors import UsageError
from kern.events import GateEnded, ProbeStarted
from kern.git.refs import StartRef
from kern.git.repository import LINK, SUBMODULE, Entry, Head
from kern.model import Key, OnRed, Result
from kern.pipeline import exact, limits
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.spec import notes
from kern.spec.notes import Checks
from kern.spec.parse import Task

_PROBES = "a probe"


def settings(site: Site, tree: str) -> Settings:
    """As the snapshot before stage 2 has them: an agent cannot lower its own bar."""
    if site.memory.settings[0] != tree and not site.caller.settings.bare:
        text = site.repo.content(tree, FILE)
        found = config.parse(text) if text is not None else None
        # The latter where git ignores it.
        site.memory.settings = tree, found or site.caller.settings
    return site.memory.settings[1]


def unsound_settings(site: Site, new: Entry) -> str:
    """What is wrong with the kern.toml that the task wrote: the next task could not begin."""
    if new.mode in (LINK, SUBMODULE):
        return f"it made {FILE} a {'link' if new.mode == LINK else 'submodule'}"
    site.warn(f"the task changes {FILE}: that counts from the next task on")
    try:
        config.parse(site.repo.data(new.blob))
    except UsageError as exc:
        return str(exc)
    return ""


def checks(site: Site, task: Task, settings: Settings) -> Checks:
    """Of the task as SPEC.md has it now."""
    _, parsed = site.papers.spec()
    fresh = parsed.find(task.key)
    found = notes.checks(parsed, fresh, settings) if fresh else Checks(settings.gates)
    return found.repaired() if site.caller.settings.on_red is OnRed.REPAIR else found


# ---------------------------------------------------------------- gates


def check(site: Site) -> None:
    """Before the first task of a run, while the tree holds no agent's work: nothing is paid
    where no task could be proven.
    """
    if site.papers.settings().gates:
        head, start = standing(site)
        gates(site, head, start, settings(site, start.tree).gates)
    site.memory.checked = True


def standing(site: Site) -> tuple[Head, StartRef]:
    """The tree as it is, without a task."""
    head, tree = site.repo.head(), site.snapshots.take()
    return head, limits.standing(site, head, tree, Key("", "gates"), 1)


def now(site: Site, wanted: Sequence[Gate]) -> list[Result]:
    """How they end on the tree as it is, for a person who asks, without a task."""
    head, start = standing(site)
    _run_unknown(site, head, start, wanted)
    ends = (known(site, gate, head.commit, start.tree) for gate in wanted)
    return [ended for ended in ends if ended]


def known(site: Site, gate: Gate, commit: str, tree: str) -> Result | None:
    """How it ended on that commit in this run, or where there is no room, on that tree."""
    return site.gates.known(gate, limits.subject(site, gate, commit, tree))


def gates(site: Site, head: Head, start: StartRef, wanted: Sequence[Gate]) -> None:
    """The project's gates on the tree before the task. The first of a run is its check."""
    unknown = _run_unknown(site, head, start, wanted)
    on_red = site.caller.settings.on_red
    ends = {gate: known(site, gate, head.commit, start.tree) for gate in wanted}
    red = {gate: was for gate, was in ends.items() if was and was.red}
    if stop := [r for r in red.values() if r.stops(on_red, first=not site.memory.checked)]:
        message, hint = result.refusal(stop)
        raise UsageError(message, hint=hint)
    site.memory.checked = True
    for gate in unknown:
        if gate in red:
            site.warn(result.regard(red[gate], on_red))


def beforehand(site: Site, at: Situation) -> None:
    """Those in a room before there is a start ref: what a person saves meanwhile is no agent's."""
    tree = site.snapshots.latest()
    wanted = settings(site, tree)
    tasks = checks(site, at.opened[1], wanted)
    shared, own_ones = (
        [g for g in some if site.gates.apart(g)] for some in (wanted.gates, tasks.gates)
    )
    if not all(known(site, gate, at.head.commit, tree) for gate in (*shared, *own_ones)):
        start = limits.standing(site, at.head, tree, at.opened[0], at.attempt)
        gates(site, at.head, start, shared)
        own(site, at.head, start, replace(tasks, gates=tuple(own_ones)))


def own(site: Site, head: Head, start: StartRef, wanted: Checks) -> list[str]:
    """How the task's own gates end before it, a text each for the stages. They ought to fail."""
    mine = [replace(gate, again=0) for gate in wanted.gates if not gate.name]
    fresh = _run_unknown(site, head, start, mine)
    told = []
    for gate in mine:
        was = known(site, gate, head.commit, start.tree)
        assert was is not None
        told.append(result.before(was, gate.command))
        if gate in fresh and not was.red:
            site.warn(f"{gate.label} is green before the task: it proves nothing of it")
    return told


def _run_unknown(site: Site, head: Head, start: StartRef, wanted: Sequence[Gate]) -> list[Gate]:
    """Those of which this run does not know how they end there."""
    unknown = [gate for gate in wanted if not known(site, gate, head.commit, start.tree)]
    try:
        for gate in unknown:
            ended = _before(site, head, start, gate)
            site.memory.flaky |= {gate.label} if ended.flaky else set()
            site.sink(GateEnded(ended, before=True))
    finally:
        if not all(map(site.gates.apart, unknown)):
            _back(site, start)
    return unknown


def _back(site: Site, start: StartRef) -> None:
    limits.back_to(site, start, f"{start.attempt}-gate", "the gates", " before the task")


def _before(site: Site, head: Head, start: StartRef, gate: Gate) -> Result:
    """On what is committed; where there is no room, on the working tree."""
    committed = site.repo.tree(head.commit)

    def once() -> Result:
        site.caller.heed()
        ended = limits.gate(site, gate, start.tree, head, start, exact=committed, before=True)
        if ended.red and not site.gates.apart(gate):
            _back(site, start)
        return ended

    ended = site.gates.counted(gate, start.tree, once(), once)
    if not site.gates.apart(gate):
        return ended
    others = site.witness.uncommitted(head.commit, start.tree)
    told = exact.explained(site, gate, ended, [*others])
    return site.gates.remember(gate, limits.subject(site, gate, committed, ""), told)


def seen(site: Site, wanted: Checks, commit: str, tree: str) -> Checks:
    """With what is known to be red there."""
    red = (g for g in wanted.gates if (was := known(site, g, commit, tree)) and was.red)
    return replace(wanted, red=frozenset(red))


def at_the_end(wanted: Checks) -> list[Gate]:
    """Those that send an agent back: what was red before the task is not its fault."""
    excused = {gate for gate in wanted.gates if gate in wanted.red or gate.known_red}
    return [gate for gate in wanted.gates if gate.strict or gate not in excused]


# ---------------------------------------------------------------- probes


def state_before_research(
    site: Site, at: Situation, tree: str, probes: Sequence[Probe], wanted: Checks
) -> list[str]:
    """`tree`: the working tree as it is now. No start ref stands yet, so that what a killed
    command left is taken for the person's: it is never committed.
    """
    if not (probes or any(not gate.name for gate in wanted.gates)):
        return []
    start = limits.standing(site, at.head, tree, at.opened[0], at.attempt)
    return [*own(site, at.head, start, wanted), *state(site, probes, at.head, start)]


def state(site: Site, probes: Sequence[Probe], head: Head, start: StartRef) -> list[str]:
    """What each says, in order; one that fails says that."""
    if not probes:
        return []
    try:
        with limits.contained(site, _PROBES, head, start):
            results = [_run(site, probe) for probe in probes]
    finally:
        limits.back_to(site, start, f"{start.attempt}-snapshot", _PROBES)
    return [
        result.state(ended, probe.command) for probe, ended in zip(probes, results, strict=True)
    ]


def _run(site: Site, probe: Probe) -> Result:
    site.sink(ProbeStarted(probe.label, probe.command))
    ended = site.gates.look(probe)
    if ended.red:
        last = result.telling(ended.output, result.TELLING)
        said = f": {last}" if last else ""
        site.warn(f"{probe.label} failed ({ended.how}){said}; the stage is told so")
    return ended
