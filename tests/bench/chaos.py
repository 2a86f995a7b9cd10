"""Many at once while its processes are killed: each task must land exactly once, and nothing be
left over. The agent is a stand-in that works for a moment.
"""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from tests.bench.measuring import Row, environment, sample
from tests.kit.cluster import LocalCluster

TASKS, WORKERS = 200, 8
EVERY_S = 2.0  # between two kills
PARENT_EVERY = 10  # each so many kills, the run itself
RUNS = 40  # at most; a run that was killed is begun again

AGENT = """#!{python} -IS
import json, re, sys, time
prompt = sys.stdin.read().lstrip()
said = "- Files: none\\n\\nREADY"
time.sleep(0.2)
if prompt.startswith("kern stage 2"):
    name = re.search(r"^- \\[~\\] (.*)$", open("SPEC.md").read(), re.M)[1].replace(" ", "-")
    open(name + ".txt", "w").write("work\\n")
    said = "did it\\n\\nSUCCESS"
elif prompt.startswith("kern stage 3"):
    said = "do it"
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "num_turns": 1,
                   "result": said, "total_cost_usd": 0.01}}))
"""
Kill = Callable[["subprocess.Popen[bytes]", int], str]  # the run, how many were killed before


def made(folder: Path, tasks: int) -> tuple[Path, dict[str, str]]:
    """A project of so many tasks that touch different files, and its environment."""
    env = environment(folder / "home", KERN_CLAUDE=str(folder / "agent"))
    agent = folder / "agent"
    agent.write_text(AGENT.format(python=sys.executable))
    agent.chmod(0o755)
    spec = "".join(f"- [ ] task {number}\n" for number in range(tasks))
    return sample(folder / "project", env, {"SPEC.md": spec, "a.txt": "a\n"}), env


def rows(folder: Path, tasks: int = TASKS) -> Iterator[Row]:
    yield _local(folder / "local", tasks)
    yield _dask(folder / "dask", tasks)


def _local(folder: Path, tasks: int) -> Row:
    root, env = made(folder, tasks)
    luck = random.Random(1)

    def kill(run: "subprocess.Popen[bytes]", before: int) -> str:
        if before % PARENT_EVERY == PARENT_EVERY - 1:
            run.kill()
            return "the run"
        children = [one for one in psutil.Process(run.pid).children() if _is_kern(one)]
        if not children:
            return ""
        luck.choice(children).kill()
        return "a worker"

    killed, took = _until_done(root, env, ("-j", str(WORKERS)), kill)
    return _judged(f"{tasks} tasks over {WORKERS} local workers", root, env, killed, took)


def _dask(folder: Path, tasks: int) -> Row:
    root, env = made(folder, tasks)
    own = {**env, "KERN_DIR": str(folder / "workers")}
    subprocess.run(["git", "init", "-q", "--bare", folder / "central.git"], check=True)
    settings = Path(env["HOME"], ".config/kern/config.toml")
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"[fleet]\nremote = '{folder}/central.git'\n")
    luck = random.Random(1)
    with LocalCluster(folder / "dask", own, WORKERS) as cluster:

        def kill(run: "subprocess.Popen[bytes]", before: int) -> str:
            cluster.kill_worker(luck.randrange(len(cluster.workers)))
            cluster.begin_worker()
            return "a dask worker"

        options = ("-j", str(WORKERS), "--scheduler", str(cluster.file))
        killed, took = _until_done(root, env, options, kill)
    what = f"{tasks} tasks over {WORKERS} workers of a dask cluster"
    return _judged(what, root, env, killed, took)


def _until_done(
    root: Path, env: Mapping[str, str], options: tuple[str, ...], kill: Kill
) -> tuple[Counter[str], float]:
    """What was killed, and the seconds that it took in all."""
    killed: Counter[str] = Counter()
    began = time.perf_counter()
    argv = [sys.executable, "-m", "kern", "999", "0", "--no-wait", *options]
    for number in range(RUNS):
        if not _open(root):
            break
        with (root.parent / f"run-{number}.log").open("wb") as log:
            run = subprocess.Popen(argv, cwd=root, env=env, stdout=log, stderr=log)
        while run.poll() is None:
            time.sleep(EVERY_S)
            if run.poll() is None and (what := kill(run, killed.total())):
                killed[what] += 1
        killed["runs"] += 1
    return killed, time.perf_counter() - began


def _is_kern(process: psutil.Process) -> bool:
    try:
        return any("cli.main" in word for word in process.cmdline())
    except psutil.Error:
        return False


def _open(root: Path) -> int:
    return (root / "SPEC.md").read_text().count("- [ ]") + (root / "SPEC.md").read_text().count(
        "[~]"
    )


def _judged(
    what: str, root: Path, env: Mapping[str, str], killed: Counter[str], took: float
) -> Row:
    """By git alone: a commit for each task, each file once, and nothing left over."""

    def git(*argv: str) -> str:
        done = subprocess.run(["git", *argv], cwd=root, env=env, capture_output=True, text=True)
        return done.stdout

    trailers = git("log", "--format=%(trailers:key=Kern-Task,valueonly)").split("\n")
    landed = Counter(one for one in trailers if one)
    tasks = sum(1 for line in (root / "SPEC.md").read_text().splitlines() if line.startswith("- ["))
    left = [
        *git("branch", "--list", "kern/*").split(),
        *git("worktree", "list").splitlines()[1:],
        *git("status", "--porcelain").splitlines(),
    ]
    once = len(landed) == tasks and set(landed.values()) == {1}
    told = ", ".join(f"{count} {name}" for name, count in sorted(killed.items()) if name != "runs")
    shown = f"{landed.total()} landings of {len(landed)} tasks, {len(left)} left over"
    note = f"killed: {told}; {killed['runs']} runs, {took:.0f} s"
    return Row(
        f"{what}, one killed every {EVERY_S:g} s",
        f"{shown} ({note})",
        f"{tasks}",
        once and not left,
    )
