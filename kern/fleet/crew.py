"""What the workers do, as the journal tells of it while they are at work: seen by a person, and by
the run that has sent them.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kern.events import LimitReset, Sent
from kern.fleet import lanes
from kern.fleet.lanes import Lane, Picture
from kern.fleet.work import Job
from kern.journal import store
from kern.model import Outcome
from kern.pipeline.site import Site
from kern.pipeline.waits import RESET_MARGIN_S

Show = Callable[[Picture], None]
Tell = Callable[[Mapping[str, Any]], None]  # a worker's record, as it comes
_FOR_YOU = (Outcome.SKIPPED, Outcome.BLOCKED, Outcome.ASKED)
_TOLD_AGAIN_S = 60.0  # a limit that is put off by more


class Crew:
    """Of one run."""

    def __init__(self, site: Site, *, wait: bool) -> None:
        """`wait`: for the end of a limit."""
        self.sink, self.wait = site.sink, wait
        self.journal = store.Follower(store.place(site.repo.common_dir), site.caller.run)
        self.show: Show = lambda picture: None
        self.tell: Tell = lambda record: None
        self.picture = Picture()
        self.ends: dict[str, Mapping[str, Any]] = {}  # by a work branch: it begins, it ended so
        self.limit = 0.0  # when that of a worker ends, epoch seconds

    def follow(self) -> None:
        """What has come since."""
        now = time.time()
        for record in self.journal.new():
            before, self.picture = self.picture, lanes.after(self.picture, record, now)
            if record["kind"] in ("task", "work"):
                self.ends[str(record.get("branch"))] = record
            elif record["kind"] == "limit" and (until := record.get("until")):
                self._limited(str(record.get("text")), float(until))
            if self.picture.away != before.away:  # each worker waits by itself, and it is told once
                self.sink(lanes.outage(record))
            self.tell(record)

    def _limited(self, text: str, until: float) -> None:
        """Nothing begins until then; it is told once."""
        before, self.limit = self.limit, max(self.limit, until + RESET_MARGIN_S)
        if self.limit > before + _TOLD_AGAIN_S and self.wait:
            self.sink(LimitReset(text, max(until - time.time(), 0.0), until))

    def begins(self, job: Job, *, elsewhere: bool) -> None:
        if elsewhere:
            self.sink(Sent(job.key.text, job.worker))
        doing = lanes.SENT if elsewhere else lanes.BEGINS
        lane = Lane(job.worker, job.key.text, doing, time.time())
        self.picture = self.picture.having(lane)

    def idle(self, worker: int) -> None:
        self.picture = self.picture.having(Lane(worker))

    def count(self, outcome: Outcome) -> None:
        """A task that has come to that."""
        needs = self.picture.needs + (outcome in _FOR_YOU)
        done = self.picture.done + (outcome is Outcome.DONE)
        self.picture = replace(self.picture, needs=needs, done=done)

    @contextlib.contextmanager
    def landing(self, text: str) -> Iterator[None]:
        self.picture = replace(self.picture, landing=text, since=time.time())
        try:
            yield
        finally:
            self.picture = replace(self.picture, landing="")

    def draw(self, queue: Iterable[str], held: str, lying: str) -> None:
        self.picture = replace(self.picture, queue=(*queue,), held=held, lying=lying)
        self.show(self.picture)
