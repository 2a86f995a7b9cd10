"""What is tried again after a fault that passes, and how long is waited before."""

from collections.abc import Callable
from typing import TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from kern.errors import TransientFault

TRIES = 3
Done = TypeVar("Done")


def after(
    first: TransientFault,
    act: Callable[[], Done],
    sleep: Callable[[float], None],
    noted: Callable[[TransientFault, int, float], None],
) -> Done:
    """What `act` returns in the end, after a first try that ended with a fault. `noted`: before a
    wait, with the fault, the number of the try that it ended, and the seconds. Raises the last
    fault.
    """

    def said(state: RetryCallState) -> None:
        fault = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        noted(fault if isinstance(fault, TransientFault) else first, state.attempt_number, wait)

    retrying = Retrying(
        retry=retry_if_exception_type(TransientFault),
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(multiplier=2, max=60) + wait_random(0, 1),
        sleep=sleep,
        before_sleep=said,
        reraise=True,
    )
    for trial in retrying:
        with trial:
            if trial.retry_state.attempt_number == 1:
                raise first
            return act()
    raise AssertionError("tenacity ends by returning or raising")
