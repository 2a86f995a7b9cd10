"""What every view begins with: the project in which it was called, read without writing a byte."""

from dataclasses import dataclass
from pathlib import Path

from kern.git import repository
from kern.git.repository import Repo
from kern.model import Tier
from kern.pipeline import facts, place, table
from kern.pipeline.facts import Situation
from kern.spec.file import Documents
from kern.spec.parse import Spec, Task, is_experiment
from kern.system import workspace
from kern.system.workspace import Scope


@dataclass(frozen=True, slots=True)
class Project:
    repo: Repo
    papers: Documents
    scope: Scope
    at: Situation
    parsed: Spec


def look(folder: Path) -> Project:
    repo = repository.open_at(folder, reading=True)
    return of(repo, place.documents(repo))


def of(repo: Repo, papers: Documents) -> Project:
    scope = workspace.scope(repo.root, repo.head().name, create=False)
    at = facts.look(place.Place(repo, scope, papers))
    return Project(repo, papers, scope, at, papers.spec()[1])


def tier(task: Task) -> Tier:
    """What the task's next attempt would be."""
    return table.tier(
        task.spent(table.ATTEMPTS),
        subtask=task.parent is not None,
        experiment=is_experiment(task.text),
    )
