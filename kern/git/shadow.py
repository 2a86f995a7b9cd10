"""A git folder to be thrown away, seen in the place of the person's: agents and hooks may add,
commit, stash and branch in it, and none of that is ever the person's.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from kern import obeyed as agents
from kern.git.repository import Entry, Head, Repo
from kern.system import process

BORROWED = "borrowed"  # in it: the person's objects, read-only
SHARED = ("hooks", "info", "modules")  # of the person's, read-only
_OBEYED = ("hooks", "info", "commondir", "config.worktree")
_COPIED = ("config", "config.worktree", "shallow")
_QUIET = b"\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[core]\n\tfsmonitor = false\n"
_OWN = b" refs/kern/"


def lay(repo: Repo, folder: Path, head: Head, index: Path, at: Path | None = None) -> None:
    """Anew: on the branch `head`, or where a worker's work lands, with that index. The person's
    refs but kern's own are in it.
    `at`: where it is mounted; else what it shares is there by links.
    """
    head = replace(head, branch=os.environ.get(process.ONTO) or head.branch)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "refs/heads").mkdir(parents=True)
    for name in _COPIED:
        if (place := repo.common_dir / name).is_file():
            shutil.copyfile(place, folder / name)
            (folder / name).chmod(0o600)  # an address in it may hold a password
    with (folder / "config").open("ab") as config:
        config.write(_QUIET)
    if at:
        for name in (*SHARED, BORROWED, "kern/scratch", "objects/info"):
            (folder / name).mkdir(parents=True)
        (folder / "objects/info/alternates").write_text(f"{at / BORROWED}\n")
    else:
        for name in (*SHARED, "objects", "lfs"):
            there = repo.common_dir / name
            (folder / name).symlink_to(os.path.relpath(there, folder))  # wherever a view has both
    (folder / "packed-refs").write_bytes(_refs(repo, head))
    where = f"ref: refs/heads/{head.branch}" if head.branch else head.commit
    (folder / "HEAD").write_bytes(os.fsencode(f"{where}\n"))
    shutil.copy2(index, folder / "index")


@contextlib.contextmanager
def unmade(repo: Repo, warn: Callable[[str], None]) -> Iterator[None]:
    """What git obeys and the person's git folder has not, it has not afterwards either."""
    places = [folder / name for folder in {repo.common_dir, repo.git_dir} for name in _OBEYED]
    missing = [place for place in places if not os.path.lexists(place)]
    try:
        yield
    finally:
        for place in filter(os.path.lexists, missing):
            repo.aside.mkdir(parents=True, exist_ok=True)
            kept = shutil.move(place, tempfile.mkdtemp(prefix="hook-", dir=repo.aside))
            warn(f"{place} came up while a hook ran, and git would obey it: it is now {kept}")


@lru_cache(1)
def _refs(repo: Repo, head: Head) -> bytes:
    """The person's, with the branch at `head`. Those that they make while it stands still no child
    needs.
    """
    rows = repo.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines(keepends=True)
    branch = os.fsencode(f" refs/heads/{head.branch}\n")
    own = [os.fsencode(head.commit) + branch] if head.branch else []
    return b"".join((*own, *(row for row in rows if _OWN not in row and not row.endswith(branch))))


def shared(repo: Repo, at: Path) -> Iterator[tuple[Path, Path]]:
    """What of the person's is seen in it `at` its place: where there, and what lies in it."""
    yield at / BORROWED, repo.common_dir / "objects"
    yield repo.scratch, repo.scratch  # what kern tells agents by files
    for name in SHARED:
        if (repo.common_dir / name).is_dir():
            yield at / name, repo.common_dir / name


def staged(repo: Repo, folder: Path, tree: str) -> set[str]:
    """The paths that a child has staged since its index held the tree. The index is read by a git
    that obeys nothing in the folder, which a child could write.
    """
    there = {
        "GIT_INDEX_FILE": str(folder / "index"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(folder / "objects"),
    }
    rows = repo.paths(
        "diff-index", "--cached", "-z", "--no-renames", "--name-only", tree, env=there
    )
    return {*rows}


def read(folder: Path, name: str) -> bytes | None:
    """One of its files; None for a link that a child has put there."""
    place = folder / name
    return place.read_bytes() if place.is_file() and not place.is_symlink() else None


# ---------------------------------------------------------------- what is obeyed unasked


PROMPTS = ".kern/prompts"  # kern's own: no task can change them
_HOOK = re.compile(
    r"(update|(pre|post|prepare|commit|applypatch|proc|reference|push-to|sendemail|fsmonitor)-[a-z-]+)"
    r"(\.(?!sample$).*)?"
)


def hooks_in_tree(repo: Repo) -> Path | None:
    """The folder of the tree where git looks for hooks; None where it looks elsewhere, in its own
    folder as a rule.
    """
    folder = Path(os.path.normpath(repo.hooks_folder()))
    if not folder.is_relative_to(repo.root) or folder.is_relative_to(repo.common_dir):
        return None
    return folder


def obeyed(repo: Repo, change: Mapping[str, Entry | None]) -> list[str]:
    """Of a task's change what git or an agent will run by itself: reviewed, one hopes, before."""
    hooks = hooks_in_tree(repo)
    folder = os.path.relpath(hooks, repo.root) if hooks else "/"
    above = {folder, os.path.dirname(folder)} if folder.endswith("/_") else {folder}  # husky's
    return sorted(
        path
        for path, entry in change.items()
        if entry
        and (
            path in (*agents.SETTINGS, agents.HOME)
            or path.split("/", 1)[0] in agents.FOLDERS
            or ((os.path.dirname(path) or ".") in above and _HOOK.fullmatch(os.path.basename(path)))
        )
    )
