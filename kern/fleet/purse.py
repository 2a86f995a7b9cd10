"""What holds for all workers together: the budget, a usage limit's reset, what a person asks for.
Pure.
"""

from enum import StrEnum

from kern.config import Budget, Spent
from kern.fleet.lanes import Picture
from kern.frozen import frozen
from kern.model import Request


class Hold(StrEnum):
    """Why nothing new begins."""

    NO = ""
    PAUSE = "paused"
    LIMIT = "usage limit"
    STOP = "stops after these stages"
    BUDGET = "the budget is used up"


@frozen
class Limit:
    """A usage limit that a worker has met. All others wait with it."""

    until: float = 0.0  # epoch seconds
    branch: str = ""  # of the worker, who waits by himself

    def later(self, until: float, branch: str) -> "Limit":
        return Limit(until, branch) if until > self.until else self


def hold(
    asked: Request | None, limit: Limit, budget: Budget, now: Picture, clock: float, ran: float
) -> tuple[Hold, str]:
    """And, for the budget, which bound was reached. What ends the run counts first. `clock` in
    epoch seconds; `ran`: seconds since the run began.
    """
    if asked is Request.STOP:
        return Hold.STOP, ""
    if why := budget.reached(Spent(now.cost.usd or 0.0, 0.0, ran)):
        return Hold.BUDGET, why
    if asked is Request.PAUSE:
        return Hold.PAUSE, ""
    if clock < limit.until:
        return Hold.LIMIT, ""
    return Hold.NO, ""


def relayed(held: Hold) -> Request:
    """What the workers are asked, so that none begins a stage meanwhile."""
    match held:
        case Hold.STOP | Hold.BUDGET:
            return Request.STOP
        case Hold.PAUSE | Hold.LIMIT:
            return Request.PAUSE
        case Hold.NO:
            return Request.RESUME
