"""Reads SPEC.md, the stage files and git into the facts that the resume table decides by. Writes
nothing.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kern import (
    answer,
    experiment,
    filters,
    gates,
    guard,
    history,
    mask,
    questions,
    refs,
    workspace,
)
from kern.documents import SPEC, Documents
from kern.errors import KernError
from kern.history import Commit
from kern.pipeline import ATTEMPTS, Answered, Facts, Held, Research, Saved, Stage, Start, Tier, due
from kern.refs import StartRef
from kern.repo import Head, Repo
from kern.snapshot import Snapshots
from kern.spec import Key, Kind, Marker, Spec, Task
from kern.witness import Witness
from kern.workspace import Scope

StageFile = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts, and the values that they were read from."""

    facts: Facts
    head: Head
    key: Key | None  # the [~] task's, else the start ref's
    task: Task | None  # as SPEC.md has it now
    attempt: int
    start: StartRef | None
    other_branch: str  # where the start ref of the [~] task stands, if elsewhere
    files: Mapping[Stage, StageFile]
    base: str
    done: Commit | None  # the commit that ticks the task


class Observer:
    def __init__(self, repo: Repo, scope: Scope, papers: Documents, snapshots: Snapshots) -> None:
        self.repo = repo
        self.scope = scope
        self.papers = papers
        self.snapshots = snapshots
        self.witness = Witness(repo, snapshots, lambda: gates.made_in(scope))
        self._present: set[tuple[str, str]] = set()

    def look(self, *, reading: bool = False) -> Situation:
        """`reading`: leave out the one fact that cannot be told without writing git objects."""
        _, parsed = self.papers.spec()
        head = self.repo.head()
        start, other = self._starts(head, parsed)
        if start and start.guard:
            self.snapshots.know(start.tree, guard.hiding(self.repo, f"{start.guard}^{{tree}}"))
        active = parsed.active[0] if parsed.active else None
        key = active.key if active else start.task if start else None
        task = parsed.find(key) if key else None
        ours = start if start and start.task == key else None
        attempt = active.attempts + 1 if active else start.attempt if start else 1
        files = self._files(key, attempt) if key else {}
        second = files.get(Stage.IMPLEMENT)
        base = str(_kern(second).get("base") or "") if second else ""
        base = base or (ours.base if ours else "")
        base = base or str(_kern(files.get(Stage.RESEARCH)).get("base") or "")
        commits = self._since(base, head)
        done = self._done(commits, key) if key and base else self._done_at_tip(head, active)
        facts = Facts(
            active=active is not None,
            elsewhere=bool(other) and active is not None and Stage.RESEARCH not in files,
            start=_start(start, key, attempt),
            held=Held.GONE
            if task is None
            else Held.DONE
            if task.marker is Marker.DONE
            else Held.PENDING,
            done=done is not None,
            research=_research(files.get(Stage.RESEARCH), task),
            noted=bool(task and task.of(Kind.RESEARCH)),
            saved=_saved(second),
            answered=_answered(files.get(Stage.COMMIT)),
            at_base=not base or base == head.commit,
            attempts=task.spent(ATTEMPTS) if task else 0,
            subtask=bool(task and task.parent is not None),
            experiment=bool(task and experiment.is_one(task.text)),
        )
        if commits and key and not reading:
            tip = commits[-1]
            # What concludes an experiment changes nothing but the two documents.
            none = (tip.tree, tip.tree) if due(facts) is Tier.CONCLUDE else None
            change = none or (trees(second) if second else None)
            facts = replace(facts, bad_tip=self._bad(head, tip, key, base, change, ours))
        return Situation(facts, head, key, task, attempt, start, other, files, base, done)

    def _starts(self, head: Head, parsed: Spec) -> tuple[StartRef | None, str]:
        """The start ref of this branch; and where one of the `[~]` task stands, if elsewhere."""
        known = dict(refs.starts(self.repo))
        active = {task.key for task in parsed.active}
        here = known.pop(head.name, None)
        away = {branch: start for branch, start in known.items() if start.task in active}
        if here and here.task in active:
            return here, ""
        for branch, start in away.items():
            # An older kern worked on a detached HEAD, too: a branch made of it goes on with that.
            if (
                refs.detached(branch)
                and history.since(self.repo, start.base, head.commit) is not None
            ):
                return start, ""
        return here, next(iter(away), "")

    def _files(self, key: Key, attempt: int) -> dict[Stage, StageFile]:
        """The stage files that count: of this task and, from stage 2 on, of this attempt."""
        found: dict[Stage, StageFile] = {}
        for stage in Stage:
            value = load(self.scope, stage)
            if value is None or named(value) != key:
                continue
            if stage is Stage.RESEARCH or _kern(value).get("attempt") == attempt:
                found[stage] = value
        second = found.get(Stage.IMPLEMENT)
        if second is not None and not self._there(_kern(second)):
            del found[Stage.IMPLEMENT]
            found.pop(Stage.COMMIT, None)
        return found

    def _there(self, kern: Mapping[str, Any]) -> bool:
        """Whether git still has both trees: its collector may have dropped what no ref holds."""
        asked = (str(kern.get("start")), str(kern.get("tree")))
        if asked not in self._present:
            given = "".join(f"{tree}\n" for tree in asked).encode()
            told = self.repo.git("cat-file", "--batch-check", given=given).splitlines()
            if not all(b" tree " in line for line in told):
                return False
            self._present.add(asked)
        return True

    def _since(self, base: str, head: Head) -> tuple[Commit, ...]:
        if not base or base == head.commit:
            return ()
        commits = history.since(self.repo, base, head.commit)
        # History was rewritten: whatever stands there is a person's; the tip alone can tell of the
        # task.
        return commits if commits is not None else (history.commit(self.repo, head.commit),)

    def _done_at_tip(self, head: Head, active: Task | None) -> Commit | None:
        """Where no ref and no file tells the base: the tip, if SPEC.md was not written since. A
        task that a person took up again after its commit is not done.
        """
        if active is None:
            return None
        tip = history.commit(self.repo, head.commit)
        # Where the trailer alone tells, a twin of the same text may have been marked in that
        # second.
        leeway = 0 if self.repo.content(tip.sha, SPEC) is None else 1
        early = self.papers.written() < tip.seconds + leeway
        return self._done((tip,), active.key) if early else None

    def _done(self, commits: tuple[Commit, ...], key: Key) -> Commit | None:
        done = [commit for commit in reversed(commits) if self.witness.ticks(commit, key)]
        if not done:
            return None
        strays = history.marked(self.repo, "stage 2")  # an agent's, or a gate's: no proof
        return next((commit for commit in done if commit.sha not in strays), None)

    def _bad(
        self,
        head: Head,
        tip: Commit,
        key: Key,
        base: str,
        change: tuple[str, str] | None,
        start: StartRef | None,
    ) -> bool:
        """Whether HEAD's tip is a commit of stage 3 that is not the task's (row b); `change`: the
        snapshots before and after, where they are known.
        """
        if tip.sha not in history.marked(self.repo, "stage 3"):
            return False
        if history.since(self.repo, base, tip.sha) is None:
            # It rewrote what was there before.
            return history.moved_by(self.repo, head, base, "stage 3")
        if change is not None:
            return bool(self.witness.objection(tip, key, *change))
        if start is None or not tip.parents:
            return False
        # Without them only this can be told: does it carry what the person had uncommitted?
        own = filters.cleaned(self.repo, self.repo.changed(tip.parents[0], start.tree))
        carried = history.changed_by(self.repo, tip)
        return any(carried[path][1] == own[path][1] for path in carried.keys() & own.keys())


