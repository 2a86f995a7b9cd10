"""The worktrees of a branch's workers, below the output folder: made, used again, removed. Each is
on its work branch; git's own files tell all of it.
"""

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from kern import plain
from kern.errors import KernError
from kern.fleet import work
from kern.frozen import frozen
from kern.git import refs, submodules
from kern.git.repository import Repo
from kern.system import workspace
from kern.system.workspace import Scope

FOLDER = ".fleet"  # below the scope's; no branch has such a name
_UNSAID = "git does not say why"
_NUMBER = re.compile(r"-(\d+)$")


@frozen
class Yard:
    """Where they lie. `repo`: whose worktrees they are, the person's tree or a bare repository."""

    repo: Repo
    folder: Path
    name: str  # of the project
    one: threading.Lock = field(default_factory=threading.Lock)  # git adds them one by one

    def place(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}"

    def log(self, number: int) -> Path:
        """What its kern and its setup print."""
        return self.folder / f"worker-{number}.log"


def yard(repo: Repo, scope: Scope) -> Yard:
    folder = scope.folder / FOLDER
    name = re.sub(r"[^\w.-]", "_", scope.project)[:100]
    # GitPython's processes and git's answering one belong to the thread that lands.
    return Yard(Repo(repo.root, repo.git_dir, repo.common_dir, reading=True), folder, name)


def of(here: Yard, number: int) -> Repo | None:
    """The worktree as a repository; None where it is not there, or no worktree of this one."""
    place = here.place(number)
    try:
        told = (place / ".git").read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    git_dir = Path(told.removeprefix("gitdir: "))
    ours = git_dir.parent == here.repo.common_dir / "worktrees"
    if not ours or not (git_dir / "HEAD").is_file():
        return None
    return Repo(place, git_dir, here.repo.common_dir, reading=True)


def numbers(here: Yard) -> list[int]:
    """Of those whose folders are there."""
    with contextlib.suppress(OSError):
        names = [entry.name for entry in os.scandir(here.folder) if entry.is_dir()]
        found = [(name, _NUMBER.search(name)) for name in names]
        mine = [int(at[1]) for name, at in found if at and name == f"{here.name}-{at[1]}"]
        return sorted(mine)
    return []


def make(here: Yard, number: int, branch: str, base: str) -> Repo:
    """A worktree on a new branch at `base`. One that is there is used again: what git ignores stays
    in it. Raises KernError.
    """
    return _reused(here, number, base, "--no-track", "-B", branch)


def again(here: Yard, number: int, branch: str) -> Repo:
    """The worktree in which the branch's task is in progress, as it is; made anew where its folder
    is gone. Raises KernError.
    """
    there = of(here, number)
    if there and (head := there.plain_head()) and head.branch == branch:
        return there
    return _add(here, number, branch)


def at(here: Yard, number: int, commit: str) -> Repo:
    """A worktree on no branch, with the files of the commit. One that is there goes on to it: what
    git ignores stays. Raises KernError.
    """
    return _reused(here, number, commit, "--detach")


def _reused(here: Yard, number: int, commit: str, *new: str) -> Repo:
    """`new`: what HEAD is to be, as git's checkout and worktree take it."""
    if there := of(here, number):
        moved = not there.run("checkout", "--quiet", "--force", *new, commit)[0]
        if moved and not there.run("clean", "-ffdq")[0]:
            _submodules(here, there)
            return there
    return _add(here, number, commit, *new)


def _add(here: Yard, number: int, commit: str, *new: str) -> Repo:
    place = here.place(number)
    for folder in reversed([here.folder, *_missing(here.folder.parent)]):
        workspace.own_folder(folder)
    argv = ("worktree", "add", "--quiet", "--force", "--force", *new, str(place), commit)
    code, said = _one_by_one(here, argv)
    if code:  # something else lies there, or git still knows of what lay there
        remove(here, number)
        code, said = _one_by_one(here, argv)
    made = of(here, number)
    if code or made is None:
        raise KernError(
            f"git makes no worktree at {place}: {plain.last(said) or _UNSAID}",
            hint="fix it, then run kern again: what was begun is resumed",
        )
    _submodules(here, made)
    return made


