"""How git is run: its environment, of which goes what would mislead it, its processes, and why one
failed, with what to type next: a lock that another git holds, above all.
"""

import contextlib
import os
import re
import threading
import weakref
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import cast

from kern.errors import KernError
from kern.system import process

# A person's identity, ssh, credentials and configuration stay. All else a caller's hook or alias
# left behind, or it makes git read something else than the repository says.
_PERSONS = re.compile(
    "GIT_(AUTHOR|COMMITTER|CONFIG|SSH|SSL|HTTP|PROXY|TRACE|TEST|CEILING|PYTHON)\\w*_"
    "|GIT_(SSH|ASKPASS|TRACE\\w*|EXEC_PATH|ALLOW_PROTOCOL|DISCOVERY_\\w+|CURL_VERBOSE)$"
)
_ANSWER = re.compile(rb"([0-9a-f]{40,64}) (blob|tree|commit|tag) (\d+)\n")
# The second of an index, the third of a checkout, where git tells no reason.
_FULL = "No space left|Out of diskspace|unable to write file [^:\n]+(?m:$)"
_BROKEN = f"{_FULL}|Disk quota|Input/output error|Read-only file system"


def drop(environ: MutableMapping[str, str]) -> None:
    for name in [name for name in environ if name.startswith("GIT_")]:
        # A trace without a file of its own goes where kern reads git's complaints.
        traces = "TRACE" in name and not environ[name].startswith("/")
        if traces or not _PERSONS.match(name):
            del environ[name]


def added(given: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The variables that add the pairs to the configuration that the environment already brings."""
    count = given.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(pairs))}
    for number, (name, value) in enumerate(pairs, first):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def quiet() -> dict[str, str]:
    """kern's git asks nobody, runs nothing that an agent can have planted, in ~/.gitconfig either,
    and reads what a commit really holds: a ref below refs/replace or a graft shows something else.
    """
    closed = [("core.fsmonitor", "false"), ("core.hooksPath", os.devnull)]
    closed += [("core.ignoreStat", "false")]  # else it takes what it writes in an index for there
    return {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null/none",  # of one that is there git complains
        "GIT_DIFF_OPTS": "",
        **added(os.environ, closed),
    }


def unfiltered(keys: Iterable[str]) -> dict[str, str]:
    """For a look, which runs none of the filters that these settings name: what one would convert
    counts as it lies there.
    """
    off = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    filters = sorted({key.rpartition(".")[0] for key in keys})
    return added(quiet(), [(f"{one}.{key}", value) for one in filters for key, value in off])


def with_hooks(more: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """For what runs the person's hooks."""
    return added(os.environ, [("core.fsmonitor", "false"), *more])


def started(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "Popen[bytes]":
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    from git import Git  # takes longer than all else that a command loads

    handle = Git(str(cwd)).execute(
        [*argv], istream=-1, as_process=True, env={**env}, start_new_session=True
    )
    child, handle.proc = handle.proc, None  # else the process would end with the handle
    return cast("Popen[bytes]", child)


def attend(child: "Popen[bytes]", data: bytes, timeout: float) -> tuple[bytes, str]:
    """Its output. It has a session of its own, so that a Ctrl-C at the terminal does not end git in
    the middle of a write: kern decides when it ends.
    """
    try:
        out, err = child.communicate(data, timeout or None)
    except BaseException as exc:
        with child:  # which closes its pipes
            process.end(child, process.PATIENCE_S)
        if isinstance(exc, TimeoutExpired):
            raise TimeoutError from None
        raise
    return out, err.decode("utf-8", "replace")


class Store:
    """git's objects, read by a process that lasts as long as the run: none for each."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._idle: list[Popen[bytes]] = []
        self._asking = threading.Lock()
        weakref.finalize(self, _end, self._idle)

    def _ask(self, what: str, name: str) -> tuple[str, str, int, bytes]:
        """Id, kind, size, and where asked for the content; none that has answered by halves is
        asked once more.
        """
        nothing = "", "", 0, b""
        if "\n" in name:  # it would be two questions
            return nothing
        with self._asking:
            if not self._idle or self._idle[-1].poll() is not None:
                _end(self._idle)
                env = quiet() | process.tree_last(self._root)
                argv = ("git", "cat-file", "--batch-command")
                self._idle.append(process.piped(argv, self._root, env))
            child = self._idle.pop()
            assert child.stdin and child.stdout
            with contextlib.suppress(OSError):
                child.stdin.write(os.fsencode(f"{what} {name}\n"))
                child.stdin.flush()
            answer = child.stdout.readline()
            if not answer:
                raise GitFailed(("cat-file",), 128, _end([child]))
            match, data = _ANSWER.fullmatch(answer), b""
            if match and what == "contents":
                data = child.stdout.read(int(match[3]) + 1)[:-1]
            self._idle.append(child)
        return (match[1].decode(), match[2].decode(), int(match[3]), data) if match else nothing

    def id(self, name: str) -> str:
        """Of what git calls so; empty where there is none."""
        return self._ask("info", name)[0]

    def size(self, name: str) -> int:
        return self._ask("info", name)[2]

    def read(self, name: str, kind: str = "blob") -> bytes | None:
        """An object's content; None where git has none of the name and kind."""
        _, there, _, data = self._ask("contents", name)
        return data if there == kind else None

    def close(self) -> None:
        _end(self._idle)


def _end(children: "list[Popen[bytes]]") -> str:
    """What the last one complained of: they only read, and may stand still."""
    complaint = b""
    while children:
        child = children.pop()
        child.kill()
        process.reap(child)
        with contextlib.suppress(OSError, ValueError):
            complaint = child.communicate()[1]
    return complaint.decode("utf-8", "replace")


# ---------------------------------------------------------------- why one failed


class GitFailed(KernError):
    def __init__(self, argv: Sequence[str], code: int, stderr: str) -> None:
        lines = [line for line in stderr.splitlines() if line.strip()]
        why = lines[-1] if lines else f"exit code {code}"
        hint = lock_advice(stderr) or "fix it, then run kern again: it resumes"
        if lock := met_lock(stderr):
            why = f"another git holds {os.path.basename(lock)}"
        elif re.search(_FULL, stderr):
            why = f"no space left: {why}"
            hint = "free some space, then run kern again: it resumes"
        super().__init__(f"git {' '.join(argv[:2])} failed: {why}", hint=hint)
        self.stderr = stderr

    @property
    def is_environment(self) -> bool:
        """A lock of another git, or a disk that is full, broken or read-only: nothing that an agent
        left is at fault.
        """
        return bool(met_lock(self.stderr) or re.search(_BROKEN, self.stderr))


def met_lock(stderr: str) -> str:
    """The lock file of another git that a command ran into before it changed anything, else empty.
    A ref that is not at its expected value is no lock.
    """
    match = re.search(r"Unable to create '(.+\.lock)': File exists", stderr)
    return match[1] if match else ""


def lock_advice(stderr: str) -> str:
    """What to type."""
    path = met_lock(stderr)
    return f"if no git runs here any more: rm '{path}'" if path else ""
