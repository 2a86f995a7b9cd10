"""A dask cluster of real processes on loopback: a scheduler, workers that can be killed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

Process = subprocess.Popen[bytes]
_PATIENCE_S = 60.0


class LocalCluster:
    """`folder` holds the scheduler file and what each process prints. `env`: of the workers, who
    have their own login and their own disk.
    """

    def __init__(self, folder: Path, env: Mapping[str, str], workers: int) -> None:
        self.folder = folder
        self.env = dict(env)
        self.file = folder / "scheduler.json"
        self.count = 0
        self.scheduler: Process | None = None
        self.workers: list[Process] = []
        self._wanted = workers

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.begin_scheduler()
            for _ in range(self._wanted):
                self.begin_worker()
            self._until(lambda: self.said().count("Registered to:") >= self._wanted)
        except BaseException:
            self._end()
            raise
        return self

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in filter(None, (*self.workers, self.scheduler)):
            process.kill()
            process.wait()

    def begin_scheduler(self, port: int = 0) -> None:
        self.file.unlink(missing_ok=True)
        named = ("--scheduler-file", str(self.file), "--host", "127.0.0.1", "--port", str(port))
        self.scheduler = self._begin("dask_scheduler", *named)
        self._until(self.file.exists)

    def _until(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not there():
            if time.monotonic() > deadline:
                raise TimeoutError(self.said())
            time.sleep(0.05)

    def begin_worker(self) -> Process:
        alone = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        self.workers.append(self._begin("dask_worker", "--scheduler-file", str(self.file), *alone))
        return self.workers[-1]

    def kill_worker(self, at: int) -> None:
        self.workers[at].kill()
        self.workers.pop(at).wait()

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def _begin(self, module: str, *argv: str) -> Process:
        self.count += 1
        with (self.folder / f"{self.count}-{module}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *argv],
                cwd=self.folder,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
