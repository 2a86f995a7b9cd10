"""What is searched, and the pieces that are found: by entry, or by heading, then by paragraph.
Pure.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kern import plain
from kern.memory import entries
from kern.memory.entries import Kind
from kern.model import LEARNINGS

KINDS = tuple(map(str, Kind))  # of entries
MOST = 512  # tokens of a piece
OVERLAP = 50  # tokens that a piece repeats of the one before it
CHARS_PER_TOKEN = 4
Row = tuple[int, str]  # number and text of a line
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text, with the place where a person finds it."""

    path: str  # of the file, from the top level of the repository
    kind: str  # decision, pattern, insight, sign; research, attempt, spec, file
    heading: str  # those above it, outermost first: `Install > Linux`
    text: str
    first: int  # line, 1-based
    last: int
    key: str = ""  # of an entry: L7

    @property
    def place(self) -> str:
        lines = f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"
        return f"{self.path}:{lines}"


@dataclass(frozen=True, slots=True)
class Source:
    """One text that is searched. `pieces` is asked only where `data` is not what it was."""

    path: str
    data: bytes
    pieces: Callable[[], Iterable[Chunk]]


def learnings(data: bytes) -> Source:
    """Each entry on its own, under its id."""

    def pieces() -> Iterator[Chunk]:
        for entry in entries.parse(plain.decode(data)):
            last = entry.line + entry.raw.count("\n")
            dated = f"{entry.date} - " if entry.date else ""
            searched = f"{entry.text}\n\n{entry.when}" if entry.when else entry.text
            whole = Chunk(
                *(LEARNINGS, str(entry.kind), dated + entry.title, searched, entry.line, last),
                entry.id,
            )
            # A heading alone says something too.
            yield from list(parts(whole)) or ([whole] if entry.title else [])

    return Source(LEARNINGS, data, pieces)


def file(path: str, data: bytes) -> Source:
    """A text file of the project."""
    return Source(path, data, lambda: document(path, "file", plain.decode(data)))


# ---------------------------------------------------------------- cutting


def size(text: str) -> int:
    """Tokens, estimated: characters / 4."""
    return -(-len(text) // CHARS_PER_TOKEN)


def document(path: str, kind: str, text: str) -> Iterator[Chunk]:
    """A Markdown file: each section, cut further where it is too long."""
    for heading, first, lines in _sections(plain.block(text).split("\n")):
        yield from cut(Chunk(path, kind, heading, "\n".join(lines), first, first + len(lines) - 1))


def cut(whole: Chunk) -> Iterator[Chunk]:
    """The chunk itself where it is short enough; nothing where it is empty."""
    for rows in _packed([*enumerate(whole.text.split("\n"), whole.first)]):
        full = [at for at, (_, line) in enumerate(rows) if line.strip()]
        if full:
            shown = rows[full[0] : full[-1] + 1]
            text = "\n".join(line for _, line in shown)
            first, last = shown[0][0], min(shown[-1][0], whole.last)
            yield Chunk(whole.path, whole.kind, whole.heading, text, first, last, whole.key)


def parts(whole: Chunk) -> Iterator[Chunk]:
    """The same of a text that does not stand in the file as it is: each has the lines of all."""
    return (replace(one, first=whole.first, last=whole.last) for one in cut(whole))


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Heading, first line, lines. A heading right above a deeper one is a part of that one's."""
    above: list[str] = [""] * 6
    heading, first, held, fence, level = "", 1, list[str](), "", 0
    for number, line in enumerate(lines, 1):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        found = None if fence else _HEADING.fullmatch(line)
        if found is None:
            held.append(line)
            continue
        deeper = bool(level) and len(found[1]) > level
        if any(one.strip() for one in held[deeper:]):
            yield heading, first, held
        level = len(found[1])
        above = [*above[: level - 1], found[2].rstrip("# "), *[""] * (6 - level)]
        heading, first, held = " > ".join(filter(None, above)), number, [line]
    yield heading, first, held


def _packed(rows: list[Row]) -> Iterator[list[Row]]:
    """As many paragraphs as fit, and before them the end of the piece before."""
    if _size(rows) <= MOST:
        yield rows
        return
    held: list[Row] = []
    fresh = False  # whether there is more than a repetition
    for part in _parts(rows):
        if fresh and _size([*held, *part]) > MOST:
            yield held
            held = _tail(held, MOST - _size(part) - 1)  # and a line end
        held = [*held, *part]
        fresh = True
    yield held


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Paragraphs; of one that is too long, each line; of a line that is, pieces."""
    ends = [at for at, (_, line) in enumerate(rows, 1) if not line.strip()]
    for begin, end in pairwise([0, *ends, len(rows)]):
        paragraph = list(rows[begin:end])
        if _size(paragraph) <= MOST:
            yield paragraph
        else:
            yield from ([(number, one)] for number, line in paragraph for one in _broken(line))


def _broken(line: str) -> Iterator[str]:
    most = (MOST - OVERLAP) * CHARS_PER_TOKEN
    begin = 0
    while len(line) - begin > most:
        space = line.rfind(" ", begin + most // 2, begin + most)
        end = space if space > 0 else begin + most
        yield line[begin:end]
        begin = end
    yield line[begin:]


def _tail(held: Sequence[Row], room: int) -> list[Row]:
    """What the next piece repeats: whole lines, or the end of the last one."""
    most = min(OVERLAP, room)
    kept: list[Row] = []
    for number, line in reversed(held):
        if _size([(number, line), *kept]) > most:
            if any(one.strip() for _, one in kept) or most <= 0:
                return kept
            end = line[-most * CHARS_PER_TOKEN :]
            return [(number, end.partition(" ")[2] or end), *kept[:1]]
        kept.insert(0, (number, line))
    return kept


def _size(rows: Sequence[Row]) -> int:
    return size("\n".join(line for _, line in rows))