def _one_by_one(here: Yard, argv: Sequence[str]) -> tuple[int, str]:
    with here.one:
        code, _, said = here.repo.run(*argv)
    return code, said


def _missing(folder: Path) -> list[Path]:
    return [] if folder.exists() else [folder, *_missing(folder.parent)]


def _submodules(here: Yard, made: Repo) -> None:
    """As git does: from where .gitmodules says, each at its commit. One that nobody has pushed is
    in the person's own.
    """
    if not (made.root / ".gitmodules").exists():
        return
    submodules.lent(made, here.repo)
    while True:
        code, _, said = made.run("submodule", "update", "--init", "--recursive", "--quiet")
        if not code:
            return
        if not submodules.lent(made, here.repo):
            why = plain.last(said) or _UNSAID
            raise KernError(f"git cannot check out the submodules of a worktree: {why}")


def remove(here: Yard, number: int) -> None:
    """With what kern and git remember of it; the branch stays."""
    place = here.place(number)
    argv = ("worktree", "remove", "--force", "--force", str(place))
    with here.one:
        if here.repo.run(*argv)[0]:
            shutil.rmtree(place, ignore_errors=True)
            here.repo.run(*argv)  # of one that is not there git forgets the rest


def keep_runs(here: Yard, number: int, branch: str, onto: Scope) -> None:
    """What a worker's kern wrote down of its task goes to what is known of the branch's tasks."""
    root = here.place(number)
    with contextlib.suppress(OSError):
        there = workspace.scope(root, branch, create=False).folder / "history"
        target = onto.folder / "history"
        for entry in sorted(there.iterdir()):
            target.mkdir(mode=0o700, exist_ok=True)
            if not (target / entry.name).exists():
                os.replace(entry, target / entry.name)


def close(here: Yard, *, keep: bool) -> None:
    """Nothing is left of the folder, unless something went wrong there, and git knows of none that
    somebody deleted.
    """
    for place in _lost(here):
        here.repo.run("worktree", "remove", "--force", "--force", str(place))
    if keep:
        return
    shutil.rmtree(here.folder, ignore_errors=True)


def _lost(here: Yard) -> list[Path]:
    """Those of kern's that git still knows. `git worktree prune` would forget the person's own as
    well, on a disk that is not there just now.
    """
    found = []
    for file in (here.repo.common_dir / "worktrees").glob("*/gitdir"):
        with contextlib.suppress(OSError):
            place = Path(file.read_text("utf-8", "surrogateescape").strip()).parent
            if place.parent == here.folder.resolve() and not place.exists():
                found.append(place)
    return found


def forget_runs(base: Path, root: Path) -> None:
    """The run files of a worktree that is gone."""
    for name in (f"{root.name}", *(one.name for one in base.glob(f"{root.name}-??????"))):
        with contextlib.suppress(OSError):
            if (base / name / ".root").read_bytes() == os.fsencode(root):
                shutil.rmtree(base / name, ignore_errors=True)


# ---------------------------------------------------------------- branches


def branches(repo: Repo) -> dict[str, str]:
    """The work branches, each with its newest commit."""
    out = repo.text(
        "for-each-ref", "--format=%(objectname) %(refname)", f"refs/heads/{work.BRANCHES}"
    )
    rows = (line.split(" ", 1) for line in out.splitlines())
    return {ref.removeprefix("refs/heads/"): commit for commit, ref in rows}


def begun(repo: Repo) -> dict[str, str]:
    """The work branches on which stage 2 of an attempt has begun and not ended, each with its start
    ref, whatever has become of the worktree.
    """
    out = repo.text("for-each-ref", "--format=%(refname)", f"{refs.START}/wt/")
    found = {}
    for ref in out.splitlines():
        _, slash, name = ref.removesuffix("/@").partition(f"/{work.BRANCHES}")
        if slash:
            found[f"{work.BRANCHES}{name}"] = ref
    return found


def drop(repo: Repo, branch: str) -> None:
    """The branch, and what tells that its task was begun; its commits stay where they landed."""
    start = begun(repo).get(branch)
    gone = [f"delete refs/heads/{branch}", *([f"delete {start}"] if start else [])]
    repo.run("update-ref", "--stdin", given="".join(f"{one}\n" for one in gone).encode())
