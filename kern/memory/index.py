"""The index of what is searched: derived from the files, so that it may be deleted at any time.
SQLite alone; where its file cannot be used, it is made anew in memory.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from kern.memory.chunks import Chunk, Source

FILE = "search.sqlite"  # in kern's folder of git's common directory
T = TypeVar("T")
_VERSION = 1  # of the tables below
_PATIENCE = 0.25  # seconds for a lock that another kern holds
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE source (path TEXT PRIMARY KEY, hash BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE chunk (
  id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, number INTEGER NOT NULL,
  kind TEXT NOT NULL, entry TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  hash BLOB NOT NULL
);
CREATE INDEX place ON chunk (path, number);
CREATE VIRTUAL TABLE word USING fts5 (heading, text, tokenize = 'porter unicode61');
CREATE TABLE vector (model TEXT PRIMARY KEY, ids BLOB NOT NULL, data BLOB NOT NULL);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_CHUNK = "SELECT path, kind, word.heading, word.text, first, last, entry"
_JOINED = "FROM chunk JOIN word ON word.rowid = chunk.id"


class Index:
    """One open index."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self.base = base

    def refresh(self, sources: Iterable[Source], *, all_of_them: bool) -> bool:
        """Take in what is not yet there; what is in none of `all_of_them` goes. Says whether
        anything had changed.
        """
        known = dict(self.base.execute("SELECT path, hash FROM source"))
        seen: set[str] = set()
        new: list[tuple[str, bytes, Source]] = []
        for source in sources:
            path = _clean(source.path)
            seen.add(path)
            if known.get(path) != (digest := _digest(source.data)):
                new.append((path, digest, source))
        gone = sorted(known.keys() - seen) if all_of_them else []
        if not new and not gone:
            return False
        with _written(self.base):
            for path in gone:
                self._replace(path, ())
                self.base.execute("DELETE FROM source WHERE path = ?", (path,))
            for path, digest, source in new:
                self._replace(path, source.pieces())
                self.base.execute("REPLACE INTO source VALUES (?, ?)", (path, digest))
        return True

    def _replace(self, path: str, pieces: Iterable[Chunk]) -> None:
        """Chunks of the same words at most move; the others are written anew."""
        old: dict[bytes, list[tuple[int, tuple[object, ...]]]] = {}
        for digest, id, *place in self.base.execute(
            "SELECT hash, id, number, kind, entry, first, last FROM chunk WHERE path = ?", (path,)
        ):
            old.setdefault(digest, []).append((id, tuple(place)))
        moved, new, words = [], [], []
        top = self._top()
        for number, one in enumerate(pieces):
            heading, text = _clean(one.heading), _clean(one.text)
            digest = _digest(f"{heading}\0{text}".encode())
            place = (number, one.kind, one.key, one.first, one.last)
            if same := old.get(digest):
                id, before = same.pop(0)
                if before != place:
                    moved.append((*place, id))
            else:
                top += 1
                new.append((top, path, *place, digest))
                words.append((top, heading, text))
        gone = [(id,) for rest in old.values() for id, _ in rest]
        run = self.base.executemany
        run("DELETE FROM word WHERE rowid = ?", gone)
        run("DELETE FROM chunk WHERE id = ?", gone)
        order = "number = ?, kind = ?, entry = ?, first = ?, last = ?"
        run(f"UPDATE chunk SET {order} WHERE id = ?", moved)
        run("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?)", new)
        run("INSERT INTO word (rowid, heading, text) VALUES (?, ?, ?)", words)

    def _top(self) -> int:
        """The highest id there ever was: none is given twice, since vectors go by them."""
        found = self.base.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunk'").fetchone()
        return int(found[0]) if found else 0

    # ------------------------------------------------------------ looking

    def ids(self, kinds: Sequence[str] = ()) -> list[int]:
        """Of all chunks of these kinds; of none: of all."""
        among = f"WHERE kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        rows = self.base.execute(f"SELECT id FROM chunk {among} ORDER BY id", (*kinds,))
        return [id for (id,) in rows]

    def entry(self, id: int) -> str:
        """Whose chunk it is; empty where it is no entry's."""
        return str(self.base.execute("SELECT entry FROM chunk WHERE id = ?", (id,)).fetchone()[0])

    def matches(
        self, words: Sequence[str], kinds: Sequence[str], limit: int
    ) -> list[tuple[int, float]]:
        """The best chunks with any of the words, and how well they fit (bm25, more is better)."""
        if not words:
            return []
        among = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        joined = "JOIN chunk ON chunk.id = word.rowid" if kinds else ""
        rows = self.base.execute(
            f"SELECT word.rowid, bm25(word) AS fit FROM word {joined}"
            f" WHERE word MATCH ? {among} ORDER BY fit, word.rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), *kinds, limit),
        )
        return [(id, -fit) for id, fit in rows]

    def holding(self, word: str) -> int:
        """How many chunks have the word."""
        rows = self.base.execute("SELECT count(*) FROM word WHERE word MATCH ?", (f'"{word}"',))
        return int(rows.fetchone()[0])

    def extent(self) -> tuple[int, int]:
        """How many chunks there are, and the highest id of one."""
        rows = self.base.execute("SELECT count(*), coalesce(max(id), 0) FROM chunk")
        count, top = rows.fetchone()
        return int(count), int(top)

    def chunk(self, id: int) -> Chunk:
        row = self.base.execute(f"{_CHUNK} {_JOINED} WHERE chunk.id = ?", (id,)).fetchone()
        return Chunk(*row)

    def neighbours(self, id: int) -> tuple[Chunk | None, Chunk | None]:
        """The chunks before and after it in the same text."""
        found: list[Chunk | None] = []
        for step in (-1, 1):
            row = self.base.execute(
                f"{_CHUNK} {_JOINED} WHERE (path, number) ="
                " (SELECT path, number + ? FROM chunk WHERE id = ?)",
                (step, id),
            ).fetchone()
            found.append(Chunk(*row) if row else None)
        return found[0], found[1]

    def texts(self, ids: Iterable[int]) -> list[str]:
        """Heading and text of each, in the order of their ids."""
        wanted = set(ids)
        if not wanted:
            return []
        rows = self.base.execute(
            "SELECT rowid, heading, text FROM word WHERE rowid >= ? ORDER BY rowid", (min(wanted),)
        )
        return [f"{heading}\n{text}" for id, heading, text in rows if id in wanted]

    # ------------------------------------------------------------ vectors

    def vectors(self, model: str) -> tuple[bytes, bytes]:
        """The ids of the chunks that have one, and the vectors in the same order, as they were
        kept.
        """
        rows = self.base.execute("SELECT ids, data FROM vector WHERE model = ?", (model,))
        return rows.fetchone() or (b"", b"")

    def keep(self, model: str, ids: bytes, data: bytes) -> None:
        """Those of other models go."""
        with _written(self.base):
            self.base.execute("DELETE FROM vector WHERE model <> ?", (model,))
            self.base.execute("REPLACE INTO vector VALUES (?, ?, ?)", (model, ids, data))


