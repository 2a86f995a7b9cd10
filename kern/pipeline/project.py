"""The project's own commands: its gates, on exactly what is committed or to be, and its probes."""

from collections.abc import Sequence
from dataclasses import replace

from kern import config
from kern.checks import result
from kern.config import FILE, Gate, Probe, Settings
from kern.events import GateEnded, GateStarted, ProbeStarted
from kern.git import ignore
from kern.git.repository import Head
from kern.model import Result
from kern.pipeline import preflight, watched
from kern.pipeline.site import Site
from kern.plain import some

LACKING = "which is not committed"


def settings(site: Site) -> Settings:
    """kern.toml as the person has it, or as it is committed, where an agent works in place: none
    can lower its own bar.
    """
    asked = site.caller.settings
    if not site.rooms.place:
        return site.papers.settings()
    text = site.repo.content(site.repo.head().commit, FILE)
    return asked if text is None or FILE in site.rooms.work.own else config.parse(text)


def gates_before(site: Site, head: Head, wanted: Sequence[Gate]) -> list[Gate]:
    """Those of the gates of which this run did not know how they end before the task."""
    tree = site.repo.tree(head.commit)
    unknown = [gate for gate in wanted if not site.gates.known(gate, subject(site, tree))]
    for gate in unknown:
        ended = run_gate(site, gate, tree, before=True)
        site.memory.flaky |= {gate.label} if ended.flaky else set()
        site.sink(GateEnded(ended, before=True))
    return unknown


def run_gate(site: Site, gate: Gate, tree: str, *, before: bool = False) -> Result:
    """How it ends on exactly that tree; a red one once more, and with what it may lack."""
    known_by = subject(site, tree)

    def once() -> Result:
        site.caller.heed()
        site.sink(GateStarted(gate.label, gate.command, before=before))
        with watched.watched(site, site.repo.head(), None, gate.label, back=tree):
            return site.gates.run(gate, known_by, before=before, exact=tree)

    ended = site.gates.counted(gate, known_by, once(), once)
    return site.gates.remember(gate, known_by, explained(site, gate, ended))


def subject(site: Site, commit: str) -> str:
    """The tree by which it is known how a gate ended."""
    return ignore.bare(site.repo, commit)


def explained(site: Site, gate: Gate, ended: Result) -> Result:
    """A red end, where it names something that its room does not have: the person has not committed
    it, or git ignores it and it came since the run began.
    """
    if not (ended.red and site.rooms.held and gate.room):
        return ended
    own = site.rooms
    mine = preflight.uncommitted(site.repo) if own.mounted else []
    named = [p for p in (*mine, *own.made(), *own.proof.new()) if _stem(p) in ended.output]
    if named := named or own.proof.differing:
        told = f"it may need {some(named)}, {LACKING}"
    elif absent := own.proof.absent:
        told = f"its room has no place for {some(absent)} (kern help settings)"
    else:
        return ended
    site.warn(f"{ended.name}: {told}")
    return replace(ended, output=f"{ended.output.rstrip()}\nerror: {told}")


def _stem(path: str) -> str:
    """As an import has it."""
    name = path.rstrip("/").rpartition("/")[2]
    return name.lstrip(".").partition(".")[0]


def state(site: Site, head: Head, probes: Sequence[Probe]) -> list[str]:
    """What the project's probes say, in order; one that fails says that."""
    found = []
    for probe in probes:
        site.sink(ProbeStarted(probe.label, probe.command))
        tree = site.repo.tree(head.commit)
        with watched.watched(site, head, None, "a probe", back=tree):
            ended = site.gates.look(probe, exact=tree)
        if ended.red:
            last = result.telling(ended.output, result.TELLING)
            said = f": {last}" if last else ""
            site.warn(f"{probe.label} failed ({ended.how}){said}; the stage is told so")
        found.append(result.state(ended, probe.command))
    return found
