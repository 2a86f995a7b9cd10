"""Worktrees below the output folder, each with a worker's number: made, used again, removed. One
task in one of them: an ordinary kern is run there, and what that left is read, by who had it begun
or by the next run. git and its files tell it, not the exit code.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kern import plain
from kern.checks import result
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.fleet import lent, work
from kern.fleet.work import Job, Work
from kern.git import history, refs, repository
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline import facts, preflight, project, session, settle
from kern.pipeline.site import Leave, Site
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import control, lock, process, workspace

_FIRST_PORT = 20_000
_GRACE_S = 10.0, 5.0  # it ends its own agent
FOLDER = ".fleet"  # below the scope's; no branch has such a name
PROVING = 0  # the number of the landing's own
AGAIN = "fix it, then run kern again: what was begun is resumed"
_LACKS = "commit it, or have [worktree] copy or setup bring it (kern help settings)"
_OTHER = "it may need the path or the branch of your tree"
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up
_ONE_BY_ONE = threading.Lock()  # git adds and removes them
_STOPPING: dict[str, bool] = {}  # runs whose kerns here are to end; True: at once


@dataclass(frozen=True)
class Yard:
    """Where they lie. `repo`: whose worktrees they are, the person's tree or a bare repository."""

    repo: Repo
    folder: Path
    home: Path | None = None  # the person's tree, where it is on this machine
    brought: tuple[str, ...] = ()  # paths of it that are copied: git ignores them

    def place(self, number: int | str) -> Path:
        return self.folder / f"{self.repo.root.stem}-{number}"

    def log(self, number: int) -> Path:
        """What its kern prints."""
        return self.folder / f"worker-{number}.log"


def yard(site: Site) -> Yard:
    """Raises UsageError where a worktree cannot get what it is to have. A room shows all of it."""
    repo, wanted = site.repo, site.caller.settings.worktree
    brought = () if site.rooms.mounted else lent.copied(repo, wanted)
    # GitPython's processes and git's answering one belong to the thread that lands.
    own = Repo(repo.root, repo.git_dir, repo.common_dir, reading=True)
    return Yard(own, (site.scope.folder / FOLDER).resolve(), repo.root, brought)


# ---------------------------------------------------------------- made and removed


def of(here: Yard, number: int) -> Repo | None:
    """The worktree as a repository; None where it is not there, or no worktree of this one."""
    with contextlib.suppress(KernError):
        tree = repository.open_at(here.place(number), reading=True)
        if (tree.root.name, tree.common_dir) == (here.place(number).name, here.repo.common_dir):
            return tree
    return None


def make(here: Yard, number: int, commit: str, *head: str) -> Repo:
    """With the files of the commit, and HEAD as these options of git say. One that is there is used
    again: what git ignores stays in it. Raises KernError.
    """
    tree, place = of(here, number), here.place(number)
    if not tree or tree.run("checkout", "--quiet", "--force", *head, commit)[0]:
        workspace.own_folder(here.folder, parents=True)
        remove(here, number)  # something else lies there, or git knows of what lay there
        with _ONE_BY_ONE:
            here.repo.git("worktree", "add", "--quiet", "-f", "-f", *head, str(place), commit)
        tree = repository.open_at(place, reading=True)
    tree.git("clean", "-ffdq")
    lent.bring(here.repo.root, here.brought, tree.root, here.folder)
    if (tree.root / ".gitmodules").exists():
        tree.git("submodule", "update", "--init", "--recursive", "--quiet")
    return tree


def numbers(here: Yard) -> dict[int, str]:
    """Of those that git knows, each with the branch that it is on. Not all of them are there."""
    place = re.escape(str(here.place("")))
    row = rf"(?m)^worktree {place}(\d+)\nHEAD \w+\n(?:branch refs/heads/(.*))?"
    listed = here.repo.text("worktree", "list", "--porcelain")
    return {int(number): branch for number, branch in re.findall(row, f"{listed}\n")}


def remove(here: Yard, number: int, base: Path | None = None) -> None:
    """With what git remembers of it, and below `base` its run files; the branch stays."""
    place = here.place(number)
    with _ONE_BY_ONE:
        workspace.remove(place)
        here.repo.run("worktree", "remove", "--force", "--force", str(place))
    for folder in base.glob(f"{place.name}*") if base else ():
        if workspace.read(folder / ".root") == os.fsencode(place):
            workspace.remove(folder)


# ---------------------------------------------------------------- for gates of what lands


