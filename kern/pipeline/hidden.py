"""The person's hidden gate. It runs where exactly lies what is to be committed, with a folder of
theirs laid over it; of all that no agent learns more than that it is red.
"""

import os
import shutil
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
from kern.system import workspace


def gate(site: Site) -> Gate | None:
    """Raises UsageError where an agent could see it: it names no path, which the journal keeps."""
    setting = site.caller.settings.hidden
    if setting is None:
        return None
    folder, sandbox = _folder(setting), site.sandbox
    if not (site.rooms.held and sandbox):
        why, hint = "without bubblewrap agents could read it", "install it, or take [hidden] out"
    elif any(sandbox.sees(one) for one in (folder, preflight.person_file()) if one.is_absolute()):
        why, hint = "agents see its folder, or your settings", "keep both where no agent reads"
    elif setting.hidden and not folder.is_dir():
        why, hint = "its folder is not there", "make it, or correct the path"
    else:
        return setting
    raise UsageError(f"the hidden gate cannot be: {why}", hint=f"{hint}: {person.FILE}")


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

    def furnish(exact: str, mounted: bool) -> wall.Room | None:
        room = site.rooms.for_proof(exact, site.repo.head())
        if setting.hidden:
            lay(_folder(setting), site.rooms.room.tree)
        return room

    site.caller.check_requests()
    site.sink(GateStarted(setting.label, "", before=before))
    try:
        end = replace(site.gates, furnish=furnish).run(setting, tree)
    finally:
        site.rooms.room.fill(tree)
        (site.scope.folder / "gate-hidden.log").unlink(missing_ok=True)
    end = replace(end, log="") if open_end else replace(end, output="", log="", closed=())
    site.sink(GateEnded(end, before=before))
    yield end


def _folder(setting: Gate) -> Path:
    return Path(os.path.realpath(os.path.expanduser(setting.hidden))) if setting.hidden else Path()


def lay(folder: Path, tree: Path) -> None:
    """The folder's files over those of a room, until it is filled again. No link leads them out."""
    for above, _, names in os.walk(folder):
        place = tree / Path(above).relative_to(folder)
        if place.is_symlink() or place.is_file():
            place.unlink()
        place.mkdir(exist_ok=True)
        for name in names:
            if (target := place / name).is_dir() and not target.is_symlink():
                workspace.remove(target)
            target.unlink(missing_ok=True)
            shutil.copy(Path(above, name), target)
