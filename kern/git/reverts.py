"""A commit taken back: its change out of HEAD's tree, where nothing uncommitted is in the way.

Nothing here decides whether that is wanted.
"""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from kern.git import faults, index
from kern.git.history import Commit
from kern.git.repository import Repo

_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_MOST = 20  # commits in a message


def without(repo: Repo, commit: Commit, keep: Sequence[str]) -> tuple[str, list[str]]:
    """HEAD's tree without the commit's change, or the paths in conflict; the `keep` files stay."""
    now = {path: repo.entry(commit.sha, path) for path in keep}
    above = repo.tree(commit.parents[0]) if commit.parents else ""
    before = repo.tree_with(above, now)
    return index.merge(repo, commit.sha, repo.head().commit, before)


def later(repo: Repo, commit: Commit, paths: Collection[str]) -> list[str]:
    """The commits since then that touch the paths, the newest first."""
    argv = ("log", f"-{_MOST}", "--no-show-signature", "--format=%h %s", f"{commit.sha}..HEAD")
    _, out, _ = repo.run(*argv, "--", *list(paths)[:_MOST], env=_LITERAL)
    return out.decode("utf-8", "replace").splitlines()


def changed(repo: Repo, paths: Collection[str]) -> list[str]:
    """Those that a person has changed, staged or put there and not committed: ignored or not, and
    marked in the index as unchanged or not.
    """
    argv = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored")
    names, head = sorted(paths), repo.head().commit
    # git does not look into a folder that is ignored as a whole.
    found = [p for p in names if _is_file(repo.root / p) and repo.entry(head, p) is None]
    with index.private(repo, copy=True) as env:
        if marked := [
            path for path, letters in index.flagged(repo, names).items() if "h" in letters
        ]:
            given = os.fsencode("\0".join([*marked, ""]))
            repo.git("update-index", "-z", "--no-assume-unchanged", "--stdin", given=given, env=env)
        for at in range(0, len(names), 500):
            raw = repo.git(*argv, "--", *names[at : at + 500], env={**env, **_LITERAL})
            found += [os.fsdecode(row[3:]) for row in raw.split(b"\0") if row]
    return found


def _is_file(place: Path) -> bool:
    return os.path.lexists(place) and (place.is_symlink() or not place.is_dir())


def committed(repo: Repo, tree: str, parent: str, message: str) -> str:
    """A commit of the person's, signed where they sign; no ref names it yet."""
    wants = repo.run("config", "--type=bool", "--get", "commit.gpgSign")[1].strip() == b"true"
    sign = ("-S",) if wants else ()
    argv = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", *sign, "-p", parent, tree)
    code, out, told = repo.run(*argv, given=message.encode("utf-8", "surrogateescape"))
    if code:
        raise faults.no_commit(told)
    return out.decode().strip()
