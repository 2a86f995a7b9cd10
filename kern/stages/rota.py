"""Which agent takes a stage where the one that was chosen is at its limit, or does not answer."""

from collections.abc import Iterator, Sequence

from kern.errors import KernError, LimitReached
from kern.events import StoodIn
from kern.model import Role
from kern.models import Choice

REST_S = 900.0  # for one that says no time: then it is asked again


class Rota:
    """Who rests in one run of kern, and until when. Times are epoch seconds."""

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
