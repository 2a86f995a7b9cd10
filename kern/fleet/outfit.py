"""What a worktree needs beyond what git has, so that agents can work in it and gates can run: files
of the person's tree that git ignores, links, and the project's setup command.
"""

import contextlib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kern import plain
from kern.checks.gates import Gates
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.fleet import origin
from kern.git import protected_files, repository
from kern.git.checkout import in_real_folder
from kern.git.repository import Repo
from kern.many import Many
from kern.pipeline import isolation, place, preflight
from kern.sandbox import view
from kern.spec.file import Documents
from kern.system import process, workspace

INCLUDE, IGNORE = ".worktreeinclude", ".gitignore"
COPY, LINK = "copy", "link"
_DEPENDENCIES = ("node_modules", "vendor", "bower_components")
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")  # in one of Python's, or conda's
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up


def equip(made: Repo, home: Repo, wanted: Many, *, shown: bool = False) -> None:
    """Copies and links from the person's working tree. `shown`: in its place is where a sandbox
    shows the worktree, so that nothing there needs a link. Raises KernError for what is not there
    or cannot be made.
    """
    brought = _brought(home, wanted)
    for path, how in brought:
        source, target = home.root / path, made.root / path
        try:
            _real(made.root, path, how)
            target.parent.mkdir(parents=True, exist_ok=True)
            if how == COPY:
                _copied(source, target)
            elif shown and target.is_symlink():  # where no sandbox held
                target.unlink()
            elif not (shown or os.path.lexists(target)):  # what git has there stays
                target.symlink_to(source, target_is_directory=source.is_dir())
        except OSError as exc:
            raise KernError(
                f"cannot {how} {path} into the worktree {target}: {exc.strerror or exc}",
                hint="fix it, then run kern again",
            ) from None
    linked = tuple(path for path, how in brought if how == LINK)
    installed = _installed(home, {path for path, _ in brought}) if shown else ()
    found = view.of(home.root, Path.home(), linked, installed)
    view.lay(made.git_dir, made.common_dir, found if shown else None)


def _installed(home: Repo, brought: Collection[str]) -> tuple[str, ...]:
    """Folders of dependencies that git ignores, beside those that are brought."""
    argv = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    found = (name.rstrip("/") for name in os.fsdecode(home.git(*argv)).split("\0"))
    return tuple(
        path
        for path in found
        if path
        and not any(path == one or path.startswith(f"{one}/") for one in brought)
        and (
            os.path.basename(path) in _DEPENDENCIES
            or any((home.root / path / name).exists() for name in _ENVIRONMENT)
        )
    )


def check(home: Repo, wanted: Many, *, shown: bool = False) -> None:
    """Raises UsageError for what no worktree can get, or would have its gates judge the person's
    tree. `shown`: see `equip`.
    """
    brought = _brought(home, wanted)
    if shown:
        return
    tree = origin.of(home.root, [home.root / path for path, _ in brought])
    for path, how in brought:
        if found := tree.traced(home.root / path, linked=how == LINK):
            raise _leads_back(
                f"[worktree] {how}: {path}", found, path, f"take {path} out of worktree.{how}"
            )
    for named, folder, instead in _environments():
        tree = origin.of(home.root, [folder])
        if found := tree.traced(folder, linked=True):
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
    return UsageError(
        f"{what} leads back to your tree ({plain.line(found, 160)}): a worker would test your code",
        hint=f'make it in the worktree: [worktree] setup = "{_remedy(path, found)}", and {instead}',
    )


def _remedy(path: str, found: str) -> str:
    """A command that makes it."""
    if found.endswith(("CMakeCache.txt",)):
        return f"cmake -S . -B {path}"
    if found.endswith((".pth", ".egg-link", "direct_url.json")):
        return f"python3 -m venv {path} && {path}/bin/pip install -e ."
    return "npm ci" if os.path.basename(path) == "node_modules" else "the command that makes it"


def write(made: Repo, texts: Iterable[tuple[str, str]]) -> None:
    """Documents by their paths, where the worktree has them otherwise."""
    papers = Documents(made.root)
    for name, text in texts:
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        if papers.read(name) != text:
            papers.write(name, text)


def _brought(home: Repo, wanted: Many) -> list[tuple[str, str]]:
    """Paths of the person's tree, each with how it gets there. Raises UsageError for one that
    kern.toml names and no worktree can get.
    """
    found = [(one, COPY) for path in wanted.copy for one in _ignored(home, path, COPY)]
    found += [(one, COPY) for one in (*_included(home), *_hooks(home))]
    return found + [(one, LINK) for path in wanted.link for one in _ignored(home, path, LINK)]


