"""What is red in the sandbox, tried once outside of it, which tells whether the sandbox is why."""

from collections.abc import Sequence
from dataclasses import replace

from kern.config import Gate
from kern.errors import UsageError
from kern.events import GateStarted, Warned
from kern.git.refs import StartRef
from kern.git.repository import Head
from kern.model import Result
from kern.pipeline import baseline, exact, hooks, limits, trust
from kern.pipeline.hooks import Checked
from kern.pipeline.options import Leave
from kern.pipeline.site import Site
from kern.pipeline.trust import Started
from kern.sandbox.confine import unheld
from kern.system import workspace

_WHY = "to tell whether the sandbox is why, kern runs once outside of it what is red in it"


def compared(
    site: Site, wanted: Sequence[Gate], results: Sequence[Result], leave: Leave, *, hooked: bool
) -> list[str]:
    """A line for each gate and hook that is red in the sandbox. `hooked`: git's hooks are tried, on
    a commit of nothing.
    """
    if site.caller.hold is unheld:
        return []
    head, start = baseline.standing(site)
    red = {one.name: one for one in results if one.red and exact.IN_TREE not in one.output}
    again = [gate for gate in wanted if gate.label in red]
    try:
        tried = _hooks(site, head, start) if hooked and _is_clean(site, head) else Checked("")
        if not (again or tried.refused):
            return []
        if not _agreed(site, again, tried, leave):
            shut = [f"{_hook(tried)}: {one}" for one in tried.closed]
            return [*shut, "not tried outside of the sandbox: kern trust, then kern check"]
        told = [
            _told(gate.label, red[gate.label].closed, red=_gate(site, gate, head, start).red)
            for gate in again
        ]
        if tried.refused and not _hooks(site, head, start, held=False).refused:
            told.append(_told(_hook(tried), tried.closed, red=False))
        return told
    finally:
        limits.back_to(site, start, f"{start.attempt}-outside", "gates and hooks")


def _told(name: str, closed: Sequence[str], *, red: bool) -> str:
    """`closed`: what is known of it; `red`: outside of the sandbox."""
    if red:
        return f"{name} is red outside of the sandbox too"
    why = "; ".join(closed) or "something is closed to it (kern help safety)"
    return f"{name} is green outside of the sandbox: {why}"


def _hook(tried: Checked) -> str:
    return f"the {tried.refused} hook"


def _agreed(site: Site, again: Sequence[Gate], tried: Checked, leave: Leave) -> bool:
    """By the usual question, of what the person was not asked about while a sandbox held it."""
    if leave.trusted:
        return True

    def ask(lines: Sequence[str], first: bool) -> bool:
        site.sink(Warned(_WHY))
        return leave.ask(lines, first)

    theirs = trust.of_hooks(site.repo).project if tried.refused else ()
    lines = Started((*trust.of_gates(again).project, *theirs))
    try:
        trust.settle(site.repo, lines, ask, lambda: False)
    except UsageError:
        return False
    return True


def _gate(site: Site, gate: Gate, head: Head, start: StartRef) -> Result:
    site.caller.heed()
    site.sink(GateStarted(f"{gate.label} outside", gate.command, before=True))
    with limits.contained(site, gate.label, head, start):
        return site.gates.outside(gate)


def _is_clean(site: Site, head: Head) -> bool:
    """A hook may stash what is not committed: that is not risked for a trial."""
    changed = site.witness.uncommitted(head.commit, site.snapshots.take())
    return not any(site.repo.entry(head.commit, path) for path in changed)


def _hooks(site: Site, head: Head, start: StartRef, *, held: bool = True) -> Checked:
    """What they say of a commit of nothing with the last one's message."""
    site.caller.heed()
    if not held:
        site = replace(site, caller=replace(site.caller, hold=unheld))
    place = site.repo.git_dir / "COMMIT_EDITMSG"
    before = workspace.read(place)
    message = site.repo.text("show", "--no-patch", "--format=%B", head.commit)
    try:
        with limits.contained(site, "a commit hook", head, start):
            return hooks.run(site, hooks.with_documents(site, head.commit), message)
    finally:
        if before is not None:
            workspace.replace(place, before, mode=0o644)
