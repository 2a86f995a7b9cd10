"""SPEC.md as data: tasks, notes, diagnostics. Text in, values out.

Lines are split at "\\n" alone: a form feed or U+2028 is no line end to an editor, and a "\\r" stays
part of its line, so that an edit can put every byte back.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kern import plain
from kern.model import SPEC, Key, Marker

EXAMPLE = "- [ ] Add a --version flag that prints the version from pyproject.toml"


class Kind(StrEnum):
    """The notes that kern reads or writes under a task."""

    RESEARCH = "Research"
    ATTEMPT = "Attempt"
    SKIPPED = "Skipped"
    BLOCKED = "Blocked"
    HELD = "Held"
    AFTER = "After"
    GATE = "Gate"
    JUDGE = "Judge"
    QUESTION = "Question"
    ANSWER = "Answer"


_EXPERIMENT = re.compile(r"[*_`]*experiment[*_`]*\s*:", re.I)
STUCK, RESULT = "(no progress; ", "(its result; "  # end an attempt note: the tier's last
_LAST = re.compile(r"\((?:no progress|its result); kept: \S+\)$")


class Note(NamedTuple):
    kind: Kind
    text: str  # of the first line; of a research note all lines
    line: int
    end: int  # its last line
    number: int = 0  # of an attempt

    @property
    def said(self) -> tuple[Kind, int, str]:
        """What it says, wherever it stands."""
        return self.kind, self.number, self.text


@dataclass(slots=True)
class Task:
    """Filled while its lines are read, and never changed after that."""

    key: Key
    marker: Marker
    line: int  # 1-based, as an editor shows it
    column: int  # of the marker, 0-based
    indent: int  # in columns
    margin: str  # white space before the bullet
    below: str  # and before what belongs to it
    parent: int | None  # index among the tasks
    end: int  # last line of its own before its first subtask
    block_end: int  # last line of the whole, subtasks included
    whole: bool = False  # it has subtasks
    open_subtasks: bool = False
    notes: list[Note] = field(default_factory=list)
    body: list[str] = field(default_factory=list)  # what a person wrote under it

    @property
    def text(self) -> str:
        return self.key.text

    def of(self, *kinds: Kind) -> tuple[Note, ...]:
        return tuple(note for note in self.notes if note.kind in kinds)

    @property
    def attempts(self) -> int:  # all that were ever noted
        return len(self.of(Kind.ATTEMPT))

    def spent(self, attempts: int) -> int:
        """Of a tier's `attempts` those used up: all where one was the last."""
        return self._rounds(attempts)[-1]

    def full_failures(self, attempts: int) -> int:
        """How often a `Skipped` note closed `attempts` attempts."""
        return sum(used >= attempts for used in self._rounds(attempts)[:-1])

    def _rounds(self, attempts: int) -> list[int]:
        """The attempts between `Skipped` notes; at least `attempts` where one was the last."""
        counts = [0]
        for note in self.of(Kind.SKIPPED, Kind.ATTEMPT):
            if note.kind is Kind.SKIPPED:
                counts.append(0)
            else:
                counts[-1] = max(counts[-1] + 1, attempts if _LAST.search(note.text) else 0)
        return counts


@dataclass(frozen=True, slots=True)
class Diagnostic:
    line: int
    message: str

    @property
    def said(self) -> str:
        return f"{SPEC} line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Spec:
    tasks: tuple[Task, ...]
    diagnostics: tuple[Diagnostic, ...]
    unclosed: Diagnostic | None = None  # a fence or comment that hides the rest
    finished: frozenset[str] = frozenset()  # names of tasks that were done and are gone

    @property
    def active(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.marker is Marker.ACTIVE)

    def above(self, task: Task) -> Iterator[int]:
        """The tasks that it is a part of, by index, the nearest first."""
        while task.parent is not None:
            yield task.parent
            task = self.tasks[task.parent]

    def parts(self, index: int | None) -> list[int]:
        """Its open subtasks, by index."""
        numbered = enumerate(self.tasks)
        return [i for i, one in numbered if one.parent == index and one.marker is not Marker.DONE]

    def shown(self, index: int) -> str:
        """The task as a person is told of it."""
        return f"{index + 1}: {plain.line(self.tasks[index].text, 200)}"

    def find(self, key: Key) -> Task | None:
        return next((task for task in self.tasks if task.key == key), None)


_ITEM = re.compile(
    r"(?P<margin>\ufeff?[ \t]*)(?P<bullet>[-*+]|\d{1,9}[.)])[ \t]+\[(?P<mark>[^\[\]]{0,3})\]"
    r"(?:[ \t]+(?P<text>.*)|\r?$)"
)
_NOTE = re.compile(rf">\s*\*\*({'|'.join(Kind)})(?: (\d{{1,9}}))?:\*\*[ \t]*(.*)")
_FINDING = re.compile(r">\s*(-.*)")
_MARKERS = {" ": Marker.PENDING, "~": Marker.ACTIVE, "x": Marker.DONE, "X": Marker.DONE}
_GLUED = re.compile(r"[-*+](?:\[[ ~xX]\][ \t]+\S|[ \t]+\[[ ~x]\][A-Za-z])")
# What hides lines, by itself or as a list item; a comment that ends in its line does not.
_OPENING = re.compile(
    r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:(`{3,})[^`]*|(~{3,}).*|(<!--)(?!.*-->).*)$"
)
_COMMENT = "-->"  # ends one
_NEARLY = re.compile(r">\s*\*{0,2}(?:gates?|judges?)\b", re.I)


