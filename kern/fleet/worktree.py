"""The worktrees of a branch's workers, below the output folder: made, used again, removed. Each is
on its work branch; git's own files tell all of it. Where no room shows a worker what git ignores in
the person's tree, it gets copies, and the project's setup command.
"""

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kern import plain
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.fleet import origin, work
from kern.git import refs
from kern.git.repository import Repo
from kern.many import Many
from kern.pipeline.site import Site
from kern.spec.file import Documents
from kern.system import process, workspace
from kern.system.workspace import Scope

FOLDER = ".fleet"  # below the scope's; no branch has such a name
INCLUDE = ".worktreeinclude"
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")  # in one of Python's, or conda's
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up
_COPY = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")
_COPY_S = 600.0
_UNSAID = "git does not say why"
_NUMBER = re.compile(r"-(\d+)$")


@dataclass(frozen=True, slots=True)
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
            _submodules(there)
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
    _submodules(made)
    return made


def _one_by_one(here: Yard, argv: Sequence[str]) -> tuple[int, str]:
    with here.one:
        code, _, said = here.repo.run(*argv)
    return code, said


def _missing(folder: Path) -> list[Path]:
    return [] if folder.exists() else [folder, *_missing(folder.parent)]


def _submodules(made: Repo) -> None:
    """As git does: from where .gitmodules says, each at its commit."""
    if (made.root / ".gitmodules").exists():
        code, _, said = made.run("submodule", "update", "--init", "--recursive", "--quiet")
        if code:
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


# ---------------------------------------------------------------- what git does not bring


def equip(made: Repo, home: Repo, wanted: Many) -> None:
    """Copies of the person's ignored files, where no room shows them. Raises KernError for what is
    not there or cannot be made.
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
            raise KernError(
                f"cannot copy {path} into the worktree {target}: {plain.last(said)}",
                hint="fix it, then run kern again",
            )


def check(home: Repo, wanted: Many) -> None:
    """Raises UsageError for what no worktree can get, or would have its gates judge the person's
    tree.
    """
    brought = [home.root / path for path in _brought(home, wanted)]
    tree = origin.of(home.root, brought)
    for place in brought:
        if found := tree.traced(place, linked=False):
            path = os.path.relpath(place, home.root)
            instead = f"take {path} out of worktree.copy"
            raise _leads_back(f"[worktree] copy: {path}", found, path, instead)
    for named, folder, instead in _environments():
        if found := origin.of(home.root, [folder]).traced(folder, linked=True):
            raise _leads_back(named, found, ".venv", instead)
    for variable in ("PYTHONPATH", "NODE_PATH"):
        for name in os.environ.get(variable, "").split(os.pathsep):
            if os.path.isabs(name) and Path(name).is_relative_to(home.root):
                raise _leads_back(variable, name, ".venv", f"unset {variable}")


def _environments() -> Iterator[tuple[str, Path, str]]:
    """Where Python finds what was installed, whatever the tree: what names the place, the place,
    and what a person does about it.
    """
    for name in os.environ.get("PATH", "").split(os.pathsep):
        folder = Path(name).parent
        if os.path.isabs(name) and any((folder / one).exists() for one in _ENVIRONMENT):
            yield f"PATH: {folder}", folder, "take it off PATH: deactivate"
    for folder in Path.home().glob(".local/lib/python3*/site-packages"):
        yield str(folder), folder, "uninstall it there: pip uninstall"


def _leads_back(what: str, found: str, path: str, instead: str) -> UsageError:
    made = "the command that makes it"
    if found.endswith((".pth", ".egg-link", "direct_url.json")):
        made = f"python3 -m venv {path} && {path}/bin/pip install -e ."
    elif os.path.basename(path) == "node_modules":
        made = "npm ci"
    return UsageError(
        f"{what} leads back to your tree ({plain.line(found, 160)}): a worker would test your code",
        hint=f'make it in the worktree: [worktree] setup = "{made}", and {instead}',
    )


def _brought(home: Repo, wanted: Many) -> list[str]:
    """Paths of the person's tree. Raises UsageError for one that kern.toml names and no worktree
    can get.
    """
    found = [one for path in wanted.copy for one in _ignored(home, path)]
    if (home.root / INCLUDE).is_file():
        matched = home.git("ls-files", "-z", "--others", "--ignored", f"--exclude-from={INCLUDE}")
        ignored = home.run("check-ignore", "-z", "--stdin", given=matched)[1] if matched else b""
        found += [name for name in os.fsdecode(ignored).split("\0") if name]
    return found


def _ignored(home: Repo, path: str) -> list[str]:
    """What git ignores of the path, whole folders by their names. The rest is git's to bring."""
    if not os.path.lexists(home.root / path):
        raise UsageError(
            f"{path} is not there, which worktree.copy in kern.toml names",
            hint="make it, or take it out of worktree.copy",
        )
    above = os.path.dirname(home.root / path)
    if os.path.realpath(above) != above:
        raise UsageError(
            f"{path} lies behind a link in {home.root}, which worktree.copy in kern.toml names",
            hint="take it out of worktree.copy: kern follows no link out of the tree",
        )
    argv = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    out = home.git(*argv, "--", path, env={"GIT_LITERAL_PATHSPECS": "1"})
    names = [name.rstrip("/") for name in os.fsdecode(out).split("\0") if name]
    if any(path == name or path.startswith(f"{name}/") for name in names):
        return [path]
    if not names:
        raise UsageError(
            f"git does not ignore {path}, which worktree.copy in kern.toml names",
            hint="commit it, and each worktree has it; or add it to .gitignore",
        )
    return [one for one in names if not any(one.startswith(f"{name}/") for name in names)]


def write(made: Repo, texts: Iterable[tuple[str, str]]) -> None:
    """Documents by their paths, where the worktree has them otherwise."""
    papers = Documents(made.root)
    for name, text in texts:
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        if papers.read(name) != text:
            papers.write(name, text)


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


# ---------------------------------------------------------------- what is kept of it


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
