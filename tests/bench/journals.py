"""A long journal beside a long SPEC.md: what kern reads of it, and what one line costs."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kern.events import Learned
from kern.journal import store
from kern.spec import order
from kern.spec.parse import parse
from tests.bench.measuring import Row, best_ms, environment, interleaved, ratio, row, sample
from tests.bench.texts import document

OF_A_RUN = 20  # tasks
STAGES = ("research", "implement", "commit")


def rows(folder: Path) -> Iterator[Row]:
    env = environment(folder / "home")
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # as it is installed
    acts: dict[str, Callable[[], object]] = {}
    for tasks in (10_000, 20_000):
        root = sample(folder / str(tasks), env, {"SPEC.md": document(tasks)})
        place = root / ".git" / "kern" / store.FILE
        place.parent.mkdir()
        place.write_bytes(history(tasks))
        for flags in ([], ["--json"]):
            acts[f"{tasks}{flags}"] = _status(root, env, flags)
    interleaved(acts, 1)
    taken = interleaved(acts, 7)
    size = f"{place.stat().st_size / 2e6:.0f} MB"
    for flags, most in (([], 400.0), (["--json"], None)):
        name = " ".join(["kern status", *flags])
        best = 1000 * min(taken[f"10000{flags}"])
        what = f"`{name}`: 10,000 tasks, 100,000 events"
        yield row(what, best, "ms", most=most, note=f"the whole process, {size}")
        growth = ratio(taken, f"20000{flags}", f"10000{flags}")
        yield row(f"`{name}`: twice as much of both", growth, "x", most=2.4)
    place = folder / "10000" / ".git" / "kern" / store.FILE
    parsed = parse(document(10_000))
    took = best_ms(lambda: store.forecast(place, min(5, order.ahead(parsed))))
    yield row("forecast at the start, from a journal of 100,000 events", took, "ms", most=20)
    written = store.Journal(place, "r", "main", print)

    def write_a_thousand() -> None:
        for _ in range(1000):
            written(Learned("a task", "a text"))

    yield row("one line written to it", best_ms(write_a_thousand), "µs")


def _status(root: Path, env: Mapping[str, str], flags: list[str]) -> Callable[[], object]:
    argv = [sys.executable, "-m", "kern", "status", *flags]
    return lambda: subprocess.run(argv, cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)


def history(tasks: int) -> bytes:
    """What runs of 20 tasks leave, each with three stages and a gate."""
    rng = random.Random(1)
    lines: list[bytes] = []

    def add(run: int, task: str, **said: object) -> None:
        seq = len(lines) + 1
        time = f"2030-01-{1 + run % 28:02}T10:00:{seq % 60:02}.{seq % 1000:03}Z"
        head = {"v": 1, "id": f"{seq:016x}", "time": time, "run": f"{run:016x}", "seq": seq}
        lines.append(store.line({**head, "branch": "main", "task": task, **said}))

    for number in range(tasks):
        run, nth = divmod(number, OF_A_RUN)
        task = f"task {number}: change the thing in module_{number % 97}.py"
        if not nth:
            add(run, "", kind="run", did="start", root="/", iterations=20, open=9, payer="")
        add(run, task, kind="task", did="start", iteration=nth, resumed="")
        for stage in STAGES:
            told = {"kind": "stage", "stage": stage, "model": "opus"}
            add(run, task, **told, did="start", attempt=1, mode="")
            ended = {"seconds": round(rng.random() * 300, 3), "cost_usd": rng.random()}
            tokens = {"input": 120, "output": 2300, "cache_read_input": 91000}
            more = {"tokens": tokens, "turns": 9, "session": f"{number:032x}", "denied": []}
            add(run, task, **told, did="end", attempt=1, **ended, **more)
        gate = {"gate": "gate check", "code": 0, "red": False, "red_before": False}
        add(run, task, kind="gate", **gate, seconds=1.5, output="")
        add(run, task, kind="task", did="done", detail="1234567 Do it", proved="gate check")
        add(run, task, kind="commit", commit=f"{number:040x}")
        if nth == OF_A_RUN - 1:
            add(run, "", kind="run", did="end", exit=0, seconds=900.0, done=20, open=9)
    return b"".join(lines)
