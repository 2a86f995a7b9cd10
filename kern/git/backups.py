"""Where hook frameworks keep what they take out of the working tree while they run: read, never
written.
"""

import os
import shlex
from collections.abc import Collection, Iterator
from pathlib import Path

from kern.git.repository import Repo

_STASHES = ("lint-staged automatic backup", "lefthook auto backup")
_PAPERS = ("--exclude=SPEC.md", "--exclude=LEARNINGS.md")  # kern's to write
_LEFTHOOK = ("lefthook*", ".lefthook*", ".config/lefthook*")  # its settings
_MOST = 50  # patches; pre-commit never deletes one


def commands(repo: Repo, paths: Collection[str], since: float, home: Path) -> list[str]:
    """What to type for what was saved of the paths since then and is missing in the working tree,
    with the framework's name. `home`: that hooks have in place of the person's.
    """
    found: dict[str, str] = {}
    patches = sorted(_patches(repo, since, home), reverse=True)
    for _, name, argv in patches[:_MOST]:
        if name not in found and _missing(repo, argv, paths):
            found[name] = shlex.join(("git", "apply", *argv))
    for ref, name, commit in _stashes(repo, since):
        if repo.changed(f"{commit}^", commit).keys() & {*paths}:
            found.setdefault(name, f"git stash apply {ref}")
    return [f"{name}: {command}" for name, command in sorted(found.items())]


def folders(repo: Repo) -> tuple[Path, ...]:
    """Where hooks of this project write them, in git's folder: lefthook beside what git obeys."""
    has_lefthook = any(True for name in _LEFTHOOK for _ in repo.root.glob(name))
    return (repo.common_dir / "info",) if has_lefthook else ()


def _pre_commit() -> Path:
    """It holds all that pre-commit installs, too."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("PRE_COMMIT_HOME") or f"{cache}/pre-commit").expanduser()


def _patches(repo: Repo, since: float, home: Path) -> Iterator[tuple[float, str, tuple[str, ...]]]:
    """When each was written, whose it is, and how `git apply` is to read it."""
    places = {
        "pre-commit": [
            path
            for folder in (_pre_commit(), home / ".cache/pre-commit")
            for path in folder.glob("patch[0-9]*-[0-9]*")
        ],
        "lint-staged": [repo.git_dir / "lint-staged_unstaged.patch"],
        "lefthook": [*repo.common_dir.glob("info/lefthook-unstaged*.patch")],
    }
    for name, files in places.items():
        bare = () if name == "pre-commit" else ("--unidiff-zero",)  # patches without context
        for path in files:
            if path.is_file() and (when := path.stat().st_mtime) >= since:
                yield when, name, (*bare, str(path))


def _missing(repo: Repo, argv: tuple[str, ...], paths: Collection[str]) -> bool:
    """Whether the patch is of one of the paths, and applies: then it is not there."""
    code, out, _ = repo.run("apply", "--numstat", "-z", *_PAPERS, *argv)
    named = {os.fsdecode(row).split("\t")[-1] for row in out.split(b"\0")}
    if code or not named & {*paths}:
        return False
    return repo.run("apply", "--check", *_PAPERS, *argv)[0] == 0


def _stashes(repo: Repo, since: float) -> Iterator[tuple[str, str, str]]:
    """Each one's name, whose it is, and its commit."""
    form = "--format=%gd%x09%H%x09%ct%x09%gs"
    code, out, _ = repo.run(
        "log", "--walk-reflogs", "--no-show-signature", form, "refs/stash", "--"
    )
    for line in out.decode("utf-8", "replace").splitlines() if not code else ():
        ref, commit, when, said = line.split("\t", 3)
        if said.endswith(_STASHES) and int(when) >= since:
            yield ref, said.rpartition(": ")[2].split()[0], commit
