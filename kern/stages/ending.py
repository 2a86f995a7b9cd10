"""What the end of an agent's process means for the run: an error, another try, another agent."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from kern.agents import protocol
from kern.agents.protocol import Agent, Ended, Fault, Grade, Reply
from kern.errors import KernError, LimitReached, TransientFault
from kern.events import StoodIn
from kern.model import Role, Stage
from kern.models import Choice

Done = TypeVar("Done")
TRIES = 3
REST_S = 900.0  # for an agent that says no time: then it is asked again
_LONGER = "[timeouts] in kern.toml sets how long a stage may take"


def new_enough(agent: Agent, version: str) -> None:
    if () < protocol.version(version) < agent.OLDEST:
        oldest = ".".join(map(str, agent.OLDEST))
        raise KernError(
            f"{agent.NAME} {version} is too old: kern needs {oldest} or newer", hint=agent.INSTALL
        )


def timed_out(stage: Role, ended: Ended) -> Fault | None:
    """Half a change is an attempt; a stage that changes nothing can simply run again."""
    grade = Grade.FAILED if stage is Stage.IMPLEMENT else Grade.TRANSIENT
    return Fault(grade, f"timed out: {ended.timed_out}", _LONGER) if ended.timed_out else None


def error(stage: Role, fault: Fault, transcript: Path) -> KernError:
    said = f"{stage} stage: {fault.message}"
    if fault.grade is Grade.TRANSIENT:
        again = f"run kern again: it goes on at this stage; the transcript: {transcript}"
        return TransientFault(said, hint=fault.hint or again)
    if fault.grade is Grade.LIMIT:
        when = ""
        if fault.resets_at:
            when = time.strftime(
                " (resets %Y-%m-%d %H:%M local time)", time.localtime(fault.resets_at)
            )
        return LimitReached(
            f"usage limit: {fault.message}{when}",
            hint="run kern again then: it resumes",
            resets_at=fault.resets_at,
        )
    return KernError(said, hint=fault.hint or f"the transcript: {transcript}")


def may_not_write(who: str) -> Callable[[Reply], None]:
    """What settles a reply of an agent that has no tool to write with."""

    def settle(reply: Reply) -> None:
        if reply.wrote:
            raise TransientFault(f"{who}: the agent used {', '.join(reply.wrote)}")

    return settle


def retried(
    first: TransientFault,
    act: Callable[[], Done],
    sleep: Callable[[float], None],
    noted: Callable[[TransientFault, int, float], None],
) -> Done:
    """What `act` returns in the end, after a first try that ended with a fault. `noted`: before a
    wait, with the fault, the number of the try that it ended, and the seconds. Raises the last
    fault.
    """
    from tenacity import (  # with asyncio and more, which most runs do without
        RetryCallState,
        Retrying,
        retry_if_exception_type,
        stop_after_attempt,
        wait_exponential,
        wait_random,
    )

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


class Rota:
    """Which agents rest in one run of kern, at their limit or without an answer, and until when.
    Times are epoch seconds.
    """

    def __init__(self) -> None:
        self.until: dict[str, float] = {}  # by the agent's name

    def order(
        self, choices: Sequence[Choice], now: float
    ) -> Iterator[tuple[Choice, Choice | None]]:
        """Who is asked, one after the other, each with who comes next. Who rests is passed over;
        where all do, the one that wakes first is asked.
        """
        awake = [one for one in choices if self._rests(one) <= now]
        awake = awake or [min(choices, key=self._rests)]
        return iter(zip(awake, [*awake[1:], None], strict=True))

    def _rests(self, choice: Choice) -> float:
        return self.until.get(choice.agent, 0.0)

    def wakes(self, choices: Sequence[Choice], last: float | None) -> float | None:
        """When one can be asked again, where the last one is at its limit as well, until `last`."""
        return min(filter(None, (*map(self._rests, choices), last)), default=None)

    def rest(self, by: Choice, after: Choice, why: KernError, role: Role, now: float) -> StoodIn:
        resets_at = why.resets_at if isinstance(why, LimitReached) else None
        self.until[by.agent] = until = resets_at or now + REST_S
        return StoodIn(role, after.agent, by.agent, until, str(why))
