"""A change is judged twice where it touches what it is measured by: its gates also run on it with
the tests as they were before the task.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kern.checks import measures, result
from kern.checks.measures import Weight
from kern.config import Gate
from kern.events import GateEnded
from kern.git.repository import Entry, Repo
from kern.model import Result
from kern.pipeline import project
from kern.pipeline.site import Site
from kern.plain import some

MANY = 20  # files: a change of more is named
_AS_BEFORE = "with the tests as they were"


def before(
    repo: Repo, gates: Iterable[Gate], keep: Sequence[str], old: str, new: str
) -> tuple[str, list[str]]:
    """The new tree with what measures it as in the old one, and which of that it touches; where
    that is nothing, as it is.
    """
    change, back, touched = repo.changed(old, new), dict[str, Entry | None](), list[str]()
    paths = {path for gate in gates for path in result.named(gate.command, change)}
    for path, (was, now) in change.items():
        counts = measures.weight(path, keep, paths)
        if counts and (was or path not in paths):
            back[path] = was
            touched += [path] * bool(was or counts is Weight.NEW)
        elif was and now and not (was.is_submodule or now.is_submodule):
            part = measures.part(path, repo.data(was.blob), repo.data(now.blob))
            if part is not None:
                back[path] = replace(now, blob=repo.blob(part))
                touched.append(path)
    return (repo.tree_with(new, back), touched) if touched else (new, [])


def doubt(
    site: Site, gates: Sequence[Gate], ends: Sequence[Result], old: str, new: str
) -> tuple[str, Result | None]:
    """Which gates are green only with the change's own tests, in words, and how the first of them
    ended on those before; empty where none is.
    """
    tree, touched = before(site.repo, gates, project.settings(site).keep, old, new)
    red = list[Result]()
    for gate, end in zip(gates, ends, strict=False) if touched else ():
        if not end.red:
            unchanged_gate = replace(gate, name=f"{gate.name} {_AS_BEFORE}" if gate.name else "")
            again = project.run_gate(site, unchanged_gate, tree, red_before=False)
            site.sink(GateEnded(replace(again, name=f"{gate.label} {_AS_BEFORE}")))
            red += [replace(again, name=gate.label)] * again.red
    if touched:
        site.rooms.put_back(new)
    if not red:
        return "", None
    names = some([one.name for one in red])
    return f"{names}: green only with its own changes of {some(sorted(touched))}", red[0]
