"""What a stage 3 at work has ticked early, read back: what stands so on the disk, and whether a
person's commit took it along, which tells nothing of the task.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from kern import plain
from kern.frozen import frozen
from kern.git import history, refs
from kern.git.history import Commit, Stray
from kern.git.refs import StartRef
from kern.git.repository import Head
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline.place import Place
from kern.plain import decode
from kern.spec import checklist, edit
from kern.spec.checklist import Spec, Task
from kern.stages import record
from kern.stages.record import EarlyTick


@frozen
class Early:
    """What a stage 3 wrote for a commit that did not come, and what it committed elsewhere."""

    place: Place
    key: Key
    made: EarlyTick
    strays: tuple[Stray, ...]
    stands: bool  # in the files of this branch


def ticked_early(
    here: Place, head: Head, parsed: Spec, start: StartRef | None, *, reading: bool
) -> Early | None:
    """On this branch, or on another from which HEAD was switched meanwhile."""
    for branch, begun in [(head.name, start)] if start else refs.starts(here.repo):
        assert begun is not None
        there = here if start else replace(here, scope=replace(here.scope, branch=branch))
        key = begun.task
        second = record.load(there.scope, Stage.IMPLEMENT)
        made = second.early if second and second.key == key else None
        if made is None:
            continue
        strays: Sequence[Stray] = ()
        if not reading:
            was = head.branch if start else "" if branch.startswith("HEAD-") else branch
            mark = f"kern {made.run} stage 3"
            strays = history.strays(here.repo, mark, Head(begun.base, was))
        task = parsed.find(key)
        done = task is not None and task.marker is Marker.DONE
        theirs = done and (
            not here.witness.ticked(head.commit, key)
            or _carried(there, begun, head, reading=reading)
        )
        if start or theirs or strays:
            return Early(there, key, made, tuple(strays), bool(start) or theirs)
    return None


def _carried(place: Place, begun: StartRef, head: Head, *, reading: bool) -> bool:
    """Whether a commit of HEAD's that is younger than that stage 2 merely takes the tick along."""
    began = history.commit(place.repo, begun.commit).seconds
    return any(
        commit.seconds >= began
        and place.witness.ticks(commit, begun.task)
        and not _proves(place, commit, begun.task, reading=reading)
        for commit in history.newest(place.repo, begun.base, head.commit)
    )


def not_carried(
    place: Place,
    key: Key,
    attempt: int,
    commits: Sequence[Commit],
    standing: bool,
    *,
    reading: bool,
) -> tuple[Commit, ...]:
    """The commits whose tick can tell of the task; `standing`: a record of an early one is there
    still, else those that took one along are noted.
    """
    past = record.carried(place.scope, key, attempt)
    last = max((at for at, commit in enumerate(commits, 1) if commit.sha in past), default=0)
    return tuple(
        commit
        for commit in commits[last:]
        if not standing or _proves(place, commit, key, reading=reading)
    )


def _proves(place: Place, commit: Commit, key: Key, *, reading: bool) -> bool:
    """`reading`: no git objects are written, which it takes to tell whether the work is in it."""
    second = None if reading else record.load(place.scope, Stage.IMPLEMENT)
    return place.witness.proves(commit, key, second.change if second else None)


def unrecorded(place: Place, key: Key) -> EarlyTick:
    """What stands in the two files as a stage 3 leaves them and HEAD lacks, where the record of it
    is gone, with all of /tmp perhaps.
    """
    head = place.repo.head().commit
    committed = checklist.parse(decode(place.repo.content(head, SPEC) or b""))
    _, parsed = place.papers.spec()
    task = parsed.find(key)
    chain = [task, *(parsed.tasks[index] for index in parsed.above(task))] if task else []

    def early(one: Task) -> bool:
        known = committed.find(one.key)
        return one.marker is Marker.DONE and (known is None or known.marker is not Marker.DONE)

    ticked = sum(1 for _ in takewhile(early, chain))
    before, text = place.repo.content(head, LEARNINGS), place.papers.read(LEARNINGS) or ""
    known_text = plain.lf(decode(before or b""))
    heading = re.compile(rf"## \d{{4}}-\d\d-\d\d - {re.escape(plain.line(key.text, 120))}\n")
    there = edit.learnings(known_text)
    new = [e for e in edit.learnings(plain.lf(text)) if heading.match(e) and e not in there]
    crlf = "\r\n" if "\r\n" in text else "\n"
    added = edit.appended(known_text, new).replace("\n", crlf)
    return EarlyTick("", ticked, added, new=before is None)
