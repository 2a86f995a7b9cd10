"""How far one landing queue goes: discrete events, so many workers, tasks and collisions.

No process and no clock: workers finish tasks, a queue checks them one train at a time, and what
collides is done anew. `python -m tests.bench fleet` prints its table, and `kern help parallel`
shows it.
"""

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from kern.fleet.landing import sift

WORKERS = (1, 10, 20, 50, 100, 200, 500)
ANY = 1_000_000  # as long as what is finished, which is how kern makes its trains
SATURATED = 0.9  # of the speed that so many workers would have if landing took no time


@dataclass(frozen=True, slots=True)
class World:
    """Figures of a fleet; times in seconds."""

    workers: int = 500
    tasks: int = 10_000
    task: float = 1200.0  # that a task takes a worker, the mean of an exponential distribution
    gates: float = 60.0  # of one check of a merged tree
    landing: float = 0.1  # of kern's own, for each task
    start: float = 0.5  # of kern's own, before a worker begins with a task
    collides: float = 0.05  # of the finished tasks, where something landed since they began
    conflicts: float = 0.5  # of those, seen by the merge; the others only by a red gate
    train: int = 1  # tasks that are checked at once, at most
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Course:
    """What came of it; times in seconds."""

    took: float
    gates: float  # runs of all gates, for each landed task
    waited: float  # of the finished tasks, the median
    redone: int
    trains: float  # tasks in a train, the mean


def checks(red: Sequence[bool]) -> int:
    """So often the gates run, in the landing queue's own order, until each that makes a train red
    is found.
    """
    asked: list[Sequence[int]] = []

    def green(part: Sequence[int]) -> bool:
        asked.append(part)
        return not any(red[one] for one in part)

    for _ in sift(range(len(red)), green, lambda part: (), lambda one: None):
        pass
    return len(asked)


def run(world: World) -> Course:
    luck = random.Random(world.seed)

    def begin(now: float) -> tuple[float, float]:
        """When a worker that begins now will be done, and when it began."""
        return now + world.start + luck.expovariate(1 / world.task), now

    idle, todo, landed, redone, ran, now = world.workers, world.tasks, 0, 0, 0, 0.0
    working: list[tuple[float, float]] = []
    queue: list[tuple[float, float]] = []
    waits: list[float] = []
    sizes: list[int] = []
    moved = -1.0  # when the last task landed
    while landed < world.tasks:
        for _ in range(begun := min(idle, todo)):
            heapq.heappush(working, begin(now))
        idle, todo = idle - begun, todo - begun
        while working and (working[0][0] <= now or not queue):
            came = heapq.heappop(working)
            now = max(now, came[0])
            queue.append(came)
            if todo:
                todo -= 1
                heapq.heappush(working, begin(came[0]))
            else:
                idle += 1
        train, queue = queue[: world.train], queue[world.train :]
        waits += [now - came for came, _ in train]
        sizes.append(len(train))
        odds = [luck.random() for _ in train]
        merged = [odd for odd in odds if odd >= world.collides * world.conflicts]
        red = [odd < world.collides for odd in merged]
        if len(train) == 1 and train[0][1] >= moved:  # what was proven is what lands
            red, count = [False], 0
        else:
            count = checks(red)
        good = len(red) - sum(red)
        now += count * world.gates
        moved = now if good else moved
        now += good * world.landing
        ran, landed = ran + count, landed + good
        redone += len(train) - good
        todo += len(train) - good
    return Course(now, ran / landed, median(waits), redone, sum(sizes) / len(sizes))


def saturates(world: World) -> int:
    """The most workers of which the queue still takes all that they finish, nearly."""
    fits, most = 1, world.workers
    while fits < most:
        tried = (fits + most + 1) // 2
        fits, most = (tried, most) if keeps_up(world, tried) else (fits, tried - 1)
    return fits


def keeps_up(world: World, workers: int) -> bool:
    """Whether the queue is no bound for so many."""
    asked = replace(world, workers=workers)
    free = run(replace(asked, gates=0.0, landing=0.0, collides=0.0))
    return free.took >= SATURATED * run(asked).took


def table(counts: Sequence[int] = WORKERS) -> Iterator[str]:
    """As the help page has it: hours for all tasks, runs of the gates for each landed one, minutes
    that a finished one waits (the median), for each number of workers; one by one and in trains.
    """
    alone, trained = World(), World(train=ANY)
    yield "| workers | one by one | gates each | waits | in trains | gates each | waits |"
    yield f"|{' ---: |' * 7}"
    for count in counts:
        courses = [run(replace(world, workers=count)) for world in (alone, trained)]
        cells = (
            f"{one.took / 3600:,.0f} h | {one.gates:.2f} | {one.waited / 60:,.0f} min"
            for one in courses
        )
        yield f"| {count} | {' | '.join(cells)} |"


# Of which the help page says how many workers the queue keeps up with.
WORLDS = {
    "one by one": World(),
    "in trains": World(train=ANY),
    "in trains, git sees each collision": World(train=ANY, conflicts=1.0),
    "in trains, gates alone see them": World(train=ANY, conflicts=0.0),
}