@contextlib.contextmanager
def fresh(site: Site, here: Yard) -> Iterator[Site]:
    """One of the branch's newest commit, set up, with a session in it; where a room shows all that
    gates need, the site itself. Raises KernError.
    """
    if site.rooms.mounted:
        yield site
        return
    tree = make(here, PROVING, site.repo.head().commit, "--detach")
    try:
        lent.equip(tree, lent.documents(site, site.documents.read(SPEC) or ""))
        with _session(site, tree) as apart:
            apart.caller.programs, apart.caller.check_requests = site.caller.programs, lambda: None
            if apart.rooms.place:
                apart.rooms.place.save = lambda known, now: None  # what gates leave is nobody's
            set_up(apart)
            yield apart
            site.caller.cost += apart.caller.cost
    finally:
        remove(here, PROVING, site.scope.base)


def _session(site: Site, tree: Repo) -> AbstractContextManager[Site]:
    options = replace(site.options, leave=Leave(trusted=True))
    how = {"empty": True, "commits": False, "paid": False, "lands": True}
    return session.begin(tree.root, options, site.sink, **how)


def tried(site: Site, gates: Iterable[Gate]) -> Iterator[str]:
    """A line for each that is red in a fresh worktree, with what it may miss there."""
    here = yard(site)
    absent = {*repository.outermost(site.repo), *preflight.uncommitted(site.repo)}
    absent = {path for path in absent if path.rstrip("/") not in here.brought}
    with fresh(site, here) as apart:
        tree = apart.repo.tree(apart.repo.head().commit)
        for gate in gates:
            if (end := project.run_gate(apart, gate, tree)).red:
                text = f"{gate.command}\n{end.output}"
                lacks = [path for path in absent if Path(path).name in text] or [*absent]
                why = f"it may need {plain.some(sorted(lacks))}: {_LACKS}" if lacks else _OTHER
                where = "is red in a fresh worktree, where -j works"
                yield f"{gate.label} {where}: {why}; cat {end.log}"


def set_up(site: Site) -> None:
    """By the project's command, once for each worktree, where it is held as a gate is. Raises
    UsageError.
    """
    settings, mark = site.caller.settings, site.repo.git_dir / _DONE
    command = settings.worktree.setup
    if not command or workspace.read(mark) == command.encode():
        return
    end = site.gates.beside(Gate("setup", command, settings.patience, room=False))
    if end.red:
        why = result.refusal([end])[0]
        raise UsageError(f"worktree.setup in kern.toml: {why}", hint=AGAIN)
    workspace.replace(mark, command.encode())


# ---------------------------------------------------------------- carried out


def stop(run: str, *, now: bool) -> None:
    """The kerns of that run here: each before its next stage, or at once."""
    _STOPPING[run] = now


def carry_out(here: Yard, job: Job) -> Work:
    """By an ordinary kern, which goes on with what one that was killed has begun. Raises nothing
    that a worktree or a child can be to blame for.
    """
    try:
        tree = of(here, job.worker)
        begun = read(tree, job) if tree else Work(job)
        if begun.commit:
            return begun
        if not tree or not begun.under_way:
            tree = _made(here, job)
        for lock_file in tree.git_dir.glob("*.lock"):  # of a git that was killed
            lock_file.unlink()
        return read(tree, job, *_run(here, tree, job))
    except (KernError, OSError) as exc:
        return Work(job, 1, fault=str(exc), hint=getattr(exc, "hint", AGAIN))


def _made(here: Yard, job: Job) -> Repo:
    tree = make(here, job.worker, job.base, "--no-track", "-B", job.branch)
    scope, runs = workspace.scope(tree.root, job.branch), here.folder.with_name("history")
    workspace.own_folder(runs)
    if not (told := scope.folder / runs.name).is_symlink():  # of the branch's tasks
        told.symlink_to(runs)
    if job.failed:  # its kern finds it, as that of an earlier attempt
        attempt = json.loads(job.failed)["kern"]["attempt"]
        workspace.replace(scope.stage_file(Stage.IMPLEMENT, attempt), job.failed.encode())
    lent.equip(tree, job.documents)
    return tree


def _run(here: Yard, tree: Repo, job: Job) -> tuple[int, str]:
    """Exit code and what it printed last. It is this kern, whatever the worktree's folder holds."""
    tasks = parse(Documents(tree.root).read(SPEC) or "").tasks
    number = next((at for at, one in enumerate(tasks, 1) if one.key == job.key), 0)
    argv = [sys.executable, "-P", "-m", "kern", "1", "0", "--task", str(number), *job.options]
    own = {process.WORKER: str(job.worker), process.PORT: str(_FIRST_PORT + 40 * job.worker)}
    own |= {process.FLEET: job.run, process.ONTO: job.onto, "KERN_TRUST": "1"}
    env, log = {**os.environ, **own, process.OF: str(here.home or tree.root)}, here.log(job.worker)

    def tick(seconds: float, silent: float) -> None:
        if _STOPPING.get(job.run):
            raise KernError("the run was ended")
        holder = lock.holder(tree.git_dir) if job.run in _STOPPING else None
        if holder and not control.asked(tree.git_dir, holder.run):
            control.ask(tree.git_dir, holder.run)

    how: dict[str, Any] = {"mark": (process.FLEET, job.run), "tick": tick, "grace": _GRACE_S}
    ran = process.run(argv, cwd=tree.root, env=env, stdin="", stdout=log, joined=True, **how)
    return ran.code, log.read_bytes()[-65536:].decode("utf-8", "replace")


