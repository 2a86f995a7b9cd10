"""kern without its start, and killed after one of its own writes. For tests.

Imports kern once, then reads a job per line, {"argv", "cwd", "env", "where"}, and plays it in a
fork: `kern ARGV…` in that folder and environment. `where` says after which write it dies by
SIGKILL: what was written, `stage2.json`, the second time `stage2.json#2`, or a number for that one
of all; with `before ` in front just before it; empty for none. Answers {"code", "out", "err"}.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any

import kern
from kern.cli import main as cli
from tests.kit.writes import watch

MOST_SECONDS = 300  # of one run: a test must not hang with kern
# What kern's libraries load at their first use.
LATE = (
    ("filelock", "SoftFileLock"),
    ("git", "Repo"),
    ("jinja2.sandbox", "SandboxedEnvironment"),
    ("typer._adapters", "try_build_adapter"),
)
STARTS = "kern.holder"  # written before kern looks at anything


class Deaths:
    """Counts what was written and dies right after the wanted one."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.seen: Counter[str] = Counter()

    def begins(self, name: str) -> None:
        if self.where == f"before {name}#{self.seen[name] + 1}":
            os.kill(os.getpid(), signal.SIGKILL)

    def wrote(self, name: str) -> None:
        if name == STARTS:
            return
        self.seen[name] += 1
        if self.where in (name, f"{name}#{self.seen[name]}", str(self.seen.total())):
            os.kill(os.getpid(), signal.SIGKILL)


def play(job: Mapping[str, Any]) -> dict[str, Any]:
    with contextlib.ExitStack() as open_files:
        out, err = (open_files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        pid = os.fork()
        if not pid:
            signal.alarm(MOST_SECONDS)
            heed(job["env"])
            become_kern(job, out, err)
        return {"code": ended(pid), "out": text(out), "err": text(err)}


def ended(pid: int) -> int:
    """The exit code of a child. What agents of killed kerns left behind is buried on the way: an
    init that is slow at it would have the next kern wait for the dead.
    """
    while (found := os.waitpid(-1, 0))[0] != pid:
        pass
    return os.waitstatus_to_exitcode(found[1])


def become_kern(job: Mapping[str, Any], out: IO[bytes], err: IO[bytes]) -> None:
    code = 99
    try:
        with open(os.devnull) as nothing:
            for number, descriptor in enumerate((nothing.fileno(), out.fileno(), err.fileno())):
                os.dup2(descriptor, number)
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        time.tzset()
        tempfile.tempdir = None  # it was asked for before the fork, in another environment
        if job["where"]:
            deaths = Deaths(job["where"])
            watch(deaths.begins, deaths.wrote)
        sys.argv = ["kern", *job["argv"]]
        cli.main()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def heed(env: Mapping[str, str]) -> None:
    """What an agent or a hook asks for: in a sandbox it cannot send a signal to kern."""
    if env["KERN_SANDBOX"] != "off":
        place = os.path.join(env.get("FAKE_CLAUDE", ""), "kill")
        threading.Thread(target=obey, args=(place,), daemon=True).start()


def obey(place: str) -> None:
    """Until there is the number of one in that file."""
    while True:
        with contextlib.suppress(FileNotFoundError), open(place) as file:
            signum = int(file.read())
            os.unlink(place)
            os.kill(os.getpid(), signum)
        time.sleep(0.005)


def text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "surrogateescape")


def import_all() -> None:
    """What kern imports late is imported once, before the forks."""
    for found in pkgutil.walk_packages(kern.__path__, "kern."):
        if found.name != "kern.__main__":
            importlib.import_module(found.name)
    for name, attribute in LATE:
        getattr(importlib.import_module(name), attribute)
    gc.freeze()  # nothing to look through in each fork


def main() -> None:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    import_all()
    for line in sys.stdin:
        print(json.dumps(play(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
