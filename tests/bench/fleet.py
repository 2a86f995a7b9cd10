"""Many at once: how fast finished tasks land, what each landed task costs beyond one worker's, the
speed-up with real agents, and how far one landing queue would go.
"""

import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import chaos, lanes, simulation
from tests.bench.measuring import SOURCE, Row, row
from tests.bench.repository import made as of_size

TASKS = 64
WORKTREES = (1, 4, 16, 64)
MOST_S = 0.3  # of processor time, for each landed task, beyond that of one worker
FLAT_S = 0.1  # the same, from the fewest worktrees to the most, beyond what the machine takes
TRAIN = 16

# In a process of its own: finished tasks without an agent, and the seconds until they have landed.
LAND = """
import sys, time
from pathlib import Path
from kern.fleet import landing, work
from kern.fleet.landing import Checked
from kern.git import repository
from kern.model import Key
from kern.pipeline import site
from kern.stages.call import Caller
from kern.system import workspace

root, count, size = Path.cwd(), int(sys.argv[1]), int(sys.argv[2])
found = repository.open_at(root)
base, spec = found.head().commit, (root / "SPEC.md").read_text()
works = []
for number in range(count):
    text = f"task {number}"
    ticked = spec.replace(f"- [ ] {text}\\n", f"- [x] {text}\\n")
    changes = {f"new-{number}.txt": b"work\\n", "SPEC.md": ticked.encode()}
    entries = {name: repository.Entry("100644", found.blob(data)) for name, data in changes.items()}
    tree = found.tree_with(base, entries)
    commit = found.text("commit-tree", tree, "-p", base, "-m", f"Do it\\n\\nKern-Task: {text}")
    name = work.branch("main", Key("", text, 1))
    found.git("branch", "--force", name, commit)
    works.append(work.Work(Key("", text, 1), name, base, commit, 1, spec=ticked))
scope = workspace.scope(root, "main")
here = site.prepared(repository.open_at(root), Caller(root, scope, "0" * 16, lambda event: None))
check = lambda tree, head, gates: Checked(proved="measured")
began = time.perf_counter()
ends = []
while works:
    train, works = works[:size], works[size:]
    ends += landing.land(here, train, check)
took = time.perf_counter() - began
assert [type(end).__name__ for end in ends] == ["Landed"] * count, ends
print("took", took)
"""


def rows(folder: Path, large: int = 100_000) -> Iterator[Row]:
    yield from _landing(folder / "landing", large)
    yield from _worktrees(folder / "worktrees")
    yield from lanes.rows(folder / "lanes")
    yield from _far()


def _landing(folder: Path, large: int) -> Iterator[Row]:
    for size, least, trains in ((20, 10, (1, TRAIN)), (large, 1, (TRAIN,))):
        for train in trains:
            count = 4 * TRAIN if size == 20 else TRAIN
            root, env = of_size(folder / f"{size}-{train}", size, count)
            done = subprocess.run(
                [sys.executable, "-c", LAND, str(count), str(train)],
                cwd=root,
                env={**env, "PYTHONPATH": str(SOURCE)},
                capture_output=True,
                text=True,
            )
            found = re.search(r"^took ([\d.]+)$", done.stdout, re.M)
            if not found:
                raise RuntimeError(done.stderr)
            each = count / float(found[1])
            how = "one by one" if train == 1 else f"in trains of {train}"
            name = f"landings a second, {how}, no gates, {size:,} files"
            least_of = least if train > 1 else 0
            bound = f"≥ {least}" if least_of else ""
            yield Row(name, f"{each:.1f}", bound, each >= least_of if least_of else None)


def _worktrees(folder: Path) -> Iterator[Row]:
    each = dict[int, float]()
    for count in WORKTREES:
        own, children, took = _used(*chaos.made(folder / str(count), TASKS), count)
        each[count] = (own + children) / TASKS
        name = f"processor time for each landed task, `kern -j {count}`, stand-in agent"
        note = (
            f"{each[count]:.2f} s with its agents, {own / TASKS:.2f} s of it the run itself; "
            f"{took:.0f} s"
        )
        beyond = each[count] - each[1]
        yield row(f"{name}, beyond that of `-j 1`", beyond, "s", most=MOST_S, note=note)
    most = max(WORKTREES)
    alone, crowded = _plain(folder / "plain", 1), _plain(folder / "plain", most)
    name = f"the same of {most} kerns in as many clones, all at once, beyond one after the other"
    note = f"no worktree, no landing: what the machine takes; one by itself {alone:.2f} s"
    machine = crowded - alone
    yield row(name, machine, "s", note=note)
    grown = each[most] - each[1] - machine
    yield row(f"growth from `-j 1` to `-j {most}` beyond that", grown, "s", most=FLAT_S)


def _plain(folder: Path, at_once: int) -> float:
    """Seconds of processor time of one plain kern with its agents, each in a repository of its own
    with one task, so many at once.
    """
    count = max(at_once, 16)
    places = [chaos.made(folder / f"{at_once}-{number}", 1) for number in range(count)]
    argv = [sys.executable, "-m", "kern", "1", "0"]

    def kern(place: tuple[Path, dict[str, str]]) -> int:
        done = subprocess.run(argv, cwd=place[0], env=place[1], capture_output=True)
        return done.returncode

    before = _children()
    with ThreadPoolExecutor(at_once) as pool:
        if any(pool.map(kern, places)):
            raise RuntimeError("a plain kern failed")
    return (_children() - before) / len(places)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


RUN = """
import resource, sys, time
sys.argv = ["kern", "{tasks}", "0", "-j", "{count}"]
from kern.cli import main
began = time.perf_counter()
try:
    main.main()
finally:
    took = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print("used", *(one.ru_utime + one.ru_stime for one in used), took)
"""


def _used(root: Path, env: Mapping[str, str], count: int) -> tuple[float, float, float]:
    """Processor time of the run's own process and of all that it started, and seconds in all."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(tasks=TASKS, count=count)],
        cwd=root,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    found = re.search(r"^used (\S+) (\S+) (\S+)$", done.stdout, re.M)
    if not found or (root / "SPEC.md").read_text().count("- [x]") != TASKS:
        raise RuntimeError(f"not what was to be measured:\n{done.stderr[-2000:]}")
    own, children, took = map(float, found.groups())
    return own, children, took


def _far() -> Iterator[Row]:
    world = simulation.World()
    for name, one in simulation.WORLDS.items():
        course = simulation.run(one)
        shown = f"{course.took / 3600:,.0f} h, {course.gates:.2f} runs of the gates each"
        limit = f"keeps up with {simulation.saturates(one)}"
        yield Row(f"{world.tasks:,} tasks, {world.workers} workers, {name}", f"{shown}; {limit}")
