"""A process with kern's modules loaded, forked for each kern that is typed: an interpreter's start
and kern's imports are paid for once. Of kern it knows the entry point's name and nothing else.

A job per line, {"argv", "cwd", "env", "stdin", "out", "err", "events", "at", "what"}; answers the
exit code. Where `at` is given, the file `events` lists what kern writes that lasts, and where in
kern, see `Watch`; before the `at`-th of these, or before `at` itself (`stage2.json 3`: the third of
that name), `what` happens: a signal's name, or an errno's with which that write fails. For "COPY"
`at` are several: of what lies there before each a copy is made, which a kill would have left.

The kerns that -j starts are forks as well.
"""

import contextlib
import ctypes
import errno
import functools
import gc
import importlib
import importlib.metadata
import inspect
import json
import os
import pkgutil
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import typer.main

import kern

KERN = os.path.dirname(kern.__file__)
MOST_S = 300  # of one kern: a test must not hang with it
# What kern's libraries load at their first use.
LATE = (
    ("filelock", "SoftFileLock"),
    ("git", "Repo"),
    ("jinja2.sandbox", "SandboxedEnvironment"),
    ("typer._adapters", "try_build_adapter"),
)
EXTRAS = ("distributed", "mcp")  # large, and few need them: not in each fork
WRITES = os.O_WRONLY | os.O_RDWR
# Commands of git after which something else stands under a name, or in the person's index.
INDEX = {"read-tree", "update-index", "reset"}
MOVES = {"update-ref", "symbolic-ref", "checkout", "commit", "rm", "mv", "cherry-pick", "merge"}
MOVES |= INDEX | {"stash", "restore", "switch", "branch", "worktree"}
LOOSE = ", not on the disk"
# Of one process, and gone with it: a number or letters by chance end its name.
SCRATCH = re.compile(
    r"^\..*\.[a-z0-9_]{8}$|-\d+-\d+$|-[a-z0-9_]{8}$|\.lock$|^\.last$|^\.coverage\."
)
FULL = "!echo 'error: unable to write file: {}' >&2; exit 128"


