"""What a worktree needs beyond what git has, so that agents can work in it and gates can run: files
of the person's tree that git ignores, links, and the project's setup command.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from kern import plain
from kern.checks.gates import Gates
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.many import Many
from kern.pipeline import isolation, place, preflight, trust
from kern.spec.documents import Documents
from kern.system import process, workspace

INCLUDE = ".worktreeinclude"
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up


def equip(made: Repo, home: Repo, wanted: Many) -> None:
    """Copies and links from the person's working tree. Raises KernError for one that is not there
    or cannot be made.
    """
    for path in (*wanted.copy, *_included(home)):
        _brought(home.root / path, made.root / path, path, "copy")
    for path in wanted.link:
        _brought(home.root / path, made.root / path, path, "link")


def write(made: Repo, texts: Iterable[tuple[str, str]]) -> None:
    """Documents by their paths, where the worktree has them otherwise."""
    papers = Documents(made.root)
    for name, text in texts:
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        if papers.read(name) != text:
            papers.write(name, text)


def _brought(source: Path, target: Path, path: str, how: str) -> None:
    if not os.path.lexists(source):
        raise KernError(
            f"{path} is not there, which worktree.{how} in kern.toml names",
            hint=f"make it, or take it out of worktree.{how}",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if how == "link":
            if not os.path.lexists(target):  # what git has there stays
                target.symlink_to(source, target_is_directory=source.is_dir())
        elif source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            target.unlink(missing_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    except OSError as exc:
        raise KernError(
            f"cannot {how} {path} into the worktree {target}: {exc.strerror or exc}",
            hint="fix it, then run kern again",
        ) from None


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
    refused: list[str] = []
    if os.environ.get("KERN_TRUST") != "1":
        known = trust.known(trust.place(made)) or ()
        refused = [line for line in settings.holding.asks if line not in known]
    wanted = isolation.wanted(made, scope, (), own, settings.holding, refused)
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
