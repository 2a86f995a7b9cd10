"""git's testimony: whether a commit is the task's."""

from kern import plain
from kern.git.history import Commit
from kern.git.repository import Repo
from kern.model import SPEC, Key, Marker
from kern.spec.parse import parse
from kern.stages.briefs import task_name


def ticks(repo: Repo, commit: Commit, key: Key) -> bool:
    """Whether the commit is the witness of the task: its SPEC.md ticks it; where git does not track
    SPEC.md, its trailer names it.
    """
    now = repo.content(commit.sha, SPEC)
    if now is None:
        return commit.trailer == task_name(key)
    if not ticked(now, key):
        return False
    before = (repo.content(parent, SPEC) for parent in commit.parents)
    there = any(ticked(text, key) for text in before if text is not None)
    return not there or commit.trailer == task_name(key)


def ticked(data: bytes, key: Key) -> bool:
    """Whether that SPEC.md has the task done."""
    found = parse(plain.decode(data)).find(key)
    return found is not None and found.marker is Marker.DONE
