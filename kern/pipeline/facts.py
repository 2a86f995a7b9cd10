"""Reads SPEC.md, the stage files and git into the facts that the resume table decides by. Writes
nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kern import plain
from kern.git import history, refs
from kern.git.history import Commit
from kern.git.refs import StartRef
from kern.git.repository import Head, Repo
from kern.model import SPEC, Key, Marker, Saved, Stage, Tier
from kern.pipeline.table import ATTEMPTS, Do, Facts, Start, due, resume
from kern.spec import notes, order
from kern.spec.file import Documents
from kern.spec.parse import Kind, Spec, Task, is_experiment, parse
from kern.stages import record
from kern.stages.answer import Code
from kern.stages.briefs import task_name
from kern.stages.record import StageRecord
from kern.system.workspace import Scope


@dataclass(frozen=True, slots=True)
class Place:
    repo: Repo
    scope: Scope
    documents: Documents


def documents(repo: Repo) -> Documents:
    """Those of a repository, which remembers what was done."""
    return Documents(repo.root, repo.scratch, history.finished(repo, SPEC))


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts, and the values that they were read from."""

    facts: Facts
    head: Head
    key: Key | None  # the [~] task's, else the start ref's
    task: Task | None  # as SPEC.md has it now
    attempt: int
    start: StartRef | None
    files: Mapping[Stage, StageRecord]
    done: Commit | None  # the commit that ticks the task

    @property
    def opened(self) -> tuple[Key, Task]:
        """The task in progress, as SPEC.md has it."""
        assert self.key is not None and self.task is not None
        return self.key, self.task

    @property
    def second(self) -> StageRecord:
        """What stage 2 of this attempt came to."""
        return self.files[Stage.IMPLEMENT]

    @property
    def due(self) -> Tier:
        return due(self.facts)

    def wanted(self, parsed: Spec, words: str) -> Key:
        """The task that a person names for this run. Raises UsageError where it cannot be taken."""
        return order.can_begin(parsed, words, None if resume(self.facts) is Do.SELECT else self.key)


def look(here: Place, *, proved: str = "") -> Situation:
    """`proved`: stage2.json as this process wrote it when it proved the change."""
    _, parsed = here.documents.spec()
    head = here.repo.head()
    start = refs.start(here.repo, head.name)
    # Of several that a person has marked, the one that was begun.
    active = min(parsed.active, key=lambda one: not start or one.key != start.task, default=None)
    key = active.key if active else start.task if start else None
    task = parsed.find(key) if key else None
    ours = start if start and start.task == key else None
    attempt = active.attempts + 1 if active else start.attempt if start else 1
    records = files(here, key, attempt, ours) if key else {}
    first, second = (records.get(stage) for stage in (Stage.RESEARCH, Stage.IMPLEMENT))
    base = second.bound_to if second else ours.base if ours else first.base if first else ""
    commits = history.since(here.repo, base or head.commit, head.commit)
    done = _done(here, commits, key, second.commit if second else "") if key else None
    facts = Facts(
        active=active is not None,
        start=_start(start, key, attempt),
        done=done is not None,
        research=_research(first, task),
        noted=bool(task and task.of(Kind.RESEARCH)),
        saved=second.decision.saved if second else Saved.NONE,
        own=second is not None and second.written == proved,
        at_base=not base or base == head.commit,
        attempts=task.spent(ATTEMPTS) if task else 0,
        subtask=bool(task and task.parent is not None),
        experiment=bool(task and is_experiment(task.text)),
    )
    return Situation(facts, head, key, task, attempt, start, records, done)


def files(here: Place, key: Key, attempt: int, start: StartRef | None) -> dict[Stage, StageRecord]:
    """The stage files that count: of this task and, from stage 2 on, of this attempt."""
    records: dict[Stage, StageRecord] = {}
    for stage in Stage:
        one = record.read(here.scope, stage)
        if one and one.key == key and (stage is Stage.RESEARCH or one.attempt == attempt):
            records[stage] = one
    second = records.get(Stage.IMPLEMENT)
    # git's collector may have dropped what no ref holds.
    if second and not (
        record.counts(second, start, attempt) and all(map(here.repo.store.id, second.change))
    ):
        del records[Stage.IMPLEMENT]
        records.pop(Stage.COMMIT, None)
    return records


def _done(here: Place, commits: tuple[Commit, ...], key: Key, own_sha: str = "") -> Commit | None:
    """The commit that ticks the task: kern's, of that `own_sha`, else a person's, the newest."""
    done = [commit for commit in reversed(commits) if ticks(here.repo, commit, key)]
    own = next((commit for commit in done if commit.sha == own_sha), None)
    if own or not done:
        return own
    strays = history.moved(here.repo)  # an agent's, a gate's, a hook's: no proof
    return next((commit for commit in done if commit.sha not in strays), None)


def _start(start: StartRef | None, key: Key | None, attempt: int) -> Start:
    if start is None:
        return Start.NONE
    if start.task != key:
        return Start.OTHER
    return Start.NOTED if start.attempt < attempt else Start.OPEN


def _research(first: StageRecord | None, task: Task | None) -> Code | None:
    """A question too many stops nobody: what it found is handed on."""
    if first is None:
        return None
    code, reason = Code.NO_TASK if first.fault else first.answer.code, first.answer.reason
    asks = code is Code.NEEDS_ANSWER and task and not notes.objection(task, reason)
    return code if asks or code is Code.NO_TASK else Code.READY


# ---------------------------------------------------------------- git's testimony


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
    task = parse(plain.decode(data)).find(key)
    return task is not None and task.marker is Marker.DONE