def using(folder: Path | None, act: Callable[[Index], T]) -> tuple[T, str]:
    """What `act` makes of the index in this folder, and why it was not used, where it was not. None
    for a folder: nothing is written. A damaged index is deleted and made again.
    """
    if folder is None:
        return _in_memory(act), ""
    place = folder / FILE
    try:
        try:
            return _on_disk(place, act), ""
        except sqlite3.OperationalError:  # locked, read-only, no room
            raise
        except (sqlite3.DatabaseError, TypeError, ValueError):  # the latter by what it held
            for name in (FILE, f"{FILE}-journal"):
                (folder / name).unlink(missing_ok=True)
            return _on_disk(place, act), f"{place} was damaged, and was made again"
    except (sqlite3.DatabaseError, OSError) as exc:
        return _in_memory(act), f"{place} cannot be used ({exc}): searched without it"


def _on_disk(place: Path, act: Callable[[Index], T]) -> T:
    if place.is_symlink():  # what it leads to may be anybody's
        place.unlink()
    with contextlib.suppress(OSError):
        place.parent.mkdir(exist_ok=True)
        os.close(os.open(place, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with contextlib.closing(_opened(str(place))) as base:
        return act(Index(base))


def _in_memory(act: Callable[[Index], T]) -> T:
    with contextlib.closing(_opened(":memory:")) as base:
        return act(Index(base))


def _opened(name: str) -> sqlite3.Connection:
    base = sqlite3.connect(name, timeout=_PATIENCE, isolation_level=None)
    try:
        version = base.execute("PRAGMA user_version").fetchone()[0]
        base.execute("PRAGMA synchronous = OFF")  # what a power failure takes is made again
        if version != _VERSION:
            if version or base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError(f"its version is {version}, not {_VERSION}")
            base.executescript(_TABLES)
    except BaseException:
        base.close()
        raise
    return base


@contextlib.contextmanager
def _written(base: sqlite3.Connection) -> Iterator[None]:
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _clean(text: str) -> str:
    """As SQLite takes it: no half characters, no end in the middle."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()
