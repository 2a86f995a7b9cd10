"""What a person is told when kern stops: a message, a hint and an exit code."""

import signal
from enum import IntEnum


class Exit(IntEnum):
    """The process's exit codes; a signal adds 128 to its number."""

    OK = 0
    HELP_NEEDED = 1
    USAGE = 2
    LIMIT = 3


class KernError(Exception):
    """Says what is wrong and where; `hint` says what to type next."""

    exit_code = Exit.HELP_NEEDED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(KernError):
    """The input, the repository or a tool is not fit for a run: nothing was begun."""

    exit_code = Exit.USAGE


class LimitReached(KernError):
    """A usage limit: the same stage can run again after the reset (epoch seconds, if known)."""

    exit_code = Exit.LIMIT

    def __init__(self, message: str, *, hint: str = "", resets_at: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.resets_at = resets_at


class BudgetReached(KernError):
    """A bound of the person's own ended the run; with a higher one it goes on."""

    exit_code = Exit.LIMIT


class Asked(KernError):
    """A person asked the run, from outside, to begin nothing more: no fault of anything."""

    exit_code = Exit.OK


class TransientFault(KernError):
    """The same call may well succeed when it is made again."""


class Outage(TransientFault):
    """The API, or the network, gives no answer to several tries: it is waited for, and the same
    stage runs again.
    """

    exit_code = Exit.LIMIT

    def __init__(self, message: str, *, hint: str = "", reason: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason  # in a few words


class Interrupted(BaseException):
    """A signal asked kern to end now. No `except Exception` swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        return 128 + self.signum
