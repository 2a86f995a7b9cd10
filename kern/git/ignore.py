"""What git ignores, and what kern writes, which is in no change of a task's."""

import os

from kern.git.faults import GitFailed
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC

DOCUMENTS = (SPEC, LEARNINGS)
# Tools make them anew, and some believe what they find there.
REMADE = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/")


def bare(repo: Repo, tree: str) -> str:
    """The same, or a commit's, without kern's documents, which no gate is about."""
    return repo.tree_with(repo.tree(tree), dict.fromkeys(DOCUMENTS))


def left_out(path: str) -> bool:
    return path in DOCUMENTS or f"{path}/".startswith(".kern/")


def ignored(repo: Repo, *paths: str) -> set[str]:
    """Those that git leaves out; one that is committed never is."""
    head = repo.store.id("HEAD")
    asked = [path for path in paths if not (head and repo.entry(head, path))]
    if not asked:
        return set()
    argv = ("check-ignore", "-z", "--stdin")
    code, out, err = repo.run(*argv, given=os.fsencode("\0".join(asked)))
    if code not in (0, 1):
        raise GitFailed(argv, code, err)
    return {*os.fsdecode(out).split("\0")} - {""}


def outermost(repo: Repo) -> list[str]:
    """The files and, with a slash at the end, whole folders that git ignores, but for kern's own
    and what tools make anew.
    """
    how = ("-z", "--others", "--ignored", "--exclude-standard", "--directory")
    found: list[str] = []
    for path in sorted(repo.paths("ls-files", *how)):
        inside = found and found[-1].endswith("/") and path.startswith(found[-1])
        if not inside and not left_out(path) and not path.endswith(REMADE):
            found.append(path)
    return found
