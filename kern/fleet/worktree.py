"""Worktrees below the output folder: made, used again, removed, and given what git does not bring.
Each has a worker's number.
"""

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from kern import plain
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.many import Many
from kern.pipeline.site import Site
from kern.system import control, lock, process, workspace
from kern.system.workspace import Scope

FOLDER = ".fleet"  # below the scope's; no branch has such a name
PROVING = 0  # the number of the landing's own
AGAIN = "fix it, then run kern again: what was begun is resumed"
INCLUDE = ".worktreeinclude"
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up
_COPY = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")
_COPY_S = 600.0
# Where Python and builds keep paths of what was installed or configured.
_NAMING = ("*.pth", "*.egg-link", "__editable__*", "CMakeCache.txt")
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")  # in one of Python's, or conda's


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


def equip(made: Repo, home: Repo, wanted: Many) -> None:
    """Copies of the person's ignored files. Raises KernError for what is not there or cannot be
    made.
    """
    for path in _brought(home, wanted):
        source, target = home.root / path, made.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        code, said = process.capture([*_COPY, str(source), str(target)], _COPY_S)
        if code:
            raise KernError(f"cannot copy {path} to {target}: {plain.last(said)}", hint=AGAIN)


def _brought(home: Repo, wanted: Many) -> list[str]:
    """Paths of the person's tree, whole folders by their names. Raises UsageError."""
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    listing = ("ls-files", "-z", "--others", "--ignored", "--directory")
    found = list[str]()
    for path in wanted.copy:
        code, out, said = home.run(*listing, "--exclude-standard", "--", path, env=literal)
        names = [name.rstrip("/") for name in os.fsdecode(out).split("\0") if name]
        above = os.path.dirname(home.root / path)
        if code or not names or os.path.realpath(above) != above:
            why = plain.last(said) or "git ignores nothing there, or a link leads to it"
            raise UsageError(
                f"worktree.copy in kern.toml names {path}: {why}",
                hint="take it out of worktree.copy; what is committed each worktree has",
            )
        inside = any(path == name or path.startswith(f"{name}/") for name in names)
        found += [path] if inside else names
    if (home.root / INCLUDE).is_file():
        matched = home.git(*listing[:-1], f"--exclude-from={INCLUDE}")
        ignored = home.run("check-ignore", "-z", "--stdin", given=matched)[1] if matched else b""
        found += [name for name in os.fsdecode(ignored).split("\0") if name]
    return found


def check(home: Repo, wanted: Many) -> None:
    """Raises UsageError for what no worktree can get, or would have its gates judge the person's
    tree: what is copied, and where Python and node find what was installed.
    """
    above = [Path(one).parent for one in os.environ.get("PATH", "").split(os.pathsep)]
    places = [
        *(home.root / one for one in _brought(home, wanted)),
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
