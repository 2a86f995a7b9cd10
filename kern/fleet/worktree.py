"""Worktrees below the output folder, each with a worker's number: made, used again, removed, given
what git does not bring. One task in one of them: an ordinary kern is run there, and what that left
is read, by who had it begun or by the next run. git and its files tell it, not the exit code.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kern import plain
from kern.config import FILE, Gate, Worktree
from kern.errors import KernError, UsageError
from kern.fleet import work
from kern.fleet.work import Job, Work
from kern.git import history, refs, repository
from kern.git.repository import Repo, outermost
from kern.git.shadow import PROMPTS
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline import facts, isolation, project, session, steps
from kern.pipeline.site import Leave, Options, Site
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import control, lock, process, workspace

_COMPLAINT = re.compile(r"^kern: (.+(?:\n      .+)*)(?:\n  hint: (.+))?", re.M)
_FIRST_PORT = 20_000
_GRACE_S = 10.0, 5.0  # it ends its own agent
FOLDER = ".fleet"  # below the scope's; no branch has such a name
PROVING = 0  # the number of the landing's own
AGAIN = "fix it, then run kern again: what was begun is resumed"
INCLUDE = ".worktreeinclude"
_LACKS = "[worktree] copy or setup brings it what git ignores (kern help settings)"
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up
_COPY = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")
_COPY_S = 600.0
# Where Python and builds keep paths of what was installed or configured.
_NAMING = ("*.pth", "*.egg-link", "__editable__*", "CMakeCache.txt")
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")  # in one of Python's, or conda's


@dataclass
class Yard:
    """Where they lie. `repo`: whose worktrees they are, the person's tree or a bare repository;
    `home`: the person's tree, where it is on this machine.
    """

    repo: Repo
    folder: Path
    name: str  # of the project
    home: Repo | None = None
    many: Worktree | None = None  # what is copied from there; None: a room shows it
    stopping: bool = False  # each kern that is at work here, before its next stage
    ended: bool = False  # at once: each leaves its task to be resumed
    guard: threading.Lock = field(default_factory=threading.Lock)

    def place(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}"

    def log(self, number: int) -> Path:
        """What its kern prints."""
        return self.folder / f"worker-{number}.log"


def yard(site: Site) -> Yard:
    """Raises UsageError where a worktree cannot get what it is to have."""
    repo, settings = site.repo, site.caller.settings
    mounted = site.sandbox and isolation.rooms(site.sandbox, repo, settings)
    if not mounted:
        check(repo, settings.worktree)
    name = re.sub(r"[^\w.-]", "_", site.scope.project)[:100]
    # GitPython's processes and git's answering one belong to the thread that lands.
    own = Repo(repo.root, repo.git_dir, repo.common_dir, reading=True)
    lent = None if mounted else settings.worktree
    return Yard(own, site.scope.folder / FOLDER, name, repo, lent)


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
    tree = of(here, number)
    anew = not tree or tree.run("checkout", "--quiet", "--force", *head, commit)[0]
    if not tree or anew or tree.run("clean", "-ffdq")[0]:
        workspace.own_folder(here.folder, parents=True)
        remove(here, number)  # something else lies there, or git knows of what lay there
        place = str(here.place(number))
        with here.guard:  # one by one
            here.repo.git("worktree", "add", "--quiet", "-f", "-f", *head, place, commit)
        tree = repository.open_at(here.place(number), reading=True)
    if (tree.root / ".gitmodules").exists():
        tree.git("submodule", "update", "--init", "--recursive", "--quiet")
    return tree


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


def remove(here: Yard, number: int, base: Path | None = None) -> None:
    """With what git remembers of it, and below `base` its run files; the branch stays."""
    place = here.place(number)
    argv = ("worktree", "remove", "--force", "--force", str(place))
    with here.guard:
        if here.repo.run(*argv)[0]:
            shutil.rmtree(place, ignore_errors=True)
            here.repo.run(*argv)  # of one that is not there git forgets the rest
    for folder in (base / place.name, *base.glob(f"{place.name}-??????")) if base else ():
        if workspace.read(folder / ".root") == os.fsencode(place):
            shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- what git does not bring


def documents(site: Site, spec: str) -> tuple[tuple[str, str], ...]:
    """What a worktree has as the person's tree has it now."""
    prompts = site.repo.root / PROMPTS
    names = sorted(os.listdir(prompts)) if prompts.is_dir() else []
    paths = [LEARNINGS, FILE, *(f"{PROMPTS}/{name}" for name in names)]
    texts = ((path, site.documents.read(path)) for path in paths)
    return ((SPEC, spec), *((path, text) for path, text in texts if text is not None))


