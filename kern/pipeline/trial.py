"""Gates and hooks tried before there is any task: on all that lies in the tree, and a gate that is
red in the sandbox once outside of it, which tells whether the sandbox is why.
"""

from collections.abc import Sequence

from kern import events
from kern.config import Gate
from kern.model import Result
from kern.pipeline import project
from kern.pipeline.site import Site
from kern.sandbox.confine import unheld


def compared(
    site: Site, gates: Sequence[Gate], results: Sequence[Result], *, hooked: bool
) -> list[str]:
    """A line for each gate that is red in the sandbox, and for a hook to which that is closed.
    `hooked`: git's hooks are tried, on a commit of nothing.
    """
    if site.caller.hold is unheld:
        return []
    lines = _tried_hooks(site) if hooked and site.rooms.mounted else []
    red = {one.name: one for one in results if one.red and project.LACKING not in one.output}
    again = [gate for gate in gates if gate.label in red]
    if again and not site.options.leave.trusted:
        return [*lines, "not tried outside of the sandbox: kern check --trust"]
    return [*lines, *(_compared(site, gate, red[gate.label]) for gate in again)]


def _tried_hooks(site: Site) -> list[str]:
    """With the last commit's message."""
    site.caller.check_requests()
    head = site.repo.head()
    message = site.repo.text("show", "--no-patch", "--format=%B", head.commit)
    ended = project.run_hooks(site, site.repo.tree(head.commit), message)
    return [f"the {ended.refused} hook: {one}" for one in ended.closed]


def _compared(site: Site, gate: Gate, inside: Result) -> str:
    site.caller.check_requests()
    site.sink(events.gate_started(gate.label, gate.command, before=True))
    if site.gates.beside(gate, held=False).red:
        return f"{gate.label} is red outside of the sandbox too"
    why = "; ".join(inside.closed) or "something is closed to it (kern help safety)"
    return f"{gate.label} is green outside of the sandbox: {why}"
