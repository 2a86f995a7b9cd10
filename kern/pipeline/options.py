"""What a person has chosen for a run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kern.model import OnRed
from kern.models import Choices
from kern.system import process, waits


@dataclass(frozen=True, slots=True)
class Leave:
    """What a person lets a repository start in this run, and where."""

    trusted: bool = False
    ask: Callable[[Sequence[str], bool], bool] = lambda lines, first: False  # see pipeline.trust


@dataclass(slots=True)
class Options:
    iterations: int = 5
    delay: float = 10.0
    wait: bool = True  # for a usage limit's reset
    max_cost: float = 0.0  # US dollars; 0: what kern.toml says
    until_done: bool = False  # where no task is left, ask whether the goal is reached
    on_red: OnRed = OnRed.STOP
    task: str = ""  # the only one that is to be taken, as a person names it
    models: Choices = field(default_factory=dict)  # with their efforts
    leave: Leave = field(default_factory=Leave)
    sleep: Callable[[float], None] = waits.sleep
    watched: bool = False  # a person looks at what agents do
    tick: process.Tick = process.unwatched
    countdown: Callable[[float], None] = lambda seconds: None
    clock: Callable[[], float] = time.time
    until: float = 0.0  # epoch seconds from which nothing is begun; 0: no bound
    jobs: str = ""  # so many tasks at once, or `auto`; empty: what kern.toml says
    # Another way to carry out the tasks, once all is made sure of: its exit code; None: this one.
    instead: Callable[[Any], int | None] = lambda begun: None
    scheduler: str = ""  # of the cluster that works for it; empty: what kern.toml says
    sign: bool = True  # where the person does

    @property
    def called(self) -> str:
        """How a person begins the like of this run, but for how many tasks."""
        words = ["kern", *(["-j", self.jobs] if self.jobs else [])]
        return " ".join([*words, *(["--scheduler", self.scheduler] if self.scheduler else [])])
