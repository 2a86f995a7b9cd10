"""Worktrees below the output folder and their work branches: made, used again, removed, and what an
earlier run has left there. git and its files tell all of it. Each worktree has a worker's number.
"""

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from kern import plain
from kern.errors import KernError
from kern.fleet import work
from kern.fleet.work import Job, Work
from kern.git import history, refs, repository
from kern.git.repository import Repo
from kern.git.room import Room, visible
from kern.many import Many
from kern.model import LEARNINGS, SPEC, Marker
from kern.pipeline import facts
from kern.pipeline.site import Site
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import control, lock, workspace
from kern.system.workspace import Scope

FOLDER = ".fleet"  # below the scope's; no branch has such a name
PROVING = 0  # the number of the landing's own
AGAIN = "fix it, then run kern again: what was begun is resumed"


@dataclass
class Yard:
    """Where they lie, and the kerns that are at work there. `repo`: whose worktrees they are, the
    person's tree or a bare repository; `home`: from which ignored files are copied.
    """

    repo: Repo
    folder: Path
    name: str  # of the project
    many: Many = field(default_factory=Many)
    home: Repo | None = None
    at_work: dict[str, tuple[Popen[bytes], Repo]] = field(default_factory=dict)  # by work branch
    closed: bool = False  # none is to begin any more
    guard: threading.Lock = field(default_factory=threading.Lock)
    # Stops those on other machines, or with `True` ends them; None where all are here.
    afar: Callable[[bool], None] | None = None

    def place(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}"

    def log(self, number: int) -> Path:
        """What its kern prints."""
        return self.folder / f"worker-{number}.log"

    def stop(self) -> None:
        """Before the next stage begins."""
        if self.afar:
            self.afar(False)
        for _, repo in list(self.at_work.values()):
            holder = lock.holder(repo.git_dir)
            if holder and holder.run and not control.asked(repo.git_dir, holder.run):
                control.ask(repo.git_dir, holder.run)

    def end(self) -> None:
        """At once: each leaves its task to be resumed."""
        with self.guard:
            self.closed = True
            children = [child for child, _ in self.at_work.values()]
        if self.afar:
            self.afar(True)
        for child in children:
            if child.poll() is None:
                child.terminate()


def yard(repo: Repo, scope: Scope, many: Many, home: Repo | None = None) -> Yard:
    name = re.sub(r"[^\w.-]", "_", scope.project)[:100]
    # GitPython's processes and git's answering one belong to the thread that lands.
    own = Repo(repo.root, repo.git_dir, repo.common_dir, reading=True)
    return Yard(own, scope.folder / FOLDER, name, many, home)


# ---------------------------------------------------------------- made and removed


def of(here: Yard, number: int) -> Repo | None:
    """The worktree as a repository; None where it is not there, or no worktree of this one."""
    with contextlib.suppress(KernError):
        found = repository.open_at(here.place(number), reading=True)
        if (found.root.name, found.common_dir) == (here.place(number).name, here.repo.common_dir):
            return found
    return None


def make(here: Yard, number: int, commit: str, *head: str) -> Repo:
    """With the files of the commit, and HEAD as these options of git say. One that is there is used
    again: what git ignores stays in it. Raises KernError.
    """
    made = of(here, number)
    switched = made and not made.run("checkout", "--quiet", "--force", *head, commit)[0]
    if not (made and switched and not made.run("clean", "-ffdq")[0]):
        here.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        workspace.own_folder(here.folder)
        argv = ("worktree", "add", "--quiet", "--force", "--force", *head)
        for _ in range(2):
            with here.guard:  # one by one
                code, _, said = here.repo.run(*argv, str(here.place(number)), commit)
            if not code:
                break
            remove(here, number)  # something else lies there, or git knows of what lay there
        made = of(here, number)
        if code or made is None:
            why = plain.last(said) or "git does not say why"
            raise KernError(f"git makes no worktree at {here.place(number)}: {why}", hint=AGAIN)
    if (made.root / ".gitmodules").exists():
        code, _, said = made.run("submodule", "update", "--init", "--recursive", "--quiet")
        if code:
            raise KernError(f"git cannot check out a worktree's submodules: {plain.last(said)}")
    return made


def numbers(here: Yard) -> dict[int, str]:
    """Of those that git knows, each with the branch that it is on. Not all of them are there."""
    found = {}
    for block in here.repo.text("worktree", "list", "--porcelain").split("\n\n"):
        fields = dict(line.partition(" ")[::2] for line in block.splitlines())
        place = Path(fields.get("worktree", ""))
        name, _, number = place.name.rpartition("-")
        if place.parent == here.folder.resolve() and name == here.name and number.isdecimal():
            found[int(number)] = fields.get("branch", "").removeprefix("refs/heads/")
    return found


def remove(here: Yard, number: int) -> None:
    """With what kern and git remember of it; the branch stays."""
    argv = ("worktree", "remove", "--force", "--force", str(here.place(number)))
    with here.guard:
        if here.repo.run(*argv)[0]:
            shutil.rmtree(here.place(number), ignore_errors=True)
            here.repo.run(*argv)  # of one that is not there git forgets the rest


