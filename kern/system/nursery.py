"""Kerns that are copies of one process, which has loaded kern: that time is spent once for all of
them. Where that cannot be, each is started as usual.

`python -P -m kern.system.nursery FD MODULE` is that process. For each request it forks a keeper,
and that a child, in which the module's `main` runs, and of which it tells how it ended.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, TimeoutExpired
from tempfile import TemporaryFile
from typing import Any

from kern.system import process

_WORDS = 4  # of Python's, in the argv of a request


class Child:
    """As much of a Popen as `process.run` asks for."""

    def __init__(self, pid: int, told: int) -> None:
        self.pid, self.told = pid, told
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            (waiting := select.poll()).register(self.told, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                raise TimeoutExpired("", timeout or 0.0)
            told = os.read(self.told, 4)  # nothing, where its keeper was killed
            os.close(self.told)
            self.returncode = int.from_bytes(told, "little", signed=True) if told else -9
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Nursery:
    """`env`: by which its process, and each of its children, is found."""

    def __init__(self, env: Mapping[str, str], module: str) -> None:
        self.way, there = socket.socketpair()
        self.asking = threading.Lock()
        with there:
            program = sys.executable if sys.platform == "linux" else "false"  # where a fork is safe
            argv = program, "-P", "-m", __name__, str(there.fileno()), module
            null = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL}
            self.process = process.start(argv, env=env, cwd="/", pass_fds=[there.fileno()], **null)

    def start(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], **files: Any) -> Any:
        """See `process.start`."""
        told, tells = os.pipe()
        with TemporaryFile() as request, open(tells, "wb", 0):
            request.write(json.dumps([argv[_WORDS - 1 :], str(cwd), {**env}]).encode())
            request.seek(0)
            passed = (files[name].fileno() for name in ("stdin", "stdout", "stderr"))
            with contextlib.suppress(OSError), self.asking:
                socket.send_fds(self.way, [b"."], [*passed, request.fileno(), tells])
        if pid := os.read(told, 4):
            return Child(int.from_bytes(pid, "little"), told)
        os.close(told)  # it is gone
        return process.start(argv, cwd=cwd, env=env, **files)

    def close(self) -> None:
        self.way.close()
        self.process.kill()
        self.process.wait()


# ---------------------------------------------------------------- its process


def main(number: str, module: str) -> None:
    program = importlib.import_module(module)
    gc.freeze()
    with socket.socket(fileno=int(number)) as way:
        while files := socket.recv_fds(way, 1, 5)[1]:
            if not os.fork():
                break
            for file in files:
                os.close(file)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    if files:
        _keep(*files)
        program.main()


def _keep(*files: int) -> None:
    """Returns in the child alone."""
    *standard, request, tells = files
    if pid := os.fork():
        with contextlib.suppress(OSError):  # who asked is gone
            os.write(tells, pid.to_bytes(4, "little"))
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.write(tells, code.to_bytes(4, "little", signed=True))
        os._exit(0)
    os.setsid()
    with open(request, "rb", closefd=False) as text:
        sys.argv, folder, env = json.load(text)
    for number, file in enumerate(standard):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)


if __name__ == "__main__":
    main(*sys.argv[1:])
