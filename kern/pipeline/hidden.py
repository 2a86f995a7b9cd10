"""The person's hidden gate. It runs where exactly lies what is to be committed, with a folder of
theirs laid over it; of all that no agent learns more than that it is red.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kern import events, person
from kern.config import Gate
from kern.errors import UsageError
from kern.model import Result
from kern.pipeline import preflight
from kern.pipeline.site import Site
from kern.sandbox import closed
from kern.sandbox.confine import Sandbox
from kern.sandbox.means import Overlays
from kern.sandbox.wall import Kind


def gate(site: Site) -> Gate | None:
    """Raises UsageError where an agent could see it: it names no path, which the journal keeps."""
    setting, sandbox = site.caller.settings.hidden, site.sandbox
    if setting is None:
        return None
    folder, own = Path(setting.hidden or "").expanduser(), preflight.person_file()
    if not (site.rooms.held and sandbox and sandbox.overlays is not Overlays.NONE):
        why, hint = "it needs bubblewrap and overlays", "kern doctor; or take [hidden] out"
    elif not folder.is_dir():
        why, hint = "its folder is not there", "make it, or correct the path"
    elif _is_seen(sandbox, folder if setting.hidden else own, own):
        why, hint = "agents see its folder, or your settings", "keep both where no agent reads"
    else:
        return setting
    raise UsageError(f"the hidden gate cannot be: {why}", hint=f"{hint}: {person.FILE}")


def _is_seen(sandbox: Sandbox, *paths: Path) -> bool:
    agent = sandbox.confine(Kind.WORKER, (), os.environ)
    seen = closed.access(agent, *(Path(os.path.realpath(path)) for path in paths))
    return any(seen or paths)  # nothing: it could not be asked


def look(site: Site) -> None:
    """Before the first task. Raises UsageError where it cannot run."""
    for end in run(site, site.repo.tree(site.repo.head().commit), before=True):
        if end.cannot_run:
            hint = f"kern check shows why; it is yours: {person.FILE}"
            raise UsageError(f"{end.name} cannot run ({end.how})", hint=hint)
        if end.red:
            site.warn(f"{end.name} is red before any task: each must turn it green")


def run(site: Site, tree: str, *, before: bool = False, open_end: bool = False) -> Iterator[Result]:
    """Its end on that tree, where there is one. `open_end`: with what it printed, to a person."""
    if not (setting := gate(site)):
        return
    site.caller.check_requests()
    site.sink(events.gate_started(setting.label, "", before=before))
    try:
        end = site.gates.run(setting, tree)
    finally:
        site.rooms.room.fill(tree)
        (site.scope.folder / "gate-hidden.log").unlink(missing_ok=True)
    end = replace(end, log="") if open_end else replace(end, output="", log="", closed=())
    site.sink(events.gate_ended(end, before=before))
    yield end
