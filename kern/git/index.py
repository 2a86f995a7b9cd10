"""Trees merged, and edits of an index: a throw-away one, or the person's."""

import contextlib
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping

from kern.errors import KernError
from kern.git.faults import GitFailed
from kern.git.repository import Entry, Repo


@contextlib.contextmanager
def private(repo: Repo, *, copy: bool = False) -> Iterator[dict[str, str]]:
    """An index of kern's own, empty or a copy of the person's: the environment naming it."""
    repo.scratch.mkdir(parents=True, exist_ok=True)
    path = repo.scratch / f"index-{os.getpid()}-{time.monotonic_ns()}"
    try:
        if copy and (repo.git_dir / "index").exists():
            try:
                shutil.copyfile(repo.git_dir / "index", path)
            except OSError as exc:
                raise KernError(
                    f"cannot write {path}: {exc.strerror}",
                    hint="fix it (free some space), then run kern again: it resumes",
                ) from exc
        yield {"GIT_INDEX_FILE": str(path)}
    finally:
        for left in (path, path.with_name(path.name + ".lock")):
            left.unlink(missing_ok=True)


def update(
    repo: Repo, changes: Mapping[str, Entry | None], env: Mapping[str, str] | None = None
) -> None:
    """Set or remove entries; with no `env` in the person's own index. Removals first: a file may
    have become a folder.
    """
    if changes:
        zero = "0" * len(repo.head().commit)
        gone = [f"0 {zero}\t{p}\0" for p, e in changes.items() if e is None]
        new = [f"{e.mode} {e.blob}\t{p}\0" for p, e in changes.items() if e is not None]
        given = os.fsencode("".join([*gone, *new]))
        repo.git("update-index", "-z", "--index-info", given=given, env=env)


def entries(repo: Repo, *paths: str) -> dict[str, Entry]:
    """Those of the person's own index."""
    rows = repo.paths("ls-files", "--stage", "-z", "--", *(f":(top,literal){p}" for p in paths))
    fields = (row.partition("\t") for row in rows)
    return {path: Entry(*about.split(" ")[:2]) for about, _, path in fields}


def unmerged(repo: Repo) -> bool:
    return bool(repo.git("ls-files", "--unmerged"))


_MOST_ASKED = 50  # paths in one command line


def flagged(repo: Repo, paths: Collection[str]) -> dict[str, str]:
    """Entries of the person's index that are marked, these paths or more, each with git's letter:
    `S` for skip-worktree, a small one for assume-unchanged.
    """
    if not paths:
        return {}
    some = [f":(top,literal){path}" for path in paths] if len(paths) <= _MOST_ASKED else []
    rows = repo.paths("ls-files", "-z", "-v", "--", *some)
    return {row[2:]: row[0] for row in rows if row[0] == "S" or row[0].islower()}


def merge(repo: Repo, base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Three-way merge of trees, as git merges: the merged tree, or the paths in conflict."""
    tree, conflicts = merged(repo, base, ours, theirs)
    return "" if conflicts else tree, conflicts


def merged(
    repo: Repo, base: str, ours: str, theirs: str, names: tuple[str, str] = ("ours", "theirs")
) -> tuple[str, list[str]]:
    """The same, with the tree in a conflict too: both sides stand there between markers with their
    `names`.
    """
    root = repo.commit_object(base, (), "base\n")
    sides = [repo.commit_object(tree, (root,), "side\n") for tree in (ours, theirs)]
    guesses = ("-c", "merge.directoryRenames=false")
    how = ("--write-tree", "-z", "--name-only", "--no-messages")
    code, out, err = repo.run(*guesses, "merge-tree", *how, *sides)
    if code not in (0, 1):
        raise GitFailed(("merge-tree",), code, err)
    tree, *paths = os.fsdecode(out).rstrip("\0").split("\0")
    changes = dict[str, Entry | None]()
    for path in paths if code else ():
        if there := repo.entry(tree, path):
            text = repo.data(there.blob)
            for name, side in zip(names, sides, strict=True):
                text = text.replace(side.encode(), name.encode())
            changes[path] = Entry(there.mode, repo.blob(text))
    return repo.tree_with(tree, changes), sorted({*paths})
