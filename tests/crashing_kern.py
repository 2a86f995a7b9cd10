"""kern, killed after one of its own writes. For tests.

Imports kern once, then reads a job per line, {"argv", "cwd", "env", "where"}, and plays it in a
fork: `kern ARGV…` in that folder and environment. `where` says after which write it dies by
SIGKILL: what was written, `stage2.json`, the second time `stage2.json#2`, or a number for that one
of all; with `before ` in front just before it; empty for none. Answers {"code", "out", "err",
"writes"}, the last being the names of the writes in order.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import typer  # noqa: F401  # what kern imports late is imported once, before the forks

import kern.console
import kern.engine
import kern.status  # noqa: F401
from kern import cli
from kern.repo import Entry, Repo
from kern.snapshot import Snapshots

MOVES = ("update-ref", "commit")


class Deaths:
    """Writes down what was written and dies right after the wanted one."""

    def __init__(self, where: str, log: IO[bytes]) -> None:
        self.where = where
        self.log = log
        self.seen: Counter[str] = Counter()

    def begins(self, name: str) -> None:
        if self.where == f"before {name}#{self.seen[name] + 1}":
            os.kill(os.getpid(), signal.SIGKILL)

    def wrote(self, name: str) -> None:
        self.seen[name] += 1
        os.write(self.log.fileno(), f"{name}#{self.seen[name]}\n".encode())
        if self.where in (name, f"{name}#{self.seen[name]}", str(self.seen.total())):
            os.kill(os.getpid(), signal.SIGKILL)


def watch(deaths: Deaths) -> None:
    """Stand between kern and each primitive that changes what the next kern finds."""
    replace, run, put_back = os.replace, Repo.run, Snapshots.put_back

    def replacing(source: Any, target: Any, **how: Any) -> None:
        name = Path(target).name
        deaths.begins(name)
        replace(source, target, **how)
        if name != "kern.holder":
            deaths.wrote(name)

    def running(self: Repo, *argv: str, **how: Any) -> tuple[int, bytes, str]:
        ended = run(self, *argv, **how)
        persons_index = argv[0] == "update-index" and "GIT_INDEX_FILE" not in (how["env"] or {})
        if argv[0] in MOVES or persons_index:
            deaths.wrote("delete-ref" if "-d" in argv else argv[0])
        return ended

    def putting_back(self: Snapshots, wanted: Mapping[str, Entry | None]) -> None:
        for path, entry in sorted(wanted.items(), key=lambda item: item[1] is not None):
            put_back(self, {path: entry})
            deaths.wrote("put-back")

    os.replace = replacing  # type: ignore[assignment]
    Repo.run = running  # type: ignore[method-assign]
    Snapshots.put_back = putting_back  # type: ignore[method-assign]


def play(job: Mapping[str, Any]) -> dict[str, Any]:
    with contextlib.ExitStack() as open_files:
        out, err, log = (open_files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        pid = os.fork()
        if not pid:
            become_kern(job, out, err, log)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = {"code": code, "out": text(out), "err": text(err)}
        return {**said, "writes": text(log).splitlines()}


def become_kern(job: Mapping[str, Any], out: IO[bytes], err: IO[bytes], log: IO[bytes]) -> None:
    code = 99
    try:
        with open(os.devnull) as nothing:
            for number, descriptor in enumerate((nothing.fileno(), out.fileno(), err.fileno())):
                os.dup2(descriptor, number)
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        if job["where"]:
            watch(Deaths(job["where"], log))
        sys.argv = ["kern", *job["argv"]]
        cli.main()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(play(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
