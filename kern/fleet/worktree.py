"""Worktrees below the output folder, each with a worker's number: made, used again, removed. One
task in one of them: an ordinary kern is run there, and what that left is read, by who had it begun
or by the next run. git and its files tell it, not the exit code.
"""

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any

from kern import plain
from kern.config import FILE, Gate, Worktree
from kern.errors import KernError, UsageError
from kern.fleet.work import Job, Work
from kern.git import history, refs, repository
from kern.git.repository import Repo
from kern.git.shadow import PROMPTS
from kern.model import LEARNINGS, SPEC, Marker, Stage
from kern.pipeline import preflight, project, session
from kern.pipeline.site import Leave, Site
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import control, lock, process, workspace

_FIRST_PORT = 20_000
_GRACE_S = 10.0, 5.0  # it ends its own agent
PROVING = 0  # the number of the landing's own
AGAIN = "fix it, then run kern again: what was begun is resumed"
_LACKS = "commit it, or have [worktree] copy or setup bring it (kern help settings)"
_OTHER = "the path or the branch of your tree, or something that git ignores there"
_INCLUDE = ".worktreeinclude"
_COPY = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")
_COPY_S = 600.0
# Where Python and builds keep paths of what was installed or configured.
_NAMING = ("*.pth", "*.egg-link", "__editable__*", "CMakeCache.txt")
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
        return self.folder / f"worker-{number}.log"


def yard(site: Site) -> Yard:
    """Raises UsageError where a worktree cannot get what it is to have. A room shows all of it."""
    repo, wanted = site.repo, site.caller.settings.worktree
    brought = () if site.rooms.mounted else copied(repo, wanted)
    return Yard(repo, (site.scope.folder / workspace.FLEET).resolve(), repo.root, brought)


# ---------------------------------------------------------------- made and removed


def of(here: Yard, number: int) -> Repo | None:
    """The worktree as a repository; None where it is not there, or no worktree of this one."""
    with contextlib.suppress(KernError):
        tree = repository.open_at(here.place(number))
        if (tree.root.name, tree.common_dir) == (here.place(number).name, here.repo.common_dir):
            return tree
    return None


def make(here: Yard, number: int, commit: str, *head: str) -> Repo:
    """With the files of the commit, and HEAD as these options of git say. One that is there is used
    again: what git ignores stays in it. Raises KernError.
    """
    tree, place = of(here, number), here.place(number)
    move = "checkout", "--quiet", "--force", *head, commit
    if not tree or tree.run(*move)[0] or tree.run("clean", "-ffdq")[0]:
        workspace.own_folder(here.folder, parents=True)
        remove(here, number)  # something else lies there, or git knows of what lay there
        with _ONE_BY_ONE:
            here.repo.git("worktree", "add", "--quiet", "-f", "-f", *head, str(place), commit)
        tree = repository.open_at(place)
    _bring(here, tree)
    if (tree.root / ".gitmodules").exists():
        tree.git("submodule", "update", "--init", "--recursive", "--quiet")
    return tree


def numbers(here: Yard) -> dict[int, str]:
    """Of those that git knows, each with the work branch that it is on. Not all are there."""
    place = re.escape(str(here.place("")))
    row = rf"(?m)^worktree {place}(\d+)\nHEAD \w+\n(?:branch refs/heads/(kern/work/.*))?"
    listed = here.repo.text("worktree", "list", "--porcelain")
    return {int(number): branch for number, branch in re.findall(row, f"{listed}\n")}


def remove(here: Yard, number: int) -> None:
    """With what git remembers of it; the branch stays."""
    place = str(here.place(number))
    with _ONE_BY_ONE:
        workspace.remove(Path(place))
        here.repo.run("worktree", "remove", "--force", "--force", place)


# ---------------------------------------------------------------- what git does not bring


def documents(site: Site, spec: str) -> tuple[tuple[str, str], ...]:
    """What a worktree has as the person's tree has it now."""
    prompts = sorted((site.repo.root / PROMPTS).glob("*"))
    paths = [LEARNINGS, FILE, *(f"{PROMPTS}/{one.name}" for one in prompts)]
    texts = ((path, site.documents.read(path)) for path in paths)
    # SPEC.md last: where it has the task in progress, all is there.
    return (*((path, text) for path, text in texts if text is not None), (SPEC, spec))


def equip(tree: Repo, texts: Iterable[tuple[str, str]]) -> None:
    for name, text in texts:
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        Documents(tree.root).write(name, text)


def copied(home: Repo, settings: Worktree) -> tuple[str, ...]:
    """Paths in the person's tree that git ignores, whole folders by their names. Raises UsageError
    for what is not there, and where what is copied, or what Python and node find, would have gates
    judge that tree.
    """
    paths = list[str]()
    for path in settings.copy:
        if not (names := _ignored(home, f"--exclude=/{path}")):
            what = f"worktree.copy in kern.toml names {path}: git ignores nothing there"
            raise UsageError(what, hint="take it out; what is committed each worktree has")
        paths += names
    if (home.root / _INCLUDE).is_file():
        paths += _ignored(home, f"--exclude-from={_INCLUDE}")
    for lead in _back(home.root, [home.root / path for path in paths]):
        raise UsageError(
            f"{lead} leads back to your tree: a worker would test your code",
            hint="have [worktree] setup make it, and neither copy it nor have it on PATH: "
            'setup = "python3 -m venv .venv && .venv/bin/pip install -e ."',
        )
    return tuple(dict.fromkeys(paths))


