"""How far one landing queue goes: discrete events, so many workers, tasks and collisions.

No process and no clock: workers finish tasks, a queue checks them one train at a time, and what
collides is done anew. `python -m tests.bench fleet` prints its table, and `kern help fleet`
shows it.
"""

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

WORKERS = (1, 10, 20, 50, 100, 200, 500)
TRAIN = 16
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
    """So often the gates run until each that makes a train red is found. A half that must hold the
    culprit, since the other is green, is not checked as a whole again.
    """

    def of(part: Sequence[bool], *, known: bool) -> int:
        if len(part) == 1 and known:
            return 0
        own = 0 if known else 1
        if not any(part) or len(part) == 1:
            return own
        half = len(part) // 2
        first, second = part[:half], part[half:]
        return own + of(first, known=False) + of(second, known=not any(first))

    return of(red, known=False) if red else 0


def run(world: World) -> Course:
    luck = random.Random(world.seed)

    def begin(now: float) -> tuple[float, float]:
        """When a worker that begins now will be done, and when it began."""
        return now + world.start + luck.expovariate(1 / world.task), now

    idle, todo, landed, redone, ran, now = world.workers, world.tasks, 0, 0, 0, 0.0
    working: list[tuple[float, float]] = []
    queue: list[tuple[float, float]] = []
    waits: list[float] = []
    trains: list[int] = []
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
        trains.append(len(train))
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
    return Course(now, ran / landed, median(waits), redone, sum(trains) / len(trains))


def saturates(world: World) -> int:
    """The most workers of which the queue still takes all that they finish, nearly."""
    fits, most = 1, world.workers
    while fits < most:
        tried = (fits + most + 1) // 2
        asked = replace(world, workers=tried)
        free = run(replace(asked, gates=0.0, landing=0.0, collides=0.0))
        if free.took >= SATURATED * run(asked).took:
            fits = tried
        else:
            most = tried - 1
    return fits


def table(worlds: Sequence[World], counts: Sequence[int] = WORKERS) -> Iterator[str]:
    """A row for each number of workers, three columns for each world: hours for all tasks, runs of
    the gates for each landed task, and the median of the minutes that a finished task waits.
    """
    heads = "".join(f" {_trains(world)}: hours | gates | waits |" for world in worlds)
    yield f"| workers |{heads}"
    yield f"| ---: |{' ---: |' * 3 * len(worlds)}"
    for count in counts:
        courses = [run(replace(world, workers=count)) for world in worlds]
        yield f"| {count} |" + "".join(
            f" {one.took / 3600:,.0f} | {one.gates:.2f} | {one.waited / 60:,.0f} min |"
            for one in courses
        )
    limits = "".join(f" {saturates(world)} workers | | |" for world in worlds)
    yield f"| saturated beyond |{limits}"


def _trains(world: World) -> str:
    return f"trains of up to {world.train}" if world.train > 1 else "one by one"
