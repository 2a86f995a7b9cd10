"""What a task costs in git processes, in kern's own time and in memory, in a small repository, in
large ones (against `git status` in the same tree) and beside large files.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.measuring import Row, environment, interleaved, row, sample
from tests.fleet.landings import LANDED, Project

RUN = """
import re, sys, time
sys.argv = ["kern", "{tasks}", "0"]
from kern.cli import main
began = time.process_time()
try:
    main.main()
finally:
    # Not ru_maxrss, which starts at that of the process that forked this one.
    peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
    print("own", time.process_time() - began, int(peak) / 1024)
"""

AGENT = """#!{python} -IS
import json, os, re, subprocess, sys
prompt = sys.stdin.read().lstrip()
said = "- Files: dir/f (new)\\n\\nREADY"
if prompt.startswith("kern stage 2"):
    open("work.txt", "a").write("more\\n")
    said = "did it\\n\\nSUCCESS"
    if os.environ.get("BENCH_FAILS"):
        subprocess.run(os.environ["BENCH_FAILS"], shell=True, check=True)
        said = "FAILED: no"
elif prompt.startswith("kern stage 3"):
    said = "do it"
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "num_turns": 3,
                   "result": said}}))
"""


def rows(folder: Path, sizes: tuple[int, ...] = (100_000, 500_000)) -> Iterator[Row]:
    root, env = made(folder / "small", 20)
    _run(root, env, 1)
    counts, own = [], []
    for tasks in (1, 3):
        trace = folder / f"trace-{tasks}"
        _, _, used = _run(root, {**env, "GIT_TRACE2_EVENT": str(trace)}, tasks)
        counts.append(trace.read_text().count('"event":"start"'))
        own.append(used)
    yield row("git processes, a run of one task", counts[0], "")
    yield row("git processes, each further task", (counts[1] - counts[0]) / 2, "", most=40)
    yield row("kern's own time, each further task", (own[1] - own[0]) / 2, "s", most=0.15)
    for size in sizes:
        root, env = made(folder / f"{size}", size)
        looks = {"": lambda: _git(root, env, "status")}  # noqa: B023
        status = min(interleaved(looks, 3)[""])
        peak, took, _ = _run(root, env, 1)
        note = f"{took:.1f} s"
        yield row(f"a task at {size:,} files", took / status, "x git status", most=12, note=note)
        yield row(f"kern's peak memory at {size:,} files", peak, "MB", most=200)


def large_files(folder: Path) -> Iterator[Row]:
    root, env = made(folder / "beside", 20)
    _run(root, env, 1)
    _, bare, _ = _run(root, env, 1)
    before = _stored(root)
    with (root / "large").open("wb") as file:
        file.truncate(1 << 30)
    _, took, _ = _run(root, env, 1)
    yield row("time that 1 GiB beside a task adds", took - bare, "s", most=2)
    yield row("what .git grows by", (_stored(root) - before) / (1 << 20), "MiB", most=1)
    root, env = made(folder / "many", 20)
    for number in range(120):
        (root / f"{number}.bin").write_bytes(os.urandom(1 << 10) * (20 << 10))
    _git(root, env, "add", "--all")
    _git(root, env, "commit", "--quiet", "-m", "large")
    change = "for file in *.bin; do echo more >> $file; done"
    peak, took, _ = _run(root, {**env, "BENCH_FAILS": change}, 1, finished=False)
    note = f"{took:.1f} s"
    yield row("memory for putting back 120 x 20 MiB", peak, "MB", most=200, note=note)


def landings(folder: Path, count: int = 22) -> Iterator[Row]:
    """Finished at the same time; the gate looks at each but the first once more."""
    os.environ.update(environment(folder / "home"))
    project = Project(sample(folder / "project", os.environ, {"a.txt": "1\n"}))
    project.spec(*(names := [f"task-{number}" for number in range(count)]))
    works = [project.work(name, f"echo {name} > {name}.txt") for name in names]
    began = time.perf_counter()
    assert project.land(*works) == [LANDED] * count
    each = (time.perf_counter() - began) / count
    yield row(f"landing, each of {count} at once", each, "s", most=0.25)


def _stored(root: Path) -> int:
    return sum(place.stat().st_size for place in (root / ".git").rglob("*") if place.is_file())


def made(place: Path, size: int) -> tuple[Path, dict[str, str]]:
    env = environment(place / "home", KERN_CLAUDE=str(place / "agent"))
    agent = place / "agent"
    agent.write_text(AGENT.format(python=sys.executable))
    agent.chmod(0o755)
    spec = "".join(f"- [ ] task {number}\n" for number in range(8))
    root = sample(place / "project", env, {"SPEC.md": spec})
    for number in range(size):
        above = root / f"d{number // 10_000}" / f"e{number // 100 % 100}"
        if number % 100 == 0:
            above.mkdir(parents=True)
        (above / f"{number}.txt").write_text(f"{number}\n")
    _git(root, env, "config", "gc.auto", "0")  # kern would wait for what this commit sets off
    # As a clone has them, and as git itself leaves so many: in a pack, here from the beginning. To
    # one that holds very many it would take long to add more.
    for folder in sorted(root.glob("d*")):
        _git(root, env, "-c", "core.bigFileThreshold=1", "add", folder.name)
    _git(root, env, "commit", "--quiet", "-m", "files")
    _git(root, env, "gc", "--quiet")
    return root, env


def _git(root: Path, env: Mapping[str, str], *argv: str) -> None:
    subprocess.run(["git", *argv], cwd=root, env=dict(env), check=True, capture_output=True)


def _run(
    root: Path, env: Mapping[str, str], tasks: int, *, finished: bool = True
) -> tuple[float, float, float]:
    """Peak memory in MB, seconds, and seconds of kern's own processor time."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(tasks=tasks)],
        cwd=root,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    took, said = time.perf_counter() - began, done.stdout + done.stderr
    found = re.search(r"^own ([\d.]+) ([\d.]+)$", said, re.M)
    if found is None or ("\nDone:\n" in said) != finished:
        raise RuntimeError(f"not what was to be measured:\n{said[-2000:]}")
    return float(found[2]), took, float(found[1])
