"""What is red in the sandbox, tried once outside of it, which tells whether the sandbox is why."""

from collections.abc import Sequence
from dataclasses import replace

from kern.config import Gate
from kern.errors import UsageError
from kern.events import GateStarted, Warned
from kern.model import Result
from kern.pipeline import preflight, project, trial, trust
from kern.pipeline.project import Checked
from kern.pipeline.rooms import Rooms
from kern.pipeline.site import Leave, Site, in_rooms
from kern.pipeline.trust import Started
from kern.sandbox.confine import unheld

_WHY = "to tell whether the sandbox is why, kern runs once outside of it what is red in it"


def compared(
    site: Site, wanted: Sequence[Gate], results: Sequence[Result], leave: Leave, *, hooked: bool
) -> list[str]:
    """A line for each gate and hook that is red in the sandbox. `hooked`: git's hooks are tried, on
    a commit of nothing.
    """
    if site.caller.hold is unheld:
        return []
    red = {one.name: one for one in results if one.red and project.LACKING not in one.output}
    again = [gate for gate in wanted if gate.label in red]
    # A hook may stash what is not committed: that is not risked for a trial.
    hooked = hooked and site.rooms.held and not preflight.uncommitted(site.repo)
    tried = _hooks(site) if hooked else Checked("")
    if not (again or tried.refused):
        return []
    hook = f"the {tried.refused} hook"
    if not (leave.trusted or _agreed(site, again, tried, leave)):
        shut = [f"{hook}: {one}" for one in tried.closed]
        return [*shut, "not tried outside of the sandbox: kern check --trust"]
    with trial.unchanged(site.repo, site.sink):
        told = [_told(one.label, red[one.label].closed, red=_gate(site, one).red) for one in again]
    if tried.refused:
        caller, runner = replace(site.caller, hold=unheld), replace(site.gates, hold=unheld)
        free = replace(site, caller=caller, gates=runner)
        free = in_rooms(free, Rooms(site.repo, held=False, mounted=False))
        if not _hooks(free).refused:  # else it refuses a commit of nothing, as some do
            told.append(_told(hook, tried.closed, red=False))
    return told


def _told(name: str, closed: Sequence[str], *, red: bool) -> str:
    """`closed`: what is known of it; `red`: outside of the sandbox."""
    if red:
        return f"{name} is red outside of the sandbox too"
    why = "; ".join(closed) or "something is closed to it (kern help safety)"
    return f"{name} is green outside of the sandbox: {why}"


def _agreed(site: Site, again: Sequence[Gate], tried: Checked, leave: Leave) -> bool:
    """By the usual question, of what the person was not asked about while a sandbox held it."""
    hooked = trust.of_hooks(site.repo) if tried.refused else ()
    try:
        site.sink(Warned(_WHY))
        lines = Started((*trust.of_gates(again), *hooked))
        trust.settle(site.repo, lines, leave.ask, lambda: False)
    except UsageError:
        return False
    return True


def _gate(site: Site, gate: Gate) -> Result:
    site.caller.heed()
    site.sink(GateStarted(gate.label, gate.command, before=True))
    return site.gates.outside(gate)


def _hooks(site: Site) -> Checked:
    """What they say of a commit of nothing with the last one's message."""
    site.caller.heed()
    head = site.repo.head()
    message = site.repo.text("show", "--no-patch", "--format=%B", head.commit)
    return project.run_hooks(site, site.repo.tree(head.commit), message)