def _ignored(home: Repo, named: str) -> list[str]:
    chosen = home.git("ls-files", "-z", "--others", "--ignored", "--directory", named)
    ignored = home.run("check-ignore", "-z", "--stdin", stdin=chosen)[1] if chosen else b""
    return [path.rstrip("/") for path in os.fsdecode(ignored).split("\0")[:-1]]


def _back(root: Path, copies: Iterable[Path]) -> Iterator[str]:
    """Variables, links, editable installs and configured builds that lead to the tree."""
    for name in ("PYTHONPATH", "NODE_PATH"):
        places = map(Path, os.environ.get(name, "").split(os.pathsep))
        yield from (name for place in places if place.is_relative_to(root))
    above = (Path(one).parent for one in os.environ.get("PATH", "").split(os.pathsep))
    pythons = *above, Path.home() / ".local"
    sites = (site for one in pythons for site in one.glob("lib/python3*/site-packages"))
    names = [f"--include={name}" for name in _NAMING]
    own = escape(str(root))
    for place in map(str, (*copies, *sites)):
        leads = ("(", "-lname", own, "-o", "-lname", f"{own}/*", ")")
        links = ("find", place, *leads, "!", "-lname", f"{escape(place)}/*")
        for argv in (links, ("grep", "-rlwF", *names, "-e", str(root), "--", place)):
            yield from process.capture(argv, _COPY_S)[1].splitlines()


def _bring(here: Yard, tree: Repo) -> None:
    """As the person's are by now; after a kill again."""
    for path in here.brought:
        source, target = here.repo.root / path, tree.root / path
        if target.parent != target.parent.resolve():
            continue  # it leads out
        if not target.is_symlink():
            workspace.remove(target)
        target.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        code, _, why = process.capture([*_COPY, str(source), str(target)], _COPY_S)
        if code:
            raise KernError(f"cannot copy {source}: {plain.last(why)}", hint=AGAIN)


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
        equip(tree, documents(site, site.documents.read(SPEC) or ""))
        with session_in(site, tree) as apart:
            apart.caller.programs, apart.caller.check_requests = site.caller.programs, lambda: None
            if apart.rooms.place:
                apart.rooms.place.save = None  # what gates leave is nobody's
            set_up(apart)
            yield apart
            site.caller.cost += apart.caller.cost
    finally:
        remove(here, PROVING)  # not its logs, which are named


def session_in(site: Site, tree: Repo) -> AbstractContextManager[Site]:
    options = replace(site.options, leave=Leave(trusted=True))
    return session.begin(tree.root, options, site.sink, paid=False, lands=True)


def tried(site: Site, gates: Iterable[Gate]) -> Iterator[str]:
    """A line for each that is red in a fresh worktree, with what it may miss there."""
    here = yard(site)
    absent = {*repository.outermost(site.repo), *preflight.uncommitted(site.repo)}
    absent = {path for path in absent if path.rstrip("/") not in here.brought}
    remove(here, PROVING)
    with fresh(site, here) as apart:
        tree = apart.repo.tree(apart.repo.head().commit)
        for gate in gates:
            if (end := project.run_gate(apart, gate, tree)).red:
                text = f"{gate.command}\n{end.output}"
                named = sorted(path for path in absent if Path(path).name in text)
                why = f"{plain.some(named)}: {_LACKS}" if named else _OTHER
                where = "is red in a fresh worktree, where -j works"
                yield f"{gate.label} {where}: it may need {why}; cat {end.log}"


def set_up(site: Site) -> None:
    """By the project's command, once for each worktree, held as a gate is. Raises UsageError."""
    settings, mark = site.caller.settings, site.repo.git_dir / _DONE
    command = settings.worktree.setup
    if not command or workspace.read(mark) == command.encode():
        return
    end = site.gates.beside(Gate("setup", command, settings.patience, room=False))
    if end.red:
        what = f"worktree.setup in kern.toml fails ({end.how})"
        raise UsageError(f"{what}: {plain.last(end.output)}\nall of it: {end.log}", hint=AGAIN)
    workspace.replace(mark, command.encode())


# ---------------------------------------------------------------- carried out


def stop(run: str, *, now: bool) -> None:
    """The kerns of that run here: each before its next stage, or at once."""
    _STOPPING[run] = now


def carry_out(here: Yard, job: Job) -> Work:
    """By an ordinary kern, which goes on with what a killed one has begun."""
    try:
        tree = of(here, job.worker)
        begun = read(tree, job) if tree else Work(job)
        refused = history.commit(here.repo, job.kept).parents if job.kept else ()
        if begun.commit and begun.commit not in refused:
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
    equip(tree, job.documents)
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

    how: dict[str, Any] = {"tick": tick, "grace": _GRACE_S}
    ran = process.run(argv, cwd=tree.root, env=env, stdin="", stdout=log, joined=True, **how)
    return ran.code, log.read_bytes()[-65536:].decode("utf-8", "replace")


# ---------------------------------------------------------------- read


def read(tree: Repo, job: Job, code: int = 0, printed: str = "") -> Work:
    """What the worktree holds of the job; its text is a stranger's to the caller."""
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
    text = f"\n{plain.block(printed)}".rpartition("\nkern: ")[2].strip()
    fault, _, hint = text.partition("\n  hint: ")
    if code < 0:
        fault, hint = f"its kern was ended by signal {-code}", ""
    return Work(job, code, commit, under_way, spec, learned, fault * bool(code), hint)