# ---------------------------------------------------------------- read


def read(tree: Repo, job: Job, code: int = 0, printed: str = "") -> Work:
    """What the worktree holds of the job, after its kern has ended. Its text is a stranger's to the
    caller.
    """
    if not tree.root.is_dir():
        return Work(job, code, fault=f"its worktree is gone: {tree.root}")
    spec, learned = (Documents(tree.root).read(name) or "" for name in (SPEC, LEARNINGS))
    head, task = tree.plain_head(), parse(spec).find(job.key)
    if not head or head.branch != job.branch:
        return Work(job, code, fault=f"its worktree has left {job.branch}")
    active = refs.start(tree, job.branch) or (task and task.marker is Marker.ACTIVE)
    base, parents = job.base, history.commit(tree, head.commit).parents
    under_way = bool(active and base in (head.commit, *parents[:1]))
    commit = head.commit if parents[:1] == (base,) and not active else ""
    text = f"\n{plain.block(printed)}".rpartition("\nkern: ")[2]
    fault, _, hint = text.partition("\n  hint: ")
    if code < 0:
        fault, hint = f"its kern was ended by signal {-code}", ""
    return Work(job, code, commit, under_way, spec, learned, fault * bool(code), hint)


# ---------------------------------------------------------------- what an earlier run has left


def begun(site: Site) -> list[tuple[Key, str, str]]:
    """Tasks of SPEC.md with the names and the newest commits of their work branches."""
    keys, ids = [one.key for one in site.documents.spec()[1].tasks], site.repo.store
    named = [(key, work.branch(site.scope.branch, key)) for key in keys]
    return [(*one, tip) for one in named if (tip := ids.id(f"refs/heads/{one[1]}"))]


def left(site: Site, here: Yard) -> Iterator[Work]:
    """Finished, or half done, of tasks in SPEC.md; anything else is kept at a ref, and goes."""
    repo, own = site.repo, (site.caller.run, site.scope.branch, (), site.options.words)
    keys = {branch: key for key, branch, _ in begun(site)}
    trees = {branch: number for number, branch in numbers(here).items()}
    for branch in dict.fromkeys((*keys, *trees)):
        if not (tip := repo.store.id(f"refs/heads/{branch}")):
            continue
        number = trees.setdefault(branch, 1 + max(trees.values(), default=0))
        tree, one = of(here, number) or make(here, number, branch), history.commit(repo, tip)
        key = keys.get(branch) or _owner(tree, branch, site.scope.branch)
        base = one.parents[0] if one.parents and facts.ticks(repo, one, key) else tip
        done = read(tree, Job(key, base, branch, number, *own))
        if done.commit or (done.under_way and branch in keys):
            yield done
        else:
            drop(site, here, done.job)


def _owner(tree: Repo, branch: str, onto: str) -> Key:
    """Whose work branch that is, as the worktree's SPEC.md has it."""
    keys = [one.key for one in parse(Documents(tree.root).read(SPEC) or "").tasks]
    return next((key for key in keys if work.branch(onto, key) == branch), Key("", branch))


def drop(site: Site, here: Yard, job: Job, landed: str = "") -> None:
    """The work branch goes; what was done there and has not `landed` is kept at a ref."""
    repo, tree, ref = site.repo, of(here, job.worker), f"refs/heads/{job.branch}"
    if tree and refs.start(tree, job.branch):
        tree.git("symbolic-ref", "HEAD", ref)
        with _session(site, tree) as there:
            settle.undo(there, facts.look(there))
    tip = repo.store.id(ref)
    if tip not in ("", landed) and repo.run("merge-base", "--is-ancestor", tip, "HEAD")[0]:
        kept = site.keep(job.key, "finished", repo.tree(tip), tip)
        site.warn(f"{job.branch} has work that does not land: it is saved as {kept}")
    if tip:
        refs.delete(repo, ref)


def tidy(site: Site, here: Yard, *, told: bool) -> int:
    """What is finished, or in progress in its worktree, stays; how many are in progress. `told`: of
    files there, which stay too.
    """
    rest = [*left(site, here)]
    for number in numbers(here).keys() - {one.job.worker for one in rest}:
        remove(here, number, None if told else site.scope.base)
    if not (rest or told):
        shutil.rmtree(here.folder, ignore_errors=True)
    return sum(one.under_way for one in rest)
