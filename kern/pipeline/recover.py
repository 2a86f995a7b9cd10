"""What earlier runs have left: at the beginning what a killed one began, at the end what finished
tasks of a month ago still hold.
"""

import json
import shutil
import time
from pathlib import Path

from kern import plain
from kern.events import StageStarted
from kern.git import refs
from kern.journal import store
from kern.model import Marker
from kern.models import ROLES
from kern.pipeline import landing
from kern.pipeline.site import Site
from kern.system import process, workspace
from kern.system.lock import Holder

AGE_S = 30 * 86400.0


def tidy(site: Site, killed: Holder | None) -> None:
    """What a killed run has begun, and no look at the facts would finish; what a reboot took.
    `killed`: that run.
    """
    workspace.restore(site.scope)
    # An agent that outlived a killed kern would go on editing.
    if ended := process.sweep(("KERN_ROOT", str(site.repo.root))):
        site.warn(f"ended {plain.count(ended, 'process')} that an earlier run left behind")
    if killed:
        _count(site, killed.run)
    landing.follow(site.repo, site.papers)


def _count(site: Site, run: str) -> None:
    """The call in which that run was killed cost something, and its journal says nothing of it."""
    found = store.tail(store.place(site.repo.common_dir), having=json.dumps(run).encode())
    last = next((one for one in found[::-1] if one["kind"] == "stage" and one["run"] == run), {})
    role = next((role for role in ROLES if role == last.get("stage")), None)
    if role and last.get("did") == "start":
        task, model, agent = (str(last.get(name)) for name in ("task", "model", "agent"))
        attempt = int(last.get("attempt") or 1)
        site.caller.cut_off(StageStarted(role, task, model, attempt, agent=agent))


def drop_old(site: Site) -> None:
    """Records of a month ago; and of tasks that are done the saved attempts and what was moved
    aside.
    """
    _, parsed = site.papers.spec()
    before = time.time() - AGE_S
    done = {refs.slug(task.key) for task in parsed.tasks if task.marker is Marker.DONE}
    for ref, when in refs.kept(site.repo):
        if when < before and ref.split("/")[3] in done:
            refs.delete(site.repo, ref)
    places = [*_folders(site.scope.folder / "history")]
    places += (one for one in _folders(site.repo.aside) if one.name.rpartition("-")[0] in done)
    for place in places:
        with workspace.reported(place):
            if place.lstat().st_mtime < before:
                shutil.rmtree(place)


def _folders(above: Path) -> list[Path]:
    there = above.iterdir() if above.is_dir() else ()
    return [place for place in there if place.is_dir() and not place.is_symlink()]