class Watch:
    """Hears of what is about to be written from the interpreter itself, whatever code writes it."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.log = os.open(job["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.at, self.what, self.seen, self.begun = job["at"], job["what"], Counter[str](), False
        self.top = top = job["env"]["W"]
        self.tree, self.scratch = f"{top}/project/", (job["env"]["TMPDIR"], "/dev", "/proc")
        self.sweeping = False  # into the history of what is done: one write is like another
        self.owner, self.thread, self.busy = os.getpid(), threading.get_ident(), False
        sys.addaudithook(self.hears)
        self.synced: set[str] = set()
        sync = os.fsync

        def syncing(descriptor: int) -> None:
            self.synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
            sync(descriptor)

        os.fsync = syncing  # type: ignore[assignment]

    def hears(self, event: str, args: Any) -> None:
        if self.busy or os.getpid() != self.owner:
            return
        self.busy = True
        try:
            if name := self.name(event, args):
                self.happens(name, event, args)
        finally:
            self.busy = False

    def name(self, event: str, args: Any) -> str:
        """What lasts that is about to be written; empty for the rest."""
        match event:
            case "os.rename":
                source, name = os.path.abspath(os.fsdecode(args[0])), self.place(args[1])
                made = os.path.basename(source)[:1] == "." and not os.path.islink(source)
                return f"{name}{LOOSE}" if name and made and source not in self.synced else name
            case "os.remove" | "os.rmdir":
                return (name := self.place(*args[:2], there=True)) and f"no {name}"
            case "open" if isinstance(args[0], str) and (args[2] or 0) & WRITES:
                tree = args[0].startswith(self.tree) and "/.git/" not in args[0]
                return self.place(args[0]) if tree else ""
            case "subprocess.Popen":
                words = [os.fsdecode(word) for word in args[1]]
                if "-p" in words and any(Path(word).name == "claude" for word in words):
                    return "call"  # perhaps by way of bwrap
                moves = [word for word in words[1:8] if word in MOVES]
                if "git" not in words[0] or not moves or "hash-object" in words:
                    return ""
                if moves[0] in INDEX and "GIT_INDEX_FILE" in (args[3] or {}):
                    return ""  # an index of its own holds nothing that lasts
                ours = [word for word in words if word.startswith("refs/kern/")]
                verb = "delete" if "-d" in words else "update"
                return f"{verb} {ours[0]}" if ours else f"git {moves[0]}"
        return ""

    def place(self, path: Any, folder: Any = -1, *, there: bool = False) -> str:
        """A name for a path that lasts; `there`: and is there."""
        path = os.fsdecode(path)
        with contextlib.suppress(OSError):
            if isinstance(folder, int) and folder >= 0:
                path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        path, name = os.path.abspath(path), os.path.basename(path)
        before, self.sweeping = self.sweeping, "/history/" in path
        if path.startswith(self.scratch) or SCRATCH.search(name) or (before and self.sweeping):
            return ""
        return name if not there or os.path.lexists(path) else ""

    def site(self, name: str) -> str:
        """Which of kern's functions are at it, the innermost first; of what goes, that one."""
        frame, names = sys._getframe(), list[str]()
        while frame := frame.f_back:  # type: ignore[assignment]
            if frame.f_code.co_filename.startswith(KERN):
                names.append(frame.f_code.co_qualname)
        return " ".join(names[:1] if name.startswith("no ") else names)

    def happens(self, name: str, event: str, args: Any) -> None:
        self.seen[name] += 1
        os.write(self.log, f"{name}\t{self.site(name)}\n".encode())
        if self.what == "COPY":
            if (at := self.seen.total()) in self.at:
                subprocess.call(["cp", "-a", self.top, f"{self.top}-{at}"])
            return
        now = self.at in (self.seen.total(), f"{name} {self.seen[name]}")
        self.begun |= now
        if not self.begun:
            return
        if self.what.startswith("SIG"):
            if now:
                os.kill(os.getpid(), signal.Signals[self.what])
            return
        number = getattr(errno, self.what)
        if not (now or number == errno.ENOSPC) or name == "call":
            return  # a full disk stays full, an error passes
        if event == "subprocess.Popen":
            args[1][1:] = ["-c", f"alias.full={FULL.format(os.strerror(number))}", "full"]
        elif not name.startswith("no "):
            raise OSError(number, os.strerror(number), name)


# ---------------------------------------------------------------- the kerns of -j


OWN_KERN = ["-P", "-m", "kern"]
CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
CLONE_PARENT = 0x8000


def fork_beside() -> int:
    """os.fork, but the parent of both is the same."""
    api = ctypes.pythonapi
    api.PyOS_BeforeFork()
    pid = ctypes.PyDLL(None).syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    (api.PyOS_AfterFork_Parent if pid else api.PyOS_AfterFork_Child)()
    return int(pid)


def start_by_fork(main: Any) -> None:
    """From now on. The forks are of this moment, and children as they would be."""
    mine, asked = socket.socketpair()
    if not os.fork():
        mine.close()
        bear(asked, main)
    asked.close()
    start, turn = subprocess.Popen._execute_child, threading.Lock()  # type: ignore[attr-defined]
    names = [*inspect.signature(start).parameters][1:]

    def begin(self: Any, *args: Any) -> None:
        how = dict(zip(names, args, strict=True))
        if how["args"][1:4] != OWN_KERN:
            start(self, *args)
            return
        numbers = (how[name] for name in ("p2cread", "c2pwrite", "errwrite"))
        stdin, out, err = (f"/proc/{os.getpid()}/fd/{number}" for number in numbers)
        job = {"argv": how["args"][4:], "cwd": str(how["cwd"]), "env": how["env"]}
        job |= {"stdin": stdin, "out": out, "err": err}
        with turn:
            mine.send(json.dumps(job).encode() + b"\n")
            self.pid, self._child_created = int(mine.recv(32)), True

    subprocess.Popen._execute_child = begin  # type: ignore[attr-defined]


