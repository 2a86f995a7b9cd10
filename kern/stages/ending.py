"""What the end of an agent's process means for the run: an error, another try, another agent."""

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kern import plain
from kern.agents import protocol
from kern.agents.protocol import Agent, AgentError, AtLimit, Ended, Failed, TryAgain
from kern.errors import KernError, LimitReached, Outage, TransientFault
from kern.events import StoodIn
from kern.model import Role, Stage
from kern.models import Choice
from kern.system import process

REST_S = 900.0  # for an agent that says no time: then it is asked again
_LONGER = "timeout below [stages.ROLE] in kern.toml sets how long a stage may take"


def new_enough(agent: Agent, version: str) -> None:
    if () < protocol.version(version) < agent.oldest:
        oldest = ".".join(map(str, agent.oldest))
        raise KernError(
            f"{agent.name} {version} is too old: kern needs {oldest} or newer", hint=agent.install
        )


def timed_out(stage: Role, ended: Ended, *, acted: bool) -> AgentError | None:
    """Half a change is an attempt; a stage that changes nothing can simply run again. Without a
    sign of life, an agent waits for its API.
    """
    if not ended.timed_out:
        return None
    silent = ended.timed_out.startswith(process.SILENT)
    if stage is Stage.IMPLEMENT and (acted or not silent):
        return Failed(f"timed out: {ended.timed_out}", _LONGER)
    return TryAgain(f"timed out: {ended.timed_out}", _LONGER, away=silent)


def error(stage: Role, fault: AgentError, transcript: Path) -> KernError:
    said = f"{stage} stage: {fault.message}"
    if isinstance(fault, AtLimit):
        form = " (resets %Y-%m-%d %H:%M local time)"
        when = time.strftime(form, time.localtime(fault.resets_at)) if fault.resets_at else ""
        return LimitReached(
            f"usage limit: {fault.message}{when}",
            hint="run kern again then: it resumes",
            resets_at=fault.resets_at,
        )
    if not isinstance(fault, TryAgain):
        return KernError(said, hint=fault.hint or f"the transcript: {transcript}")
    again = f"run kern again: it goes on at this stage; the transcript: {transcript}"
    if not fault.away:
        return TransientFault(said, hint=fault.hint or again)
    reason = fault.message.removeprefix("API Error: ").partition(". ")[0]
    return Outage(said, hint=fault.hint or again, reason=plain.line(reason, 80))


def pause(waited: float) -> float:
    """Seconds until an API that is away is asked again: an outage of 40 s costs at most 15 more.
    `waited`: for so long.
    """
    return min(max(waited / 3, 5.0), 600.0) * random.uniform(0.9, 1.0)


def away(since: float, reason: str, until: float = 0.0) -> str:
    """What is said of it; `until`: the next try."""
    clock = [time.strftime("%H:%M", time.localtime(one)) for one in (since, until)]
    again = f"; next try {clock[1]}" if until else ""
    return f"the API has been away since {clock[0]} ({reason}){again}"


class Rota:
    """Which agents rest in one run of kern, at their limit or without an answer, and until when.
    Times are epoch seconds.
    """

    def __init__(self) -> None:
        self.until: dict[str, float] = {}  # by the agent's name
        self.away = 0.0  # since when the API gives no answer; 0: it gives one

    def failed(self, role: Role, fault: AgentError, transcript: Path, now: float) -> KernError:
        """What is to be raised."""
        why = error(role, fault, transcript)
        self.away = (self.away or now) if isinstance(why, Outage) else 0.0
        return why

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
