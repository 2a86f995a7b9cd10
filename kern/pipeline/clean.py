"""At the end of a run: an end to what finished tasks left, once it is 30 days old."""

import os
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from kern import plain
from kern.git import refs
from kern.git.refs import slug
from kern.git.repository import Repo
from kern.model import SPEC, Marker
from kern.spec import parse as spec
from kern.spec.file import Documents
from kern.spec.parse import Spec
from kern.system import workspace

AGE_S = 30 * 86400.0
_KEPT = re.compile(r"\bkern/attempts/([^/\s)]+)/")


def old(found: Repo, history: Path) -> None:
    """Under the lock. Records, saved attempts and what was moved aside; what is kept of a task that
    is open in some SPEC.md stays.
    """
    before = time.time() - AGE_S
    gone = [ref for ref, when in refs.kept(found) if when < before]
    aside = _folders_before(before, found.aside)
    if gone or aside:
        needed = _needed(found)
        for ref in gone:
            if ref.split("/")[3] not in needed:
                refs.delete(found, ref)
        aside = [place for place in aside if place.name.rpartition("-")[0] not in needed]
    for place in (*_folders_before(before, history), *aside):
        with workspace.reported(place):
            shutil.rmtree(place)


def _folders_before(before: float, folder: Path) -> list[Path]:
    """The folders in it that are older than `before` (epoch seconds)."""
    with workspace.reported(folder):
        there = list(os.scandir(folder)) if folder.is_dir() else []
        folders = [entry for entry in there if entry.is_dir(follow_symlinks=False)]
        return [Path(entry.path) for entry in folders if entry.stat().st_mtime < before]


def _needed(found: Repo) -> set[str]:
    """The names under which work is kept of a task that is open in some SPEC.md: here, in another
    working tree, on a local branch.
    """
    listed = found.git("worktree", "list", "--porcelain", "-z").split(b"\0")
    roots = [os.fsdecode(line[9:]) for line in listed if line.startswith(b"worktree ")]
    places = {found.root, *(Path(root).resolve() for root in roots)}
    texts = {Documents(root).read(SPEC) or "" for root in places}
    asked = found.text("for-each-ref", f"--format=%(refname):{SPEC}", "refs/heads")
    told = found.text("cat-file", "--batch-check", given=plain.encode(f"{asked}\n"))
    shas = {line.split(" ")[0] for line in told.splitlines() if " blob " in line}
    texts |= {plain.decode(found.data(blob)) for blob in shas}
    return {name for text in texts for name in _names(spec.parse(text))}


def _names(parsed: Spec) -> Iterable[str]:
    """Of the open tasks: their own, and those that their notes name, from before a task was worded
    anew.
    """
    for task in parsed.tasks:
        if task.marker is not Marker.DONE:
            yield slug(task.key)
            for note in task.notes:
                yield from _KEPT.findall(note.text)
