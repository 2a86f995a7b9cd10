"""A process that has kern imported and forks it for each run: tests/scenarios/forked.py."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All that a person at a terminal reads; of a run its events, then warnings and errors."""
        return self.out + self.err


class Server:
    """A module's process that answers each job, a line of JSON, by another. One that broke down is
    started anew for the next job.
    """

    process: "subprocess.Popen[str] | None" = None

    def __init__(self, module: str, env: Mapping[str, str] | None = None) -> None:
        self.module = module
        self.env = {**(env or os.environ), "ROOM": 16384 * " "}  # see forked.show_environment

    def ask(self, job: Mapping[str, Any]) -> Any:
        if not self.process:
            argv, pipe = [sys.executable, "-m", self.module], subprocess.PIPE
            self.process = subprocess.Popen(
                argv, cwd=TOP, env=self.env, stdin=pipe, stdout=pipe, text=True
            )
        assert self.process.stdin and self.process.stdout
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except BaseException:  # where the test was ended, too: the answer would be the next one's
            self.process.kill()
            self.close()
            raise

    def close(self) -> None:
        if self.process:
            self.process.communicate()
        self.process = None


class Stable(Server):
    def __init__(self) -> None:
        super().__init__("tests.scenarios.forked")

    def kern(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> Ran:
        """kern in that folder and environment (the test's own by default), until it ends."""
        with tempfile.TemporaryDirectory() as folder:
            files = {"out": f"{folder}/out", "err": f"{folder}/err"}
            for file in files.values():
                Path(file).touch()
            job: dict[str, Any] = {
                "argv": argv,
                "cwd": str(cwd),
                "env": {**os.environ, **(env or {})},
            }
            job |= {"stdin": os.devnull, "at": None, **files}
            code = self.ask(job)
            said = [
                Path(file).read_bytes().decode("utf-8", "surrogateescape")
                for file in files.values()
            ]
        assert code != -signal.SIGALRM, f"kern did not end:\n{''.join(said)}"
        ran = Ran(code, *said)
        ran.said.encode()  # fails on what is no UTF-8
        return ran