def is_experiment(task: str) -> bool:
    """Whether a task, by its text, tries something out."""
    return _EXPERIMENT.match(task) is not None


def parse(text: str) -> Spec:
    """Linear in the text. Never raises: what is wrong comes back as diagnostics."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        if stripped := line.strip(" \t\ufeff\r"):
            reader.take(number, line, stripped)
    return reader.spec()


class _Reader:
    """One pass over the lines; which task owns a line is decided by indentation."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.stack: list[int] = []  # of the tasks whose block the line may belong to
        self.seen = Counter[tuple[str, str]]()
        self.diagnostics: list[Diagnostic] = []
        self.closer = ""  # a pattern: what ends the fence or comment that is open
        self.opened = 0

    def take(self, number: int, line: str, stripped: str) -> None:
        item = _ITEM.match(line)
        if self.closer:  # it belongs to what the opening line belonged to
            if re.search(self.closer, stripped):
                self.closer = ""
            self._own(number, line)
        elif item is None:
            self._take_other(number, line, stripped)
        elif (marker := _MARKERS.get(item["mark"])) is None:
            self._complain(number, f"malformed task marker [{item['mark']}]: use [ ], [~] or [x]")
        elif title := (item["text"] or "").strip():
            self._open_task(number, item, marker, title)

    def _take_other(self, number: int, line: str, stripped: str) -> None:
        if _GLUED.match(stripped):
            self._complain(number, "a task needs a space before and after its brackets: - [ ] text")
        self._leave(_columns(line[: line.index(stripped)]))
        note = _NOTE.match(stripped)
        check = note and note[1] in (Kind.GATE, Kind.JUDGE) and note[3].strip("`\0 ")
        if _NEARLY.match(stripped) and not (check and self.stack):
            self._complain(number, "this is no check: write > **Gate:** … below its task, indented")
        self._own(number, line, note, stripped)
        if opening := _OPENING.match(stripped):
            fence = opening[1] or opening[2]
            self.closer = rf"\A{fence[0]}{{{len(fence)},}}\Z" if fence else _COMMENT
            self.opened = number

    def _complain(self, number: int, message: str) -> None:
        self.diagnostics.append(Diagnostic(number, message))

    def _open_task(self, number: int, item: re.Match[str], marker: Marker, title: str) -> None:
        indent, above, parent = _columns(item["margin"]), "", None
        self._leave(indent)
        if self.stack:
            parent = self.stack[-1]
            whole = self.tasks[parent]
            whole.whole, above = True, whole.text
            whole.open_subtasks |= marker is not Marker.DONE
        self.seen[above, title] += 1
        key, margin = Key(above, title, self.seen[above, title]), item["margin"].lstrip("\ufeff")
        below, column = margin + " " * (len(item["bullet"]) + 1), item.start("mark")
        self.stack.append(len(self.tasks))
        self.tasks.append(
            Task(key, marker, number, column, indent, margin, below, parent, number, number)
        )

    def _leave(self, indent: int) -> None:
        """A task that ends hands its last line to the one above: not each line to all of them."""
        while self.stack and self.tasks[self.stack[-1]].indent >= indent:
            task = self.tasks[self.stack.pop()]
            if self.stack:
                above = self.tasks[self.stack[-1]]
                above.block_end = max(above.block_end, task.block_end)

    def _own(
        self, number: int, line: str, note: re.Match[str] | None = None, stripped: str = ""
    ) -> None:
        if not self.stack:
            return
        owner = self.tasks[self.stack[-1]]
        owner.block_end = number
        owner.end = owner.end if owner.whole else number
        last = owner.notes[-1] if owner.notes else None
        if note:
            kind, nth = Kind(note[1]), int(note[2] or 0)
            owner.notes.append(Note(kind, note[3].strip(), number, number, nth))
        elif last and last.kind is Kind.RESEARCH and (finding := _FINDING.match(stripped)):
            joined = f"{last.text}\n{finding[1].strip()}".lstrip("\n")
            owner.notes[-1] = last._replace(text=joined, end=number)
        else:
            owner.body.append(line.strip())

    def spec(self) -> Spec:
        unclosed = None
        if self.closer:
            what = "comment" if self.closer == _COMMENT else "code fence"
            hides = f"the {what} opened here is never closed and hides what stands below it"
            self._complain(self.opened, hides)
            unclosed = self.diagnostics[-1]
        self._leave(-1)
        return Spec(tuple(self.tasks), tuple(self.diagnostics), unclosed)


def _columns(margin: str) -> int:
    """The width of white space; a byte order mark has none."""
    return len(margin.replace("\ufeff", "").expandtabs(4))
