"""What a run waits for and no person has to settle: a usage limit's reset, and an API that is
away; both for as long as `max_wait` says.
"""

import contextlib
import random
import time
from collections.abc import Iterator

from kern import events, plain
from kern.errors import LimitReached, Outage
from kern.events import Event, Record
from kern.pipeline.site import Site

UNKNOWN_WAIT_S = 900.0  # where a limit does not say when it ends
RESET_MARGIN_S = 5.0


class Waits:
    """Of one run."""

    def __init__(self, site: Site) -> None:
        self.caller, self.steered, self.options = site.caller, site.steered, site.options
        self.most = site.caller.settings.max_wait if site.options.wait else 0.0
        self.outage: Record | None = None  # the last wait for the API
        self.count, self.waited = 0, 0.0  # for one limit, or one outage

    @contextlib.contextmanager
    def patience(self) -> Iterator[None]:
        """Around what asks an agent. Where a limit or an outage ends that it is waited for, and the
        same is due again.
        """
        try:
            yield
        except LimitReached as limit:
            self._reset(limit)
        except Outage as outage:
            self._answer(outage)
        else:
            self.count, self.waited = 0, 0.0
            if self.outage and not self.caller.away:
                took = plain.span(max(self.outage["until"] - self.outage["since"], 0.0))
                over = {"did": "over", "text": f"the API answers again, after {took}"}
                self.caller.sink(Event({**self.outage, **over, "seconds": 0.0}))
                self.outage = None

    def _reset(self, limit: LimitReached) -> None:
        """Until the limit's, with a countdown; where it is not known, a while."""
        now, seconds = self.options.clock(), UNKNOWN_WAIT_S
        if limit.resets_at is not None:
            # It may hold longer than it said, and the next answer say the same again.
            seconds = max(limit.resets_at - now, 0) + RESET_MARGIN_S * 4 ** min(self.count, 4)
        if self.waited + seconds > self.most:
            raise LimitReached(f"{limit}; {self._unwaited()}", hint=limit.hint)
        self.caller.sink(events.new("limit", text=str(limit), until=now + seconds))
        self._sleep(seconds, now + seconds)

    def _answer(self, fault: Outage) -> None:
        """A while, longer each time."""
        if not self.outage:  # what was waited for a limit before does not count
            self.count, self.waited = 0, 0.0
        seconds = max(min(pause(self.waited), self.most - self.waited), 0.0)
        since, until = self.caller.away, self.options.clock() + seconds
        message = f"the API has been away since {_clock(since)} ({fault.reason})"
        if not seconds:
            raise Outage(f"{message}; {self._unwaited()}", hint=fault.hint)
        text = f"{message}; next try {_clock(until)}"
        did, times = "still away" if self.count else "away", {"since": since, "until": until}
        self.outage = events.row("outage", did, text=text, seconds=seconds, **times)
        self.caller.sink(Event(self.outage))
        self._sleep(seconds, until)

    def _unwaited(self) -> str:
        longer = f"longer than max_wait, {plain.span(self.most)}, in kern.toml"
        return f"not waited for: {longer if self.options.wait else '--no-wait'}"

    def _sleep(self, seconds: float, until: float) -> None:
        """With a countdown; at most `until` the clock shows it: a machine can sleep meanwhile."""
        self.count += 1
        self.waited += seconds
        rest = seconds
        while rest > 0:
            self.steered.check_requests()
            self.options.countdown(rest)
            step = min(rest, 1.0)
            self.options.sleep(step)
            rest = min(rest - step, until - self.options.clock())


def pause(waited: float) -> float:
    """Seconds until an API that is away is asked again: an outage of 40 s costs at most 15 more.
    `waited`: for so long.
    """
    return min(max(waited / 3, 5.0), 600.0) * random.uniform(0.9, 1.0)


def _clock(when: float) -> str:
    return time.strftime("%H:%M", time.localtime(when))