def equip(here: Yard, tree: Repo, texts: Iterable[tuple[str, str]]) -> None:
    """With these documents, and copies of the person's ignored files. Raises KernError for what is
    not there or cannot be made.
    """
    for name, text in texts:
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        Documents(tree.root).write(name, text)
    for source in _brought(here.home, here.many) if here.home and here.many else ():
        target = tree.root / source.relative_to(here.repo.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        for argv in (["rm", "-rf", str(target)], [*_COPY, str(source), str(target)]):
            code, output = process.capture(argv, _COPY_S)
        if code:
            raise KernError(f"cannot copy {source} to {target}: {plain.last(output)}", hint=AGAIN)


def _brought(home: Repo, settings: Worktree) -> list[Path]:
    """In the person's tree, whole folders by their names. Raises UsageError."""
    ignored, paths = outermost(home), list[str]()
    for path in settings.copy:
        inside = any(path.startswith(one) for one in ignored if one.endswith("/"))
        names = [one for one in ignored if f"{one}/".startswith(f"{path}/")]
        names = names or [path] * (inside and os.path.lexists(home.root / path))
        if not names:
            raise UsageError(
                f"worktree.copy in kern.toml names {path}: git ignores nothing there",
                hint="take it out of worktree.copy; what is committed each worktree has",
            )
        paths += names
    if (home.root / INCLUDE).is_file():
        listing = ("ls-files", "-z", "--others", "--ignored", f"--exclude-from={INCLUDE}")
        chosen = home.git(*listing)
        out = home.run("check-ignore", "-z", "--stdin", stdin=chosen)[1] if chosen else b""
        paths += [name for name in os.fsdecode(out).split("\0") if name]
    return [home.root / path for path in paths]


def check(home: Repo, settings: Worktree) -> None:
    """Raises UsageError for what no worktree can get, or would have its gates judge the person's
    tree: what is copied, and where Python and node find what was installed.
    """
    above = [Path(one).parent for one in os.environ.get("PATH", "").split(os.pathsep)]
    places = [
        *_brought(home, settings),
        *(one for one in above if any((one / name).exists() for name in _ENVIRONMENT)),
        *Path.home().glob(".local/lib/python3*/site-packages"),
    ]
    leads = [(place, link) for place in places if (link := _back(home.root, place))]
    for name in ("PYTHONPATH", "NODE_PATH"):
        paths = map(Path, os.environ.get(name, "").split(os.pathsep))
        leads += [(Path(name), one) for one in paths if one.is_relative_to(home.root)]
    for place, link in leads:
        raise UsageError(
            f"{place} leads back to your tree ({link}): a worker would test your code",
            hint='have it made in the worktree ([worktree] setup = "python3 -m venv .venv && '
            '.venv/bin/pip install -e .", or "npm ci"), and neither copy it nor have it on PATH',
        )


def _back(root: Path, folder: Path) -> Path | None:
    """The first link, editable install or configured build below the folder that leads to the tree
    around it. No link is followed.
    """
    for own in {str(root), os.path.realpath(root)}:
        leads = ("(", "-lname", own, "-o", "-lname", f"{own}/*", ")")
        links = ("find", str(folder), *leads, "!", "-lname", f"{folder}/*")
        names = [f"--include={name}" for name in _NAMING]
        for argv in (links, ("grep", "-rlwF", *names, "-e", own, "--", str(folder))):
            for line in process.heard(argv, _COPY_S)[1].splitlines():
                return Path(os.path.relpath(os.fsdecode(line), folder))
    return None


@contextlib.contextmanager
def fresh(site: Site, here: Yard) -> Iterator[Site]:
    """One of the branch's newest commit, set up, with a session in it; where a room shows all that
    gates need, the site itself. Raises KernError.
    """
    if not here.many:
        yield site
        return
    tree = make(here, PROVING, site.repo.head().commit, "--detach")
    try:
        equip(here, tree, documents(site, site.documents.read(SPEC) or ""))
        with session_in(site, tree) as apart:
            apart.caller.programs, apart.caller.check_requests = site.caller.programs, lambda: None
            if apart.rooms.place:
                apart.rooms.place.save = lambda known, now: None  # what gates leave is nobody's
            set_up(apart)
            yield apart
            site.caller.cost += apart.caller.cost
    finally:
        remove(here, PROVING, site.scope.base)


def session_in(site: Site, tree: Repo) -> AbstractContextManager[Site]:
    own, how = site.options, {"empty": True, "commits": False, "paid": False, "lands": True}
    options = Options(allow_red=own.allow_red, leave=Leave(trusted=True), tick=own.tick)
    return session.begin(tree.root, options, site.sink, **how)


def tried(site: Site, gates: Iterable[Gate]) -> Iterator[str]:
    """A line for each that is red in a fresh worktree."""
    with fresh(site, yard(site)) as apart:
        tree = apart.repo.tree(apart.repo.head().commit)
        for gate in gates:
            if (end := project.run_gate(apart, gate, tree)).red:
                why = f"is red in a fresh worktree, where -j works: {_LACKS}; cat {end.log}"
                yield f"{gate.label} {why}"


def set_up(site: Site) -> None:
    """By the project's command, once for each worktree, where it is held as a gate is. Raises
    UsageError.
    """
    settings = site.caller.settings.worktree
    mark = site.repo.git_dir / _DONE
    if not settings.setup or (mark.exists() and mark.read_text() == settings.setup):
        return
    end = site.gates.beside(
        Gate("setup", settings.setup, site.caller.settings.patience, room=False)
    )
    if end.red:
        last = plain.last(end.output) or "it printed nothing"
        raise UsageError(
            f"the worktree's setup `{settings.setup}` failed ({end.how}): {last}",
            hint=f"cat {end.log}; worktree.setup in kern.toml",
        )
    workspace.replace(mark, settings.setup.encode())


# ---------------------------------------------------------------- carried out


def carry_out(here: Yard, job: Job) -> Work:
    """By an ordinary kern; raises nothing that a worktree or a child can be to blame for."""
    try:
        made = _made(here, job)
        return read(made, job, *_run(here, made, job))
    except (KernError, OSError) as exc:
        hint = getattr(exc, "hint", AGAIN)
        return Work(job, 1, fault=str(exc), hint=hint, under_way=job.again)


def _made(here: Yard, job: Job) -> Repo:
    if job.again:
        tree = of(here, job.worker)
        return tree or make(here, job.worker, job.branch)  # somebody deleted it
    tree = make(here, job.worker, job.base, "--no-track", "-B", job.branch)
    equip(here, tree, job.documents)
    scope, runs = workspace.scope(tree.root, job.branch), here.folder.with_name("history")
    workspace.own_folder(runs)
    if not (told := scope.folder / runs.name).is_symlink():  # of the branch's tasks
        told.symlink_to(runs)
    if job.failed:  # its kern finds it, as that of an earlier attempt
        attempt = json.loads(job.failed)["kern"]["attempt"]
        workspace.replace(scope.stage_file(Stage.IMPLEMENT, attempt), job.failed.encode())
    return tree


def _run(here: Yard, tree: Repo, job: Job) -> tuple[int, str]:
    """Exit code and what it printed last. It is this kern, whatever the worktree's folder holds."""
    words = ("1", "0", "--task", str(job.number), *job.options)
    env = {
        **{process.WORKER: str(job.worker), process.PORT: str(_FIRST_PORT + 40 * job.worker)},
        **{process.FLEET: job.run, process.ONTO: job.onto, "KERN_TRUST": "1"},
        **({process.OF: str(here.home.root)} if here.home else {}),
    }
    argv, log = [sys.executable, "-P", "-m", "kern", *words], here.log(job.worker)

    def tick(seconds: float, silent: float) -> None:
        if here.ended:
            raise KernError("the run was ended")
        holder = lock.holder(tree.git_dir) if here.stopping else None
        if holder and not control.asked(tree.git_dir, holder.run):
            control.ask(tree.git_dir, holder.run)

    how: dict[str, Any] = {"mark": (process.FLEET, job.run), "tick": tick, "grace": _GRACE_S}
    env = {**os.environ, **env}
    ran = process.run(argv, cwd=tree.root, env=env, stdin="", stdout=log, joined=True, **how)
    return ran.code, log.read_bytes()[-65536:].decode("utf-8", "replace")


# ---------------------------------------------------------------- read


def read(tree: Repo, job: Job, code: int = 0, printed: str = "") -> Work:
    """What the worktree holds after its kern has ended. Its text is a stranger's to the caller."""
    if not tree.root.is_dir():
        return Work(job, code, fault=f"its worktree is gone: {tree.root}")
    spec, learned = (Documents(tree.root).read(name) or "" for name in (SPEC, LEARNINGS))
    state, head = refs.start(tree, job.branch) is not None, tree.plain_head()
    task = parse(spec).find(job.key)
    under_way = state or bool(task and task.marker is Marker.ACTIVE)
    ours = head is not None and head.branch == job.branch and head.commit != job.base
    commit = head.commit if ours and head and not under_way else ""
    fault, hint = f"its kern failed: {plain.last(printed)}", ""
    if code < 0:
        fault = f"its kern was ended by signal {-code}"
    elif complaints := [*_COMPLAINT.finditer(plain.block(printed))]:
        fault, hint = complaints[-1][1], complaints[-1][2] or ""
    return Work(job, code, commit, under_way, spec, learned, fault * bool(code), hint)


# ---------------------------------------------------------------- what an earlier run has left


def left(site: Site, here: Yard) -> Iterator[Work]:
    """Finished, or half done of open tasks; what else is there is kept at a ref, and goes."""
    repo, onto = site.repo, site.scope.branch
    branches = {work.branch(onto, one.key) for one in site.documents.spec()[1].tasks}
    trees = {branch: number for number, branch in numbers(here).items()}
    form = "--format=%(objectname) %(refname:lstrip=2)"
    rows = repo.text("for-each-ref", form, f"refs/heads/{work.BRANCHES}").splitlines()
    for tip, branch in (row.split(" ", 1) for row in rows):
        if branch not in branches and branch not in trees:  # another branch's
            continue
        number = trees.setdefault(branch, 1 + max(trees.values(), default=0))
        tree = of(here, number) or make(here, number, branch)
        text = Documents(tree.root).read(SPEC) or site.documents.spec_text()
        tasks = enumerate(parse(text).tasks, 1)
        owners = ((at, task.key) for at, task in tasks if work.branch(onto, task.key) == branch)
        at, key = next(owners, (0, Key("", branch)))
        one = history.commit(repo, tip)
        base = one.parents[0] if one.parents and facts.ticks(repo, one, key) else tip
        done = read(tree, Job(key, at, base, branch, number, onto=onto, again=True))
        if done.commit or (done.under_way and branch in branches):
            yield done
        else:
            drop(site, here, done.job)


def drop(site: Site, here: Yard, job: Job) -> None:
    """The branch and its worktree; what was done there is kept at a ref."""
    repo, tree = site.repo, of(here, job.worker)
    if tree and refs.start(tree, job.branch):
        with session_in(site, tree) as there:
            steps.undo(there, steps.look(there))
    tip = repo.commit_id(f"refs/heads/{job.branch}")
    if repo.run("merge-base", "--is-ancestor", tip, "HEAD")[0]:
        site.warn(f"work is saved as {site.keep(job.key, 'finished', repo.tree(tip), tip)}")
    refs.delete(repo, f"refs/heads/{job.branch}")
    remove(here, job.worker, site.scope.base)


def tidy(site: Site, here: Yard, *, told: bool) -> int:
    """What is finished, or in progress in its worktree, stays; how many are in progress. `told`: of
    what was printed there, which stays too.
    """
    unfinished = [*left(site, here)]
    stays = {one.job.worker for one in unfinished}
    for number in numbers(here).keys() - stays:
        remove(here, number, None if told else site.scope.base)
    if not (stays or told):
        shutil.rmtree(here.folder, ignore_errors=True)
    return sum(one.under_way for one in unfinished)