_ID = re.compile(r"[0-9a-f]{40,64}")
_IDS = {Stage.IMPLEMENT: ("base", "start", "tree")}


def load(scope: Scope, stage: Stage) -> StageFile | None:
    """The stage file, where it names git's objects as kern does."""
    value = workspace.load(scope, stage)
    ids = [str(_kern(value).get(name)) for name in _IDS.get(stage, ("base",))]
    return value if all(map(_ID.fullmatch, ids)) else None


def named(value: StageFile) -> Key:
    """The task that a stage file names."""
    kern = _kern(value)
    nth = kern.get("nth")
    return Key(
        str(kern.get("parent") or ""),
        str(kern.get("task") or ""),
        nth if isinstance(nth, int) else 1,
    )


def naming(key: Key) -> dict[str, object]:
    return {"task": key.text, "parent": key.parent, "nth": key.nth}


def _kern(value: StageFile | None) -> Mapping[str, Any]:
    return value["kern"] if value else {}


def trees(value: StageFile) -> tuple[str, str]:
    """The snapshots before and after the stage 2 that the file holds."""
    return str(_kern(value)["start"]), str(_kern(value)["tree"])


def day(value: StageFile) -> str:
    """The date of the walk: a resume past midnight must not write another."""
    return str(_kern(value).get("time"))[:10]


def said(value: StageFile | None) -> str:
    """`.result` of a stage file, as it may go into notes."""
    text = value.get("result") if value else None
    return mask.masked(text, mask.values(os.environ)) if isinstance(text, str) else ""


def lesson(value: StageFile) -> str:
    """What stage2.json of a task that is done has LEARNINGS.md say."""
    replied = answer.parse(Stage.IMPLEMENT, said(value))
    if replied.learned or not experiment.is_one(named(value).text):
        return replied.learned
    return experiment.worked(replied.body, str(_kern(value).get("proof") or ""))


def _start(start: StartRef | None, key: Key | None, attempt: int) -> Start:
    if start is None:
        return Start.NONE
    if start.task != key:
        return Start.OTHER
    if start.attempt == attempt:
        return Start.THIS
    return Start.EARLIER if start.attempt < attempt else Start.LATER


def _research(value: StageFile | None, task: Task | None) -> Research:
    if value is None:
        return Research.NONE
    if _kern(value).get("fault"):
        return Research.NO_TASK
    told = answer.parse(Stage.RESEARCH, said(value))
    match told.code:
        case answer.Code.NO_TASK:
            return Research.NO_TASK
        case answer.Code.NEEDS_ANSWER if task and not questions.objection(task, told.reason):
            return Research.ASKED
        case _:  # a question too many stops nobody: what it found is handed on
            return Research.READY


def _saved(value: StageFile | None) -> Saved:
    if value is None:
        return Saved.NONE
    outcome = str(_kern(value).get("outcome") or "")
    if not outcome:
        return Saved.OPEN
    word = outcome.partition(":")[0]
    try:
        return Saved(word)
    except ValueError:
        raise KernError(
            f"stage2.json holds an unknown outcome: {word}",
            hint='rm "$(kern path)/stage2.json", then run kern again',
        ) from None


def _answered(value: StageFile | None) -> Answered:
    if value is None:
        return Answered.NONE
    code = answer.parse(Stage.COMMIT, said(value)).code
    return Answered.REJECTED if code is answer.Code.REJECT else Answered.ANSWERED
