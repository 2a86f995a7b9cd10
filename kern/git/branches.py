"""Branches by their names: whether there is one, what it follows, a new one from here. No file of
the working tree is touched.
"""

from kern.errors import UsageError
from kern.git import history
from kern.git.repository import Head, Repo


def valid(repo: Repo, name: str) -> bool:
    """Whether git takes it for a new branch."""
    bad = name.startswith("-") or name == "HEAD"
    return not bad and repo.run("check-ref-format", f"refs/heads/{name}")[0] == 0


def exists(repo: Repo, name: str) -> bool:
    return repo.run("show-ref", "--verify", "--quiet", f"refs/heads/{name}")[0] == 0


def upstream(repo: Repo, name: str) -> str:
    """What it follows, as `origin/main`; empty where it follows nothing."""
    return repo.text("for-each-ref", "--format=%(upstream:short)", f"refs/heads/{name}").strip()


def begin(repo: Repo, name: str) -> None:
    """A new branch at HEAD, and HEAD on it; index and files stay as they are."""
    commit = repo.head().commit
    new = (f"refs/heads/{name}", commit, "0" * len(commit))
    code, _, said = repo.run("update-ref", "-m", "kern: new branch", *new)
    if code:
        why = (said.strip().splitlines() or ["it does not say why"])[-1].rpartition("': ")[2]
        raise UsageError(f"git begins no branch {name}: {why}", hint="kern --branch OTHER")
    history.switch_back(repo, Head(commit, name))
