"""Gates and hooks tried before there is any task: on all that lies in the tree, and a gate that is
red in the sandbox once outside of it, which tells whether the sandbox is why.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence

from kern import plain
from kern.config import Gate
from kern.errors import UsageError
from kern.events import GateStarted, Sink, Warned
from kern.git.in_place import restore_index, visible
from kern.git.repository import Repo
from kern.model import Result
from kern.pipeline import project, trust
from kern.pipeline.site import Leave, Site
from kern.pipeline.trust import Started
from kern.sandbox.confine import unheld
from kern.system import workspace

_WHY = "to tell whether the sandbox is why, kern runs once outside of it what is red in it"


@contextlib.contextmanager
def unchanged(repo: Repo, sink: Sink) -> Iterator[None]:
    """Files that git sees, and what is staged, are again as they were; what is new stays, and is
    named.
    """
    before, head, staged = visible(repo), repo.head(), workspace.read(repo.git_dir / "index")
    try:
        yield
    finally:
        rows = repo.changed(before, visible(repo)).items()
        if changed := sorted(path for path, (was, _) in rows if was):
            with repo.private_index() as env:
                repo.git("read-tree", before, env=env)
                names = os.fsencode("\0".join(changed))
                repo.git("checkout-index", "--force", "-z", "--stdin", stdin=names, env=env)
            sink(Warned(f"restored, since a check changed it: {plain.some(changed)}"))
        if new := sorted(path for path, (was, _) in rows if not was):
            advice = "add to .gitignore what should not be committed"
            sink(Warned(f"the checks left {plain.some(new)}: {advice}"))
        if staged and repo.head() == head:  # else a check has committed, which stays
            restore_index(repo, staged)


def compared(
    site: Site, gates: Sequence[Gate], results: Sequence[Result], leave: Leave, *, hooked: bool
) -> list[str]:
    """A line for each gate that is red in the sandbox, and for a hook to which that is closed.
    `hooked`: git's hooks are tried, on a commit of nothing.
    """
    if site.caller.hold is unheld:
        return []
    lines = _tried_hooks(site) if hooked and site.rooms.mounted else []
    red = {one.name: one for one in results if one.red and project.LACKING not in one.output}
    again = [gate for gate in gates if gate.label in red]
    if not again:
        return lines
    if not (leave.trusted or _agreed(site, again, leave)):
        return [*lines, "not tried outside of the sandbox: kern check --trust"]
    with unchanged(site.repo, site.sink):
        return [*lines, *(_compared(site, gate, red[gate.label]) for gate in again)]


def _tried_hooks(site: Site) -> list[str]:
    """With the last commit's message."""
    site.caller.check_requests()
    head = site.repo.head()
    message = site.repo.text("show", "--no-patch", "--format=%B", head.commit)
    ended = project.run_hooks(site, site.repo.tree(head.commit), message)
    return [f"the {ended.refused} hook: {one}" for one in ended.closed]


def _agreed(site: Site, again: Sequence[Gate], leave: Leave) -> bool:
    """By the usual question, of what the person was not asked about while a sandbox held it."""
    try:
        site.sink(Warned(_WHY))
        trust.settle(site.repo, Started(tuple(trust.of_gates(again))), leave.ask, lambda: False)
    except UsageError:
        return False
    return True


def _compared(site: Site, gate: Gate, inside: Result) -> str:
    site.caller.check_requests()
    site.sink(GateStarted(gate.label, gate.command, before=True))
    if site.gates.outside(gate).red:
        return f"{gate.label} is red outside of the sandbox too"
    why = "; ".join(inside.closed) or "something is closed to it (kern help safety)"
    return f"{gate.label} is green outside of the sandbox: {why}"
