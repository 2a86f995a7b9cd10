"""Where kern works, as far as reading goes: the repository, its two documents, its stage files."""

from dataclasses import dataclass

from kern.git import history
from kern.git.repository import Repo
from kern.model import SPEC
from kern.spec.file import Documents
from kern.system.workspace import Scope


@dataclass(frozen=True, slots=True)
class Place:
    repo: Repo
    scope: Scope
    documents: Documents


def documents(repo: Repo) -> Documents:
    """Those of a repository, which remembers what was done."""
    return Documents(repo.root, repo.scratch, history.finished(repo, SPEC))
