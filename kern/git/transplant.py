"""A commit made anew with another tree on another parent: what it says and who wrote it stay."""

import re

from kern.git import history
from kern.git.faults import GitFailed
from kern.git.repository import Repo

_KEPT = (b"author", b"encoding")


def transplanted(repo: Repo, commit: str, tree: str, parent: str, timeout: float = 0) -> str:
    """The person commits it now, and signs it where they sign; no ref names it yet. A signature of
    the old one says nothing of it, and no hook runs: the old commit's have. Raises KernError where
    it cannot be signed, and TimeoutError.
    """
    raw = repo.store.read(commit, "commit")
    if raw is None:
        raise GitFailed(("cat-file", "commit"), 128, f"fatal: git lacks the commit {commit}")
    header, _, message = raw.partition(b"\n\n")
    rows = re.findall(rb"^(\w+) (.*)$", header, re.M)
    fields = {name: value for name, value in rows if name in _KEPT}
    _, now = history.identity_now(repo)
    lines = [b"tree %s" % tree.encode(), b"parent %s" % parent.encode()]
    lines += [b"author %s" % fields.pop(b"author")]
    lines += [b"committer %s" % now.encode("utf-8", "surrogateescape")]
    lines += [b"%s %s" % field for field in fields.items()]
    made = repo.store.write("commit", b"\n".join(lines) + b"\n\n" + message)
    return history.sealed(repo, made, timeout)
