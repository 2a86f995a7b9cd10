"""What a worktree needs beyond what git has, so that agents can work in it and gates can run: files
of the person's tree that git ignores, links, and the project's setup command.
"""

import contextlib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterable
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
from kern.spec.documents import Documents
from kern.system import process, workspace

INCLUDE, IGNORE = ".worktreeinclude", ".gitignore"
COPY, LINK = "copy", "link"
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up


def equip(made: Repo, home: Repo, wanted: Many) -> None:
    """Copies and links from the person's working tree. Raises KernError for one that is not there
    or cannot be made.
    """
    for path, how in _brought(home, wanted):
        source, target = home.root / path, made.root / path
        try:
            _real(made.root, path, how)
            target.parent.mkdir(parents=True, exist_ok=True)
            if how == COPY:
                _copied(source, target)
            elif not os.path.lexists(target):  # what git has there stays
                target.symlink_to(source, target_is_directory=source.is_dir())
        except OSError as exc:
            raise KernError(
                f"cannot {how} {path} into the worktree {target}: {exc.strerror or exc}",
                hint="fix it, then run kern again",
            ) from None


def check(home: Repo, wanted: Many) -> None:
    """Raises UsageError for what no worktree can get, or would have its gates judge the person's
    tree.
    """
    brought = _brought(home, wanted)
    tree = origin.of(home.root, [home.root / path for path, _ in brought])
    for path, how in brought:
        if found := tree.traced(home.root / path, linked=how == LINK):
            raise UsageError(
                f"[worktree] {how}: {path} leads back to your tree ({plain.line(found, 160)}): "
                "a worker would test your code",
                hint=f'make it in the worktree: [worktree] setup = "{_remedy(path, found)}", and '
                f"take {path} out of worktree.{how}",
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
