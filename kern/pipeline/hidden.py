"""The person's hidden gate. It runs where exactly lies what is to be committed, with a folder of
theirs laid over it; of all that no agent learns more than that it is red.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kern import person
from kern.config import Gate
from kern.errors import UsageError
from kern.events import GateEnded, GateStarted
from kern.model import Result
from kern.pipeline import preflight
from kern.pipeline.site import Site
from kern.sandbox import wall


def gate(site: Site) -> Gate | None:
    """Raises UsageError where an agent could see it: it names no path, which the journal keeps."""
    found = site.caller.settings.hidden
    if found is None:
        return None
    folder, held = _folder(found), site.sandbox
    if not (site.rooms.held and held):
        why, hint = "without bubblewrap agents could read it", "install it, or take [hidden] out"
    elif any(held.sees(one) for one in (folder, preflight.person_file()) if one.is_absolute()):
        why, hint = "agents see its folder, or your settings", "keep both where no agent reads"
    elif found.hidden and not folder.is_dir():
        why, hint = "its folder is not there", "make it, or correct the path"
    else:
        return found
    raise UsageError(f"the hidden gate cannot be: {why}", hint=f"{hint}: {person.FILE}")


def look(site: Site) -> None:
    """Before the first task. Raises UsageError where it cannot run."""
    for ended in run(site, site.repo.tree(site.repo.head().commit), before=True):
        if ended.cannot_run:
            hint = f"kern check shows why; it is yours: {person.FILE}"
            raise UsageError(f"{ended.name} cannot run ({ended.how})", hint=hint)
        if ended.red:
            site.warn(f"{ended.name} is red before any task: each must turn it green")


def run(site: Site, tree: str, *, before: bool = False, shown: bool = False) -> Iterator[Result]:
    """Its end on that tree, where there is one. `shown`: with what it printed, to a person."""
    if not (found := gate(site)):
        return

    def furnish(exact: str, mounted: bool) -> wall.Room | None:
        room = site.rooms.for_proof(exact, site.repo.head())
        if found.hidden:
            site.rooms.room.lay(_folder(found))
        return room

    site.caller.heed()
    site.sink(GateStarted(found.label, "", before=before))
    try:
        ended = replace(site.gates, furnish=furnish).run(found, tree, exact=tree)
    finally:
        site.rooms.room.fill(tree)
        (site.scope.folder / "gate-hidden.log").unlink(missing_ok=True)
    ended = replace(ended, log="") if shown else replace(ended, output="", log="", closed=())
    site.sink(GateEnded(ended, before=before))
    yield ended


def _folder(found: Gate) -> Path:
    return Path(os.path.realpath(os.path.expanduser(found.hidden))) if found.hidden else Path()
