"""A person's commit that takes along the `[x]` which stands on the disk early, for stage 3 at work:
it tells nothing of the task.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from kern import plain
from kern.git import history
from kern.git.history import Commit
from kern.git.refs import StartRef
from kern.git.repository import Head
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline.place import Place
from kern.plain import decode
from kern.spec import checklist, edit
from kern.spec.checklist import Task
from kern.stages import record
from kern.stages.record import EarlyTick


def by(place: Place, begun: StartRef, head: Head, *, reading: bool) -> bool:
    """Whether a commit of HEAD's that is younger than that stage 2 merely takes the tick along."""
    began = history.commit(place.repo, begun.commit).seconds
    return any(
        commit.seconds >= began
        and place.witness.ticks(commit, begun.task)
        and not _proves(place, commit, begun.task, reading=reading)
        for commit in history.newest(place.repo, begun.base, head.commit)
    )


def without(
    place: Place,
    key: Key | None,
    attempt: int,
    commits: Sequence[Commit],
    standing: bool,
    *,
    reading: bool,
) -> tuple[Commit, ...]:
    """The commits whose tick can tell of the task; `standing`: a record of an early one is there
    still, else those that took one along are noted.
    """
    if key is None:
        return ()
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
