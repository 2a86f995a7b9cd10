"""Worktrees below the output folder: made, used again, removed, and given what git does not bring.
Each has a worker's number.
"""

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from kern import plain
from kern.config import FILE, Gate
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.git.room import outermost
from kern.git.shadow import PROMPTS
from kern.many import Many
from kern.model import LEARNINGS, SPEC
from kern.pipeline import isolation, project, session
from kern.pipeline.site import Options, Site
from kern.spec.file import Documents
from kern.system import control, lock, process, workspace

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
    """Where they lie, and the kerns that are at work there. `repo`: whose worktrees they are, the
    person's tree or a bare repository; `home`: the person's tree, where it is on this machine.
    """

    repo: Repo
    folder: Path
    name: str  # of the project
    home: Repo | None = None
    many: Many | None = None  # what is copied from there; None: a room shows it
    at_work: dict[int, tuple[Popen[bytes], Repo]] = field(default_factory=dict)  # by number
    closed: bool = False  # none is to begin any more
    guard: threading.Lock = field(default_factory=threading.Lock)
    # Stops those on other machines, or with `True` ends them.
    afar: Callable[[bool], None] = lambda now: None

    def place(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}"

    def log(self, number: int) -> Path:
        """What its kern prints."""
        return self.folder / f"worker-{number}.log"

    def stop(self) -> None:
        """Before the next stage begins."""
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
        self.afar(True)
        for child in children:
            if child.poll() is None:
                child.terminate()


def yard(site: Site) -> Yard:
    """Raises UsageError where a worktree cannot get what it is to have."""
    repo, scope = site.repo, site.scope
    many: Many | None = site.caller.settings.fleet
    if site.sandbox and isolation.rooms(site.sandbox, repo, site.caller.settings):
        many = None
    else:
        check(repo, site.caller.settings.fleet)
    name = re.sub(r"[^\w.-]", "_", scope.project)[:100]
    # GitPython's processes and git's answering one belong to the thread that lands.
    own = Repo(repo.root, repo.git_dir, repo.common_dir, reading=True)
    return Yard(own, scope.folder / FOLDER, name, repo, many)


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
        remove(here, number)  # something else lies there, or git knows of what lay there
        argv = ("worktree", "add", "--quiet", "--force", "--force", *head)
        with here.guard:  # one by one
            code, _, said = here.repo.run(*argv, str(here.place(number)), commit)
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


def papers(site: Site, spec: str) -> tuple[tuple[str, str], ...]:
    """What a worktree has as the person's tree has it now."""
    prompts = site.repo.root / PROMPTS
    names = sorted(os.listdir(prompts)) if prompts.is_dir() else []
    paths = [LEARNINGS, FILE, *(f"{PROMPTS}/{name}" for name in names)]
    texts = ((path, site.papers.read(path)) for path in paths)
    return ((SPEC, spec), *((path, text) for path, text in texts if text is not None))


def equip(here: Yard, made: Repo, texts: Iterable[tuple[str, str]]) -> None:
    """With these papers, and copies of the person's ignored files. Raises KernError for what is not
    there or cannot be made.
    """
    for name, text in texts:
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        Documents(made.root).write(name, text)
    for source in _brought(here.home, here.many) if here.home and here.many else ():
        target = made.root / source.relative_to(here.repo.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        for argv in (["rm", "-rf", str(target)], [*_COPY, str(source), str(target)]):
            code, said = process.capture(argv, _COPY_S)
        if code:
            raise KernError(f"cannot copy {source} to {target}: {plain.last(said)}", hint=AGAIN)


def _brought(home: Repo, wanted: Many) -> list[Path]:
    """In the person's tree, whole folders by their names. Raises UsageError."""
    ignored, found = outermost(home), list[str]()
    for path in wanted.copy:
        inside = any(path.startswith(one) for one in ignored if one.endswith("/"))
        names = [one for one in ignored if f"{one}/".startswith(f"{path}/")]
        names = names or [path] * (inside and os.path.lexists(home.root / path))
        if not names:
            raise UsageError(
                f"worktree.copy in kern.toml names {path}: git ignores nothing there",
                hint="take it out of worktree.copy; what is committed each worktree has",
            )
        found += names
    if (home.root / INCLUDE).is_file():
        listing = ("ls-files", "-z", "--others", "--ignored", f"--exclude-from={INCLUDE}")
        chosen = home.git(*listing)
        out = home.run("check-ignore", "-z", "--stdin", given=chosen)[1] if chosen else b""
        found += [name for name in os.fsdecode(out).split("\0") if name]
    return [home.root / path for path in found]


def check(home: Repo, wanted: Many) -> None:
    """Raises UsageError for what no worktree can get, or would have its gates judge the person's
    tree: what is copied, and where Python and node find what was installed.
    """
    above = [Path(one).parent for one in os.environ.get("PATH", "").split(os.pathsep)]
    places = [
        *_brought(home, wanted),
        *(one for one in above if any((one / name).exists() for name in _ENVIRONMENT)),
        *Path.home().glob(".local/lib/python3*/site-packages"),
    ]
    leads = [(place, found) for place in places if (found := _back(home.root, place))]
    for name in ("PYTHONPATH", "NODE_PATH"):
        paths = map(Path, os.environ.get(name, "").split(os.pathsep))
        leads += [(Path(name), one) for one in paths if one.is_relative_to(home.root)]
    for place, found in leads:
        raise UsageError(
            f"{place} leads back to your tree ({found}): a worker would test your code",
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
    """One of the branch's newest commit, set up, with a session in it. Raises KernError."""
    made = make(here, PROVING, site.repo.head().commit, "--detach")
    try:
        equip(here, made, papers(site, site.papers.read(SPEC) or ""))
        own = site.options
        options = Options(allow_red=own.allow_red, leave=own.leave, tick=own.tick)
        how = {"empty": True, "commits": False, "paid": False, "lands": True}
        with session.begin(made.root, options, site.sink, **how) as apart:
            apart.caller.programs, apart.caller.heed = site.caller.programs, lambda: None
            if apart.rooms.place:
                apart.rooms.place.save = lambda known, now: None  # what gates leave is nobody's
            set_up(apart)
            yield apart
    finally:
        remove(here, PROVING, site.scope.base)


def tried(site: Site, gates: Iterable[Gate]) -> Iterator[str]:
    """A line for each that is red in a fresh worktree, where no room shows it all."""
    here = yard(site)
    if here.many:
        with fresh(site, here) as apart:
            tree = apart.repo.tree(apart.repo.head().commit)
            for gate in gates:
                ended = project.run_gate(apart, gate, tree)
                if ended.red:
                    told = f"is red in a fresh worktree, where -j works: {_LACKS}; cat {ended.log}"
                    yield f"{gate.label} {told}"


def set_up(site: Site) -> None:
    """By the project's command, once for each worktree, where it is held as a gate is. Raises
    UsageError.
    """
    wanted = site.caller.settings.fleet
    mark = site.repo.git_dir / _DONE
    if not wanted.setup or (mark.exists() and mark.read_text() == wanted.setup):
        return
    ended = site.gates.beside(Gate("setup", wanted.setup, wanted.setup_s, room=False))
    if ended.red:
        last = plain.last(ended.output) or "it printed nothing"
        raise UsageError(
            f"the worktree's setup `{wanted.setup}` failed ({ended.how}): {last}",
            hint=f"cat {ended.log}; worktree.setup in kern.toml",
        )
    workspace.replace(mark, wanted.setup.encode())
