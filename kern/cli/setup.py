"""`kern path`, `clean`: where the run files are, and an end to the old ones."""

import os
import re
import shutil
import sys
import time
from pathlib import Path

from kern import plain
from kern.errors import UsageError
from kern.git import refs, repository
from kern.git.refs import slug
from kern.git.repository import Repo
from kern.model import SPEC, Marker
from kern.spec import parse as spec
from kern.spec.file import Documents
from kern.spec.parse import Spec
from kern.system import lock, workspace


def path(folder: Path) -> None:
    """Where the run files of this branch lie: as it is for a program, harmless on a terminal."""
    found = repository.open_at(folder)
    place = str(workspace.scope(found.root, found.head().name, create=False).folder)
    print(plain.visible(place) if sys.stdout.isatty() else place)


def clean(folder: Path, older: str, *, everything: bool, dry: bool) -> None:
    """History, saved attempts and what was moved aside, older than, say, `30d` or `12h`; what is
    kept of open tasks only where `everything` is to go. `dry`: only say it.
    """
    age = plain.seconds(older, "d")
    if age is None:
        raise UsageError(
            f"--older is an age such as 30d or 12h: {plain.line(older, 40)!r} is not",
            hint="kern clean --older 30d",
        )
    before = time.time() - age
    found = repository.open_at(folder)
    scope = workspace.scope(found.root, found.head().name)
    with lock.hold(scope, found.git_dir):
        walks = folders_before(before, scope.folder / "history")
        kept = refs.kept(found)
        old = [ref for ref, when in kept if when < before]
        broken = {ref for ref, when in kept if not when}  # of no use to anybody
        aside = folders_before(before, found.aside)
        needed = set[str]() if everything or not (old or aside) else _needed(found)
        stay = [ref for ref in old if ref.split("/")[3] in needed and ref not in broken]
        lie = [place for place in aside if _task(place.name) in needed]
        lost = sorted(set(old) - set(stay))
        folders = [*walks, *sorted(set(aside) - set(lie))]
        if not dry:
            for ref in lost:
                refs.delete(found, ref)
            found.run("gc", "--quiet")  # by the person's own rules
            for place in folders:
                with workspace.reported(place):
                    shutil.rmtree(place)
    for name in (*(ref.removeprefix("refs/") for ref in lost), *map(str, folders)) if dry else ():
        print(plain.line(name))
    verb = "would delete" if dry else "deleted"
    gone = _counted(len(lost), len(aside) - len(lie))
    print(f"{verb} {plain.count(len(walks), 'task record')} and {gone}")
    if stay or lie:
        slugs = {ref.split("/")[3] for ref in stay} | {_task(place.name) for place in lie}
        left = f"kept {_counted(len(stay), len(lie))} of {plain.count(len(slugs), 'open task')}"
        print(f"{left}; kern clean --all --older {older} deletes them too")
    if everything and len(kept) > len(old):
        young = plain.count(len(kept) - len(old), "saved attempt")
        print(f"kept {young}, not older than {older}; kern clean --all --older 0d deletes all")


def _task(folder: str) -> str:
    """The slug of the task for which it was set aside."""
    return folder.rpartition("-")[0]


def folders_before(before: float, folder: Path) -> list[Path]:
    """The folders in it that are older than `before` (epoch seconds)."""
    with workspace.reported(folder):
        there = list(os.scandir(folder)) if folder.is_dir() else []
        folders = [entry for entry in there if entry.is_dir(follow_symlinks=False)]
        return [Path(entry.path) for entry in folders if entry.stat().st_mtime < before]


def _counted(attempts: int, aside: int) -> str:
    more = f", and {plain.count(aside, 'folder')} of files set aside" if aside else ""
    return plain.count(attempts, "saved attempt") + more


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
    return {name for text in texts for name in named(spec.parse(text))}


_KEPT = re.compile(r"\bkern/attempts/([^/\s)]+)/")


def named(spec: Spec) -> set[str]:
    """The slugs under which work of open tasks is kept: their own, and those that their notes name,
    from before a task was worded anew.
    """
    still = [task for task in spec.tasks if task.marker is not Marker.DONE]
    noted = (_KEPT.findall(note.text) for task in still for note in task.notes)
    return {slug(task.key) for task in still}.union(*noted)