def keep_runs(here: Yard, number: int, branch: str, onto: Scope) -> None:
    """What a worker's kern wrote down of its task goes to what is known of the branch's tasks."""
    with contextlib.suppress(OSError):
        there = workspace.scope(here.place(number), branch, create=False).folder / "history"
        target = onto.folder / "history"
        for entry in sorted(there.iterdir()):
            target.mkdir(mode=0o700, exist_ok=True)
            if not (target / entry.name).exists():
                os.replace(entry, target / entry.name)


def forget_runs(base: Path, root: Path) -> None:
    """The run files of a worktree that is gone."""
    for folder in (base / root.name, *base.glob(f"{root.name}-??????")):
        if workspace.read(folder / ".root") == os.fsencode(root):
            shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- work branches


def branches(repo: Repo) -> dict[str, str]:
    """Each with its newest commit."""
    form = "--format=%(objectname) %(refname:lstrip=2)"
    rows = repo.text("for-each-ref", form, f"refs/heads/{work.BRANCHES}").splitlines()
    return {branch: commit for commit, branch in (row.split(" ", 1) for row in rows)}


def starts(repo: Repo, branch: str = "") -> list[str]:
    """The refs that say that stage 2 of an attempt has begun on a work branch and not ended,
    whatever has become of the worktree.
    """
    listed = repo.text("for-each-ref", "--format=%(refname)", f"{refs.START}/wt/").splitlines()
    return [ref for ref in listed if f"/{branch or work.BRANCHES}" in ref.removesuffix("/@")]


def drop(repo: Repo, branch: str) -> None:
    """The branch, and what tells that its task was begun; its commits stay where they landed."""
    gone = [f"refs/heads/{branch}", *starts(repo, branch)]
    repo.run("update-ref", "--stdin", given="".join(f"delete {one}\n" for one in gone).encode())


# ---------------------------------------------------------------- what an earlier run has left


def left(site: Site, yard: Yard) -> list[Work]:
    """The work branches of this branch, in the order of its tasks: finished, with a commit, or half
    done. A task that SPEC.md has no longer has no number.
    """
    onto, repo, found = site.scope.branch, site.repo, list[Work]()
    keys = {work.branch(onto, one.key): one.key for one in site.papers.spec()[1].tasks}
    trees = {branch: number for number, branch in numbers(yard).items()}
    there = branches(repo)
    for branch in [*({*there} - {*keys}), *(one for one in keys if one in there)]:
        tip, made = there[branch], of(yard, trees.get(branch, -1))
        own = Documents(made.root).read(SPEC) if made else None
        text = plain.decode(repo.content(tip, SPEC) or b"") if own is None else own
        theirs = parse(text).tasks
        places = {work.branch(onto, one.key): at for at, one in enumerate(theirs, 1)}
        number = places.get(branch, 0)
        key = keys.get(branch) or (theirs[number - 1].key if number and made else None)
        if key is None:  # another branch's
            continue
        active = bool(made and number) and theirs[number - 1].marker is Marker.ACTIVE
        under_way, one = active or bool(starts(repo, branch)), history.commit(repo, tip)
        done = not under_way and bool(one.parents) and facts.ticks(repo, one, key)
        base = one.parents[0] if done else repo.text("merge-base", tip, f"refs/heads/{onto}")
        papers = (SPEC, text), (LEARNINGS, plain.decode(repo.content(tip, LEARNINGS) or b""))
        known = number if branch in keys else 0
        job = Job(key, known, base, branch, trees[branch] if made else 0)
        found.append(Work(job, 0, tip if done else "", under_way, papers))
    return found


def keep(site: Site, yard: Yard, one: Work) -> str:
    """Half-done work as a ref, before its worktree goes; empty where there is none."""
    made = of(yard, one.job.worker) if one.job.worker else None
    if made is None or not one.under_way:
        return ""
    begun = refs.start(made, one.job.branch)
    mounted = begun is not None and begun.mounted
    tree = Room(made, "work", site.repo).candidate() if mounted else visible(made)
    tip = site.repo.commit_id(f"refs/heads/{one.job.branch}")
    slug, message = refs.slug(one.job.key), f"{one.text}\n\nunfinished\n"
    return refs.keep(site.repo, slug, "unfinished", tree, message, tip)


def tidy(site: Site, yard: Yard, *, keep: bool) -> int:
    """What is finished, or in progress in its worktree, stays; how many are in progress. `keep`:
    what was printed there, which a person was told of.
    """
    found = left(site, yard)
    stays = {one.job.worker for one in found if one.under_way or one.commit}
    for number in numbers(yard):
        if number not in stays:
            remove(yard, number)
            if not keep:
                forget_runs(site.scope.base, yard.place(number))
    for one in found:
        if not (one.under_way or one.commit):
            drop(site.repo, one.job.branch)
    if not (stays or keep):
        shutil.rmtree(yard.folder, ignore_errors=True)
    return sum(one.under_way for one in found)
