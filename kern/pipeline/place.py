"""Where kern works, as far as reading goes: the repository, its two documents, its stage files."""

from kern.frozen import frozen
from kern.git import history
from kern.git.repository import Repo
from kern.git.snapshot import Snapshots
from kern.model import SPEC
from kern.pipeline.witness import Witness
from kern.spec.file import Documents
from kern.system.workspace import Scope


@frozen
class Place:
    repo: Repo
    scope: Scope
    papers: Documents
    snapshots: Snapshots
    witness: Witness


def of(repo: Repo, scope: Scope, papers: Documents, large_file: float = 50) -> Place:
    """`large_file`: see `Snapshots`."""
    snapshots = Snapshots(repo, large_file)
    return Place(repo, scope, papers, snapshots, Witness(repo, snapshots, scope))


def documents(repo: Repo, *, bare: bool = False) -> Documents:
    """Those of a repository, which remembers what was done."""
    return Documents(repo.root, repo.scratch, history.finished(repo, SPEC), bare=bare)
