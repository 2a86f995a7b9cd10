"""What a task changed, merged three-way onto another commit. SPEC.md and LEARNINGS.md are not
merged: they stay as that commit has them.
"""

from collections.abc import Collection, Iterable
from pathlib import PurePath

from kern.fleet.work import Work
from kern.git import index
from kern.git.ignore import DOCUMENTS
from kern.git.repository import Change, Repo

NAMES = ("branch", "task")  # of the two sides, where they are in conflict
_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}


def change(repo: Repo, work: Work) -> dict[str, Change]:
    return _changed(repo, work.base, work.commit)


def merged(repo: Repo, work: Work, onto: str) -> tuple[str, list[str]]:
    """The tree, and the paths in conflict: there both sides stand between markers. `onto`: a commit
    or a tree.
    """
    head = repo.tree(onto)
    ours, theirs = _changed(repo, work.base, head), change(repo, work)
    if not meeting(ours, theirs):
        return repo.tree_with(head, {path: new for path, (_, new) in theirs.items()}), []
    papers = {path: repo.entry(head, path) for path in DOCUMENTS}
    base = repo.tree_with(repo.tree(work.base), papers)
    task = repo.tree_with(repo.tree(work.commit), papers)
    return index.merged(repo, base, head, task, NAMES)


def meeting(mine: Iterable[str], theirs: Collection[str]) -> list[str]:
    """Those of mine that are theirs as well, or where one needs a folder and the other a file."""
    taken = {*theirs, *(folder for path in theirs for folder in _above(path))}
    return [path for path in mine if path in taken or any(one in theirs for one in _above(path))]


def other(repo: Repo, work: Work, head: str, paths: Iterable[str]) -> str:
    """The newest commit since the task was begun that touches the paths; else the newest."""
    argv = ("log", "-1", "--no-show-signature", "--format=%H", f"{work.base}..{head}", "--")
    _, out, _ = repo.run(*argv, *list(paths)[:20], env=_LITERAL)
    return out.decode().strip() or head


def _above(path: str) -> Iterable[str]:
    return map(str, PurePath(path).parents)


def _changed(repo: Repo, old: str, new: str) -> dict[str, Change]:
    return {path: both for path, both in repo.changed(old, new).items() if path not in DOCUMENTS}
