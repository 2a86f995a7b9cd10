"""The journal on disk: a sink that appends one line per record, and reading it back.

One file per clone, shared by its worktrees, never committed; it survives a reboot.
"""

import os
import secrets
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from kern import records, report, workspace
from kern.errors import KernError
from kern.events import Event, Sink, Warned
from kern.repo import Repo

FILE = "events.jsonl"


def place(repo: Repo) -> Path:
    return repo.common_dir / "kern" / FILE


class Journal:
    """Never a reason to stop paid work: a journal that cannot be written is told of once."""

    def __init__(self, path: Path, run: str, branch: str, warn: Callable[[str], None]) -> None:
        self.path = path
        self.run = run
        self.branch = branch
        self.warn = warn
        self.seq = 0
        self.task = ""

    def __call__(self, event: Event) -> None:
        for said in records.of(event):
            self.task = str(said.get("task") or self.task)
            self.seq += 1
            self._append(
                {
                    "v": records.VERSION,
                    "id": secrets.token_hex(8),
                    "time": _now(),
                    "run": self.run,
                    "seq": self.seq,
                    "branch": self.branch,
                    "task": self.task if said["kind"] != "run" else "",
                    **said,
                }
            )

    def _append(self, record: dict[str, Any]) -> None:
        """One write to the file's end, so that two worktrees' lines never mix."""
        try:
            self.path.parent.mkdir(exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(self.path, flags | os.O_NONBLOCK, 0o600)
            try:
                os.write(descriptor, records.line(record))
            finally:
                os.close(descriptor)
        except OSError as exc:
            self._append = lambda record: None  # type: ignore[method-assign]
            self.warn(f"the journal {self.path} cannot be written: {exc.strerror}")


def beside(sink: Sink, repo: Repo, run: str) -> Sink:
    """The sink, and the journal after it."""
    written = Journal(place(repo), run, repo.head().name, lambda text: sink(Warned(text)))

    def both(event: Event) -> None:
        sink(event)
        written(event)

    return both


def load(path: Path) -> list[dict[str, Any]]:
    """In order; nothing where there is no journal, or something else in its place."""
    try:
        data = workspace.read(path) or b""
    except KernError:
        return []
    return records.ordered(records.read(data.split(b"\n")))


def of_run(repo: Repo, run: str) -> list[dict[str, Any]]:
    return [record for record in load(place(repo)) if record["run"] == run]


def costs(path: Path) -> Callable[[str], float]:
    """What each task cost so far by the journal; read when it is first asked for."""

    @cache
    def known() -> dict[str, float]:
        summed = report.summary(load(path))["tasks"]
        return {task["task"]: task["cost_usd"] for task in summed}

    return lambda task: known().get(task, 0.0)


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
