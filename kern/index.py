"""Trees made and merged through throw-away indexes, and careful edits of the person's index."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping

from kern import mask
from kern.errors import KernError
from kern.repo import Entry, GitFailed, Repo


@contextlib.contextmanager
def private(repo: Repo, *, copy: bool = False) -> Iterator[dict[str, str]]:
    """An index of kern's own, empty or a copy of the person's: the environment naming it."""
    folder = repo.scratch
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"index-{os.getpid()}-{time.monotonic_ns()}"
    try:
        if copy and (repo.git_dir / "index").exists():
            try:
                shutil.copyfile(repo.git_dir / "index", path)
            except OSError as exc:
                raise KernError(
                    f"cannot write {path}: {exc.strerror}",
                    hint="settle it (free some space), then run kern again: it resumes",
                ) from exc
        yield {"GIT_INDEX_FILE": str(path)}
    finally:
        for left in (path, path.with_name(path.name + ".lock")):
            left.unlink(missing_ok=True)


def update(
    repo: Repo, changes: Mapping[str, Entry | None], env: Mapping[str, str] | None = None
) -> None:
    """Set or remove entries; with no `env` in the person's own index. Removals first: a file
    may have become a folder.
    """
    if not changes:
        return
    ids = [entry.blob for entry in changes.values() if entry is not None]
    zero = "0" * len(ids[0] if ids else repo.head().commit)
    gone = [f"0 {zero}\t{p}" for p, e in changes.items() if e is None]
    new = [f"{e.mode} {e.blob}\t{p}" for p, e in changes.items() if e is not None]
    repo.git(
        "update-index",
        "-z",
        "--index-info",
        given=os.fsencode("\0".join([*gone, *new, ""])),
        env=env,
    )


def tree(repo: Repo) -> str:
    """The person's index as a tree, read from a copy."""
    with private(repo, copy=True) as env:
        return repo.text("write-tree", env=env)


def tree_with(repo: Repo, tree: str, changes: Mapping[str, Entry | None]) -> str:
    """The tree with some paths replaced or, where None, removed."""
    if not changes:
        return tree
    with private(repo) as env:
        repo.git("read-tree", tree, env=env)
        update(repo, changes, env)
        return repo.text("write-tree", env=env)


def flagged(repo: Repo) -> set[str]:
    """Entries that a person marked assume-unchanged (lower case) or skip-worktree: to write them
    anew would drop the mark.
    """
    records = repo.git("ls-files", "-z", "-v").split(b"\0")
    return {os.fsdecode(r[2:]) for r in records if r[:1] == b"S" or r[:1].islower()}


def reset(repo: Repo, tree: str) -> None:
    """The person's index as a whole from a tree, where nothing else makes it whole again."""
    repo.git("read-tree", tree)
    repo.run("update-index", "-q", "--refresh")


def read_into(repo: Repo, tree: str, env: Mapping[str, str]) -> None:
    """Fill a private index from a tree; what is known of unchanged files stays known."""
    repo.git("read-tree", "-i", "-m", tree, env=env)


def record(
    repo: Repo, message: str, tree: str, marks: Mapping[str, str], timeout: float
) -> tuple[int, str]:
    """`git commit` of exactly that tree, through a private index, the person's hooks included, with
    `marks` in their environment. Returns the exit code and what git and the hooks said. Raises
    TimeoutError.
    """
    with private(repo, copy=True) as env:
        read_into(repo, tree, env)
        code, out, err = repo.run(
            *("commit", "--allow-empty", "--quiet", "--file=-"),
            given=message.encode("utf-8", "surrogateescape"),
            env={**env, **marks},
            timeout=timeout,
        )
    said = (err + out.decode("utf-8", "replace")).strip()
    return code, mask.masked(said, mask.values(os.environ))


def merge(repo: Repo, base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Three-way merge of trees: the merged tree, or the paths in conflict."""
    root = repo.commit_object(base, (), "base\n")
    left = repo.commit_object(ours, (root,), "ours\n")
    right = repo.commit_object(theirs, (root,), "theirs\n")
    code, out, err = repo.run(
        *("-c", "merge.directoryRenames=false"),  # that would be a guess
        *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", left, right),
    )
    fields = [os.fsdecode(field) for field in out.split(b"\0")]
    if code == 0:
        return fields[0], []
    if code == 1:
        return "", sorted({field for field in fields[1:] if field})
    raise GitFailed(("merge-tree",), code, err)
