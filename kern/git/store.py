"""git's objects, read and written by processes that last as long as the run: none for each."""

import contextlib
import itertools
import os
import re
import subprocess
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from socket import socket
from typing import IO, BinaryIO, cast

from kern.git.faults import GitFailed

_FOUND = re.compile(rb"([0-9a-f]{40,64}) (blob|tree|commit|tag) (\d+)\n")
_PIECE = 1 << 20  # bytes
_MOST_TREES = 200_000  # entries of trees that are remembered
_MOST_KINDS = 10_000  # objects
_END_S = 1.0  # for a process that nobody asks any more
_READ = ("cat-file", "--batch-command")
_MOVE = ("update-ref", "--stdin")
Tree = dict[bytes, tuple[bytes, str]]  # name to mode and id
FOLDER = b"40000"
_MODES = {mode: mode for mode in (FOLDER, b"100644", b"100755")}  # one of each in memory
_MODES[b"100664"] = _MODES[b"100644"]  # in trees of early gits; git takes it so as well

Start = Callable[[tuple[str, ...]], tuple["subprocess.Popen[bytes]", socket, IO[bytes]]]


class Store:
    """An object is looked for on the disk each time; only what it is, and what trees hold, is
    remembered.
    """

    def __init__(self, start: Start, scratch: Path, objects: Path) -> None:
        self._start = start
        self._scratch = scratch
        self._objects = str(objects)
        self._packs = objects / "pack"
        self._idle: dict[tuple[str, ...], _Helper] = {}
        self._seen = 0
        self._kinds: dict[str, str] = {}
        self._trees: dict[str, Tree] = {}
        self._held = 0

    def _ask(self, argv: tuple[str, ...], line: bytes) -> tuple["_Helper", bytes]:
        """The first line of the answer, and who gives the rest; `_idle` has it again only when all
        of it has been read, or the next question would get what is left of this answer. A process
        that was ended meanwhile is started again.
        """
        complaint = ""
        for _ in range(2):
            helper = self._idle.pop(argv, None)
            if helper is None or helper.owner != os.getpid():
                helper = _Helper(argv, self._start)
            if answer := helper.ask(line):
                return helper, answer
            complaint = helper.end() or ""
        raise GitFailed(argv, 128, complaint)

    def _line(self, argv: tuple[str, ...], line: bytes) -> bytes:
        """An answer of one line."""
        helper, answer = self._ask(argv, line)
        self._idle[argv] = helper
        return answer

    # ------------------------------------------------------------ reading

    def _about(self, name: str) -> tuple[str, str] | None:
        """Id and kind of an object; None where git has none of the name."""
        known = self._kinds.get(name)
        if known and os.path.isfile(f"{self._objects}/{name[:2]}/{name[2:]}"):
            return name, known
        self._look_at_packs()
        found = _FOUND.fullmatch(self._line(_READ, _line("info", name)))
        return self._noted(found[1].decode(), found[2].decode()) if found else None

    def _noted(self, name: str, kind: str) -> tuple[str, str]:
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[name] = kind
        return name, kind

    def _look_at_packs(self) -> None:
        """A pack that a collector has deleted would still be read by who has it open."""
        try:
            now = os.stat(self._packs).st_mtime_ns
        except OSError:
            now = 0
        if now != self._seen:
            self._seen = now
            if helper := self._idle.pop(_READ, None):
                helper.end()

    def id(self, name: str) -> str:
        """Of what git calls so, on the disk now; empty where there is none."""
        bare, peeled, kind = name.partition("^{")
        # What a commit names is remembered by git, also once the commit is gone.
        found = self._about(bare)
        if peeled and found and kind != f"{found[1]}}}":
            found = self._about(name)
        return found[0] if found else ""

    def pieces(self, name: str, kind: str = "blob") -> Iterator[bytes] | None:
        """An object's content, piece by piece."""
        self._look_at_packs()
        helper, answer = self._ask(_READ, _line("contents", name))
        found = _FOUND.fullmatch(answer)
        if found is None:
            self._idle[_READ] = helper
            return None
        pieces = self._read(name, int(found[3]), helper)
        if found[2].decode() == kind:
            return pieces
        for _ in pieces:  # it is on its way
            pass
        return None

    def _read(self, name: str, left: int, helper: "_Helper") -> Iterator[bytes]:
        while left:
            piece = helper.answers.read(min(left, _PIECE))
            if not piece:
                raise GitFailed(("cat-file", name), 128, f"fatal: git ended while it read {name}")
            left -= len(piece)
            yield piece
        helper.answers.read(1)
        self._idle[_READ] = helper

    def read(self, name: str, kind: str = "blob") -> bytes | None:
        pieces = self.pieces(name, kind)
        return None if pieces is None else b"".join(pieces)

    def tree(self, name: str) -> Tree:
        """What a tree holds, by its id."""
        if name not in self._trees:
            raw = self.read(name, "tree")
            if raw is None:
                raise GitFailed(("cat-file", "tree"), 128, f"fatal: unable to read tree {name}")
            found = dict(_rows(raw, len(name) // 2))
            self._held += len(found)
            if self._held > _MOST_TREES:
                self._trees.clear()
                self._held = len(found)
            self._trees[name] = found
        return self._trees[name]

    def move(self, argv: Sequence[str]) -> bool:
        """What a plain `git update-ref` of one of kern's own refs does, as a whole or not at all;
        False where it is none, or does not come about: then git itself is to be started.
        """
        what = _move(argv)
        if not what:
            return False
        try:
            helper, said = self._ask(_MOVE, os.fsencode(f"start\n{what}\ncommit\n"))
        except GitFailed:
            return False
        if said == b"start: ok\n" and helper.answers.readline() == b"commit: ok\n":
            self._idle[_MOVE] = helper
            return True
        helper.end()
        return False

    def close(self) -> None:
        while self._idle:
            self._idle.popitem()[1].end()

    # ------------------------------------------------------------ writing

    def write(self, kind: str, data: bytes) -> str:
        self._scratch.mkdir(parents=True, exist_ok=True)
        place = self._scratch / f"object-{os.getpid()}-{next(_numbers)}"
        try:
            place.unlink(missing_ok=True)  # a hook can have put a link there
            with place.open("xb") as file:
                file.write(data)
            argv = ("hash-object", "-t", kind, "-w", "--no-filters", "--stdin-paths")
            written = self._line(argv, os.fsencode(f"{place}\n")).decode().strip()
            return self._noted(written, kind)[0]
        finally:
            place.unlink(missing_ok=True)

    def hash(self, places: Iterable[str]) -> list[str]:
        """Write the files, as they are, as blobs."""
        argv = ("hash-object", "-t", "blob", "-w", "--no-filters", "--stdin-paths")
        lines = (os.fsencode(f"{place}\n") for place in places)
        return [self._line(argv, line).decode().strip() for line in lines]

    def write_tree(self, tree: Tree) -> str:
        rows = sorted(
            tree.items(), key=lambda row: row[0] + b"/" if row[1][0] == FOLDER else row[0]
        )
        raw = b"".join(b"%s %s\0%s" % (m, name, bytes.fromhex(i)) for name, (m, i) in rows)
        return self.write("tree", raw)


_numbers = itertools.count()


def _move(argv: Sequence[str]) -> str:
    """As a line for the one that lasts; empty where it is something else, or has more options."""
    if argv[0] != "update-ref" or any(word.startswith("-") for word in argv[2:]):
        return ""
    words = ("delete", *argv[2:]) if argv[1] == "-d" else ("update", *argv[1:])
    return " ".join(words) if words[1].startswith("refs/kern/") else ""


def _line(command: str, name: str) -> bytes:
    if "\n" in name:
        raise ValueError(name)
    return os.fsencode(f"{command} {name}\n")


def _rows(raw: bytes, size: int) -> Iterator[tuple[bytes, tuple[bytes, str]]]:
    at = 0
    while at < len(raw):
        end = raw.index(b"\0", at)
        mode, _, name = raw[at:end].partition(b" ")
        at = end + 1 + size
        yield name, (_MODES.get(mode, mode), raw[end + 1 : at].hex())


class _Helper:
    """One process that answers a line with a line, or more. It hears kern through a socket: a pipe
    would be open to all that the person's processes can do, an agent's among them.
    """

    def __init__(self, argv: tuple[str, ...], start: Start) -> None:
        self.owner = os.getpid()  # a fork must not ask for its parent
        process, self._asked, complaints = start(argv)
        self.answers = cast(BinaryIO, self._asked.makefile("rb"))
        # Gives what it complained of, once.
        self.end = weakref.finalize(self, _end, process, self._asked, self.answers, complaints)

    def ask(self, line: bytes) -> bytes:
        """Empty where it has ended."""
        try:
            self._asked.sendall(line)
            return self.answers.readline()
        except OSError:
            return b""


def _end(
    process: "subprocess.Popen[bytes]", asked: socket, answers: BinaryIO, complaints: IO[bytes]
) -> str:
    for end in (answers, asked):
        with contextlib.suppress(OSError):
            end.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:  # it stands still
        process.kill()
        process.wait()
    with complaints:
        complaints.seek(0)
        return complaints.read().decode("utf-8", "replace")
