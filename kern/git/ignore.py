"""What git ignores, and what kern writes, which is in no change of a task's."""

import os

from kern.git.faults import GitFailed
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC

DOCUMENTS = (SPEC, LEARNINGS)


def bare(repo: Repo, tree: str) -> str:
    """The same, or a commit's, without kern's documents, which no gate is about."""
    return repo.tree_with(repo.tree(tree), dict.fromkeys(DOCUMENTS))


def left_out(path: str) -> bool:
    return path in DOCUMENTS or f"{path}/".startswith(".kern/")


def ignored(repo: Repo, *paths: str) -> set[str]:
    """Those that git leaves out; a tracked one is never ignored."""
    argv = ("check-ignore", "-z", "--stdin")
    code, out, err = repo.run(*argv, given=os.fsencode("\0".join(paths)))
    if code not in (0, 1):
        raise GitFailed(argv, code, err)
    return {*os.fsdecode(out).split("\0")} - {""}
