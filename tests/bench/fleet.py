"""Many at once: how fast finished tasks land, what each landed task costs beyond one worker's, and
the speed-up with real agents.
"""

import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import chaos, lanes
from tests.bench.measuring import SOURCE, Row, row
from tests.bench.repository import made as of_size

TASKS = 64
WORKTREES = (1, 4, 16, 64)
MOST_S = 0.3  # of processor time, for each landed task, beyond that of one worker
FLAT_S = 0.1  # the same, from the fewest worktrees to the most, beyond what the machine takes

# In a process of its own: finished tasks without an agent, and the seconds until they have landed.
LAND = """
import sys, time
from pathlib import Path
from kern.fleet import land, work
from kern.git import repository
from kern.model import Key
from kern.pipeline import site
from kern.stages.call import Caller
from kern.system import workspace

root, count = Path.cwd(), int(sys.argv[1])
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
caller = Caller(root, scope, "0" * 16, lambda event: None)
opened = repository.open_at(root)
here = site.prepared(opened, caller, opened)
began = time.perf_counter()
ends = [land.land(here, one, lambda *_: (None, "measured")) for one in works]
took = time.perf_counter() - began
assert [type(end).__name__ for end in ends] == ["Landed"] * count, ends
print("took", took)
"""


def rows(folder: Path, large: int = 100_000) -> Iterator[Row]:
    yield from _landing(folder / "landing", large)
    yield from _worktrees(folder / "worktrees")
    yield from lanes.rows(folder / "lanes")


def _landing(folder: Path, large: int) -> Iterator[Row]:
    for size, least, count in ((20, 4, 64), (large, 1, 16)):
        root, env = of_size(folder / f"{size}", size, count)
        done = subprocess.run(
            [sys.executable, "-c", LAND, str(count)],
            cwd=root,
            env={**env, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
        )
        found = re.search(r"^took ([\d.]+)$", done.stdout, re.M)
        if not found:
            raise RuntimeError(done.stderr)
        each = count / float(found[1])
        name = f"landings a second, no gates, {size:,} files"
        yield Row(name, f"{each:.1f}", f"≥ {least}", each >= least)


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