def _ignored(home: Repo, path: str, how: str) -> list[str]:
    """What git ignores of the path, whole folders by their names. The rest is git's to bring."""
    if not os.path.lexists(home.root / path):
        raise UsageError(
            f"{path} is not there, which worktree.{how} in kern.toml names",
            hint=f"make it, or take it out of worktree.{how}",
        )
    _real(home.root, path, how)
    argv = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    out = home.git(*argv, "--", path, env={"GIT_LITERAL_PATHSPECS": "1"})
    names = [name.rstrip("/") for name in os.fsdecode(out).split("\0") if name]
    if any(path == name or path.startswith(f"{name}/") for name in names):
        return [path]
    if not names or how == LINK:
        raise UsageError(
            f"git does not ignore {path}, which worktree.{how} in kern.toml names",
            hint=f"commit it, and each worktree has it; or add it to {IGNORE}",
        )
    return [one for one in names if not any(one.startswith(f"{name}/") for name in names)]


def _real(root: Path, path: str, how: str) -> None:
    """Raises UsageError where the path is another place's, behind a link."""
    if not in_real_folder(root, path, {"": True}):
        raise UsageError(
            f"{path} lies behind a link in {root}, which worktree.{how} in kern.toml names",
            hint=f"take it out of worktree.{how}: kern follows no link out of the tree",
        )


def _copied(source: Path, target: Path) -> None:
    """Over what is there; no link is followed on either side. What is no file is left out."""
    mine = source.lstat()
    theirs = target.lstat() if os.path.lexists(target) else None
    if theirs and os.path.samestat(mine, theirs):
        raise FileExistsError(errno.EEXIST, "it is the same file there")
    folder = stat.S_ISDIR(mine.st_mode)
    if theirs and not stat.S_ISDIR(theirs.st_mode):
        target.unlink()
    elif theirs and not folder:
        shutil.rmtree(target)
    if folder:
        target.mkdir(exist_ok=True)
        for entry in os.scandir(source):
            _copied(Path(entry.path), target / entry.name)
        shutil.copystat(source, target)
    elif stat.S_ISREG(mine.st_mode) or stat.S_ISLNK(mine.st_mode):
        shutil.copy2(source, target, follow_symlinks=False)


def _hooks(home: Repo) -> list[str]:
    """What git does not track of the folder where it looks for the person's hooks. Without it git
    commits in a worktree as if there were none.
    """
    folder = protected_files.hooks_in_tree(home)
    if folder is None or folder == home.root:
        return []
    out = home.git("ls-files", "-z", "--others", "--", os.path.relpath(folder, home.root))
    return [name for name in os.fsdecode(out).split("\0") if name]


def _included(home: Repo) -> list[str]:
    """The files that `.worktreeinclude` matches, in .gitignore's own language, and git ignores."""
    if not (home.root / INCLUDE).is_file():
        return []
    matched = home.git("ls-files", "-z", "--others", "--ignored", f"--exclude-from={INCLUDE}")
    if not matched:
        return []
    code, out, said = home.run("check-ignore", "-z", "--stdin", given=matched)
    if code > 1:
        raise KernError(f"git cannot say what it ignores: {said.strip()}")
    return [name for name in os.fsdecode(out).split("\0") if name]


# ---------------------------------------------------------------- the setup command


def due(made: Repo, command: str) -> bool:
    """Whether the worktree is still to be set up, by this command."""
    with contextlib.suppress(KernError):
        return bool(command) and workspace.read(made.git_dir / _DONE) != command.encode()
    return bool(command)


def main() -> None:
    """In the worktree: `setup SECONDS COMMAND KERN…` sets it up, then becomes that kern. A process
    of its own, since what it starts is ended with it, and runs where gates run.
    """
    seconds, command, *argv = sys.argv[1:]
    try:
        _set_up(Path.cwd(), command, float(seconds))
    except KernError as exc:
        print(f"kern: {exc}\n  hint: {exc.hint}", file=sys.stderr, flush=True)
        sys.exit(exc.exit_code)
    os.execv(argv[0], argv)


def _set_up(root: Path, command: str, seconds: float) -> None:
    made = repository.open_at(root)
    settings = preflight.settings(made, place.documents(made))
    own = preflight.person_settings(root)
    scope = workspace.scope(root, made.head().name)
    wanted = isolation.wanted(made, scope, (), own, settings.holding)
    if wanted.view:  # what it is there to make must not be in its way
        wanted = replace(wanted, view=replace(wanted.view, installed=()))
    with isolation.ready(wanted, isolation.mode("", own), lambda event: None) as held:
        mark = ("KERN_RUN_ID", f"setup-{os.getpid()}")
        gates = Gates(root, scope, mark[1], mark, process.unwatched, held.confine)
        ended = gates.run(Gate("setup", command, seconds), "")
    if ended.red:
        last = plain.last(ended.output) or "it printed nothing"
        kept = root.parent / f"{root.name}-setup.log"  # beside the worktree, which goes
        shutil.copyfile(ended.log, kept)
        raise UsageError(
            f"the worktree's setup `{command}` failed ({ended.how}): {last}",
            hint=f"cat {kept}; worktree.setup in kern.toml",
        )
    workspace.replace(made.git_dir / _DONE, command.encode())


if __name__ == "__main__":
    main()
