"""git's objects, read and written by processes that last as long as the run: none for each."""

import contextlib
import itertools
import os
import re
import subprocess
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kern.git.faults import GitFailed

_FOUND = re.compile(rb"([0-9a-f]{40,64}) (blob|tree|commit|tag) (\d+)\n")
_MOST_TREES = 200_000  # entries of trees that are remembered
_END_S = 1.0  # for a process that nobody asks any more
_READ = ("cat-file", "--batch-command")
FOLDER = "40000"
_MODES = {"100664": "100644"}  # in trees of early gits; git takes it so as well

Child = subprocess.Popen[bytes]
Start = Callable[[tuple[str, ...]], Child]  # a git that answers a line with a line, or more
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Entry:
    mode: str
    blob: str  # a folder's is a tree, a submodule's a commit


Tree = dict[str, Entry]  # by name


class Store:
    """What an object is called is asked each time; only what trees hold is remembered."""

    def __init__(self, start: Start, scratch: Path) -> None:
        self._start = start
        self._scratch = scratch
        self._idle: dict[tuple[str, ...], Child] = {}
        weakref.finalize(self, _end_all, self._idle)
        self._trees: dict[str, Tree] = {}
        self._held = 0

    @contextlib.contextmanager
    def _asked(self, argv: tuple[str, ...], line: str) -> Iterator[tuple[bytes, IO[bytes]]]:
        """The first line of the answer, and where the rest is read: else the next question would
        get what is left of it. A process that was ended meanwhile is started again.
        """
        complaint = ""
        for _ in range(2):
            child = self._idle.pop(argv, None) or self._start(argv)
            assert child.stdin and child.stdout
            answer = b""
            with contextlib.suppress(OSError):
                child.stdin.write(os.fsencode(f"{line}\n"))
                child.stdin.flush()
                answer = child.stdout.readline()
            if answer:
                yield answer, child.stdout
                self._idle[argv] = child
                return
            complaint = _end(child)
        raise GitFailed(argv, 128, complaint)

    def id(self, name: str) -> str:
        """Of what git calls so; empty where there is none."""
        with self._asked(_READ, f"info {name}") as (answer, _):
            found = _FOUND.fullmatch(answer)
        return found[1].decode() if found else ""

    def read(self, name: str, kind: str = "blob") -> bytes | None:
        """An object's content; None where git has none of the name and kind."""
        with self._asked(_READ, f"contents {name}") as (answer, rest):
            found = _FOUND.fullmatch(answer)
            data = rest.read(int(found[3]) + 1)[:-1] if found else b""
        return data if found and found[2].decode() == kind else None

    def tree(self, name: str) -> Tree:
        """What a tree holds, by its id."""
        if name not in self._trees:
            raw = self.read(name, "tree")
            if raw is None:
                raise GitFailed(("cat-file", "tree"), 128, f"fatal: unable to read tree {name}")
            self._held += len(found := dict(_rows(raw, len(name) // 2)))
            if self._held > _MOST_TREES:
                self._trees.clear()
                self._held = len(found)
            self._trees[name] = found
        return self._trees[name]

    def write(self, kind: str, data: bytes) -> str:
        self._scratch.mkdir(parents=True, exist_ok=True)
        place = self._scratch / f"object-{os.getpid()}-{next(_numbers)}"
        argv = ("hash-object", "-t", kind, "-w", "--no-filters", "--stdin-paths")
        try:
            place.unlink(missing_ok=True)  # a hook can have put a link there
            with place.open("xb") as file:
                file.write(data)
            with self._asked(argv, str(place)) as (answer, _):
                return answer.decode().strip()
        finally:
            place.unlink(missing_ok=True)

    def write_tree(self, tree: Tree) -> str:
        def order(name: str) -> bytes:
            return os.fsencode(f"{name}/" if tree[name].mode == FOLDER else name)

        rows = ((tree[name], os.fsencode(name)) for name in sorted(tree, key=order))
        return self.write(
            "tree",
            b"".join(b"%s %s\0%s" % (e.mode.encode(), n, bytes.fromhex(e.blob)) for e, n in rows),
        )

    def close(self) -> None:
        _end_all(self._idle)


def _rows(raw: bytes, size: int) -> Iterator[tuple[str, Entry]]:
    at = 0
    while at < len(raw):
        end = raw.index(b"\0", at)
        mode, _, name = os.fsdecode(raw[at:end]).partition(" ")
        at = end + 1 + size
        yield name, Entry(_MODES.get(mode, mode), raw[end + 1 : at].hex())


def _end_all(idle: dict[tuple[str, ...], Child]) -> None:
    while idle:
        _end(idle.popitem()[1])


def _end(child: Child) -> str:
    """What it complained of."""
    try:
        return (child.communicate(timeout=_END_S)[1] or b"").decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    except subprocess.TimeoutExpired:  # it stands still
        child.kill()
        return child.communicate()[1].decode("utf-8", "replace")
