"""What a run, a task and a stage may cost at most, and how much of it is left. Pure."""

from dataclasses import dataclass, replace

MARGIN = 0.01  # US dollars: an agent is not started for less


@dataclass(frozen=True, slots=True)
class Budget:
    """US dollars as the agent counts them, API-equivalent, and minutes; 0: no bound."""

    run: float = 0
    task: float = 0
    stage: float = 0
    minutes: float = 0

    def within(self, run: float, minutes: float) -> "Budget":
        """With what the command line says of a run, where it says something."""
        return replace(self, run=run or self.run, minutes=minutes or self.minutes)


@dataclass(frozen=True, slots=True)
class Spent:
    run: float = 0
    task: float = 0  # in all runs
    seconds: float = 0  # of the run


def reached(budget: Budget, spent: Spent) -> str:
    """Which bound is reached, in words; empty while none is."""
    if budget.minutes and spent.seconds >= 60 * budget.minutes:
        return f"the run's {budget.minutes:g} minutes are over"
    for what, most, so_far in (
        ("run", budget.run, spent.run),
        ("task", budget.task, spent.task),
    ):
        if most and so_far > most - MARGIN:
            return f"the {what}'s budget is used up: ${so_far:.2f} of ${most:.2f}"
    return ""


def left(budget: Budget, spent: Spent) -> float:
    """What the next stage may cost at most; 0: no bound."""
    bounds = [
        most - so_far
        for most, so_far in (
            (budget.run, spent.run),
            (budget.task, spent.task),
            (budget.stage, 0.0),
        )
        if most
    ]
    return round(max(min(bounds), MARGIN), 4) if bounds else 0.0