def bear(asked: socket.socket, main: Any) -> None:
    for line in asked.makefile():
        job = json.loads(line)
        if pid := fork_beside():
            asked.send(str(pid).encode())
            continue
        asked.close()
        os.setsid()
        os.environ.clear()
        os.environ.update(job["env"])
        show_environment()
        os._exit(run(job, main))
    os._exit(0)


def show_environment() -> None:
    """Others find a process by the environment that it was started with."""
    with open("/proc/self/stat") as file:
        start, end = map(int, file.read().rpartition(")")[2].split()[47:49])
    text = b"".join(b"%s=%s\0" % pair for pair in os.environb.items())
    assert len(text) <= end - start
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


# ---------------------------------------------------------------- a kern


def become(job: dict[str, Any], main: Any) -> None:
    code = 99
    try:
        if "-j" in job["argv"] and CLONE:
            start_by_fork(main)
        signal.alarm(MOST_S)
        place = os.path.join(job["env"].get("FAKE_CLAUDE", ""), "kill")
        threading.Thread(target=obey, args=(place,), daemon=True).start()
        if job["at"] is not None:
            Watch(job)
        else:
            os.fsync = lambda fd: None  # no story ends with the power
        code = run(job, main)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run(job: dict[str, Any], main: Any) -> int:
    """kern's main where and as the job says; its exit code."""
    for number, file in enumerate((job["stdin"], job["out"], job["err"])):
        os.dup2(os.open(file, os.O_RDWR | os.O_APPEND), number)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    tempfile.tempdir = None  # it was asked for before the fork, in another environment
    sys.argv = ["kern", *job["argv"]]
    try:
        main()
        code = 0
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 99
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def warm(job: dict[str, Any], main: Any) -> int:
    """A kern in this process itself: what it compiles at its first use (prompts, patterns) every
    fork has.
    """
    environ, streams, kept = {**os.environ}, (sys.stdout, sys.stderr), [*map(os.dup, range(3))]
    code = run(job, main)
    for number, descriptor in enumerate(kept):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environ)
    sys.stdout, sys.stderr = streams
    return code


def obey(place: str) -> None:
    """A signal for kern, where an agent or a hook has written its number into that file: in a
    sandbox they cannot send one.
    """
    while True:
        with contextlib.suppress(FileNotFoundError), open(place) as file:
            signum = int(file.read())
            os.unlink(place)
            os.kill(os.getpid(), signum)
        time.sleep(0.02)


def import_all() -> None:
    """What kern imports late is imported once, before the forks."""
    sys.modules.update(dict.fromkeys(EXTRAS))  # type: ignore[arg-type]
    for found in pkgutil.walk_packages(kern.__path__, "kern."):
        if found.name != "kern.__main__":
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
    for name, attribute in LATE:
        getattr(importlib.import_module(name), attribute)
    typer.main.get_command = functools.cache(typer.main.get_command)
    for name in EXTRAS:
        del sys.modules[name]


def main() -> None:
    with contextlib.suppress(OSError, AttributeError):  # what killed kerns leave is buried here
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    sys.executable = os.environ.get("COVERAGE_PYTHON", sys.executable)
    start = next(iter(importlib.metadata.entry_points(group="console_scripts", name="kern"))).load()
    import_all()
    for line in sys.stdin:
        job = json.loads(line)
        if job.get("what") == "warm":
            print(warm(job, start), flush=True)
            continue
        gc.freeze()  # nothing to look through in each fork
        if not (pid := os.fork()):
            become(job, start)
        while (ended := os.waitpid(-1, 0))[0] != pid:
            pass
        print(os.waitstatus_to_exitcode(ended[1]), flush=True)


if __name__ == "__main__":
    main()
