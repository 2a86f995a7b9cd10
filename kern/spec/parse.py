"""SPEC.md as data: tasks, notes, diagnostics. Text in, values out.

Lines are split at "\\n" alone: a form feed or U+2028 is no line end to an editor, and a "\\r" stays
part of its line, so that an edit can put every byte back.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

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
_KINDS = {str(kind): kind for kind in Kind}
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


class Task(NamedTuple):
    key: Key
    marker: Marker
    line: int  # 1-based, as an editor shows it
    column: int  # of the marker, 0-based
    indent: int  # in columns
    margin: str  # white space before the bullet
    bullet: str
    parent: int | None  # index among the tasks
    end: int  # last line of its own before its first subtask
    block_end: int  # last line of the whole, subtasks included
    open_subtasks: bool
    notes: tuple[Note, ...]
    body: tuple[str, ...]  # what a person wrote under it

    @property
    def text(self) -> str:
        return self.key.text

    @property
    def below(self) -> str:
        """The white space before what belongs to it."""
        return self.margin + " " * (len(self.bullet) + 1)

    def of(self, *kinds: Kind) -> tuple[Note, ...]:
        return tuple(note for note in self.notes if note.kind in kinds)

    @property
    def attempts(self) -> int:  # all that were ever noted
        return len(self.of(Kind.ATTEMPT))

    @property
    def recent_attempts(self) -> int:
        return self._rounds(0)[-1]

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
_NOTE = re.compile(r"\*\*([A-Z][a-z]+)(?: (\d{1,9}))?:\*\*[ \t]*(.*)")
_MARKERS = {" ": Marker.PENDING, "~": Marker.ACTIVE, "x": Marker.DONE, "X": Marker.DONE}
_GLUED = re.compile(r"[-*+](?:\[[ ~xX]\][ \t]+\S|[ \t]+\[[ ~x]\][A-Za-z])")
_CHECK = re.compile(r">\s*\*\*(?:Gate|Judge):\*\*")
_BULLETS = frozenset("-*+0123456789")  # with which a list item may begin
_BULLET = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_NEARLY = re.compile(r">\s*\*{0,2}(?:gates?|judges?)\b", re.I)


def is_experiment(task: str) -> bool:
    """Whether a task, by its text, tries something out."""
    return _EXPERIMENT.match(task) is not None


def parse(text: str) -> Spec:
    """Linear in the text. Never raises: what is wrong comes back as diagnostics."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        reader.take(number, line)
    return reader.spec()


class _Reader:
    """One pass over the lines; which task owns a line is decided by indentation."""

    def __init__(self) -> None:
        self.drafts: list[dict[str, Any]] = []  # the fields of tasks
        self.stack: list[int] = []  # the tasks whose block the line may belong to
        self.wholes: set[int] = set()  # those that have subtasks
        self.seen: dict[tuple[str, str], int] = {}
        self.diagnostics: list[Diagnostic] = []
        self.closer = ""  # what ends the fence or comment that is open
        self.opened = 0
        self.hidden = 0  # task lines in it

    def take(self, number: int, line: str) -> None:
        stripped = line.lstrip(" \t\ufeff")
        if not stripped or stripped == "\r":
            return
        if self.closer:
            self._take_hidden(number, line, stripped)
            return
        if stripped[0] in _BULLETS and (match := _ITEM.match(line)):
            marker, title = _MARKERS.get(match["mark"]), (match["text"] or "").strip()
            if marker is None:
                self._complain(number, _malformed(match["mark"]))
            elif title:
                self._open_task(number, match, marker, title)
            return
        if _GLUED.match(stripped):
            self._complain(number, "a task needs a space before and after its brackets: - [ ] text")
        self._leave(_columns(line[: len(line) - len(stripped)]))
        if _NEARLY.match(stripped) and not (self.stack and _CHECK.match(stripped)):
            self._complain(number, "this is no check: write > **Gate:** … below its task, indented")
        self._own(number, line, stripped[1:].strip() if stripped[0] == ">" else "")
        if closer := _opens(stripped):
            self.closer, self.opened, self.hidden = closer, number, 0

    def _complain(self, number: int, message: str) -> None:
        self.diagnostics.append(Diagnostic(number, message))

    def _take_hidden(self, number: int, line: str, stripped: str) -> None:
        """It belongs to what the opening line belonged to."""
        bare = stripped.rstrip()
        if self.closer == "-->":
            closed = "-->" in stripped
        else:
            closed = bare.startswith(self.closer) and not bare.strip(self.closer[0])
        if closed:
            self.closer = ""
        elif (match := _ITEM.match(line)) and match["mark"] in _MARKERS:
            self.hidden += 1
        self._own(number, line, "")

    def _open_task(self, number: int, match: re.Match[str], marker: Marker, title: str) -> None:
        margin, above = match["margin"], ""
        indent = _columns(margin)
        self._leave(indent)
        parent = self.stack[-1] if self.stack else None
        if parent is not None:
            self.wholes.add(parent)
            above = self.drafts[parent]["key"].text
            self.drafts[parent]["open_subtasks"] |= marker is not Marker.DONE
        self.seen[above, title] = nth = self.seen.get((above, title), 0) + 1
        self.stack.append(len(self.drafts))
        ends = {"line": number, "end": number, "block_end": number}
        what = {"key": Key(above, title, nth), "marker": marker, "parent": parent}
        how = {"column": match.start("mark"), "indent": indent, "bullet": match["bullet"]}
        rest: dict[str, Any] = {
            "margin": margin.lstrip("\ufeff"),
            "open_subtasks": False,
            "notes": [],
            "body": [],
        }
        self.drafts.append(ends | what | how | rest)

    def _leave(self, indent: int) -> None:
        """A task that ends hands its last line to the one above: not each line to all of them."""
        while self.stack and self.drafts[self.stack[-1]]["indent"] >= indent:
            ended = self.drafts[self.stack.pop()]
            if self.stack:
                above = self.drafts[self.stack[-1]]
                above["block_end"] = max(above["block_end"], ended["block_end"])

    def _own(self, number: int, line: str, quoted: str) -> None:
        if not self.stack:
            return
        owner = self.drafts[self.stack[-1]]
        owner["block_end"] = number
        if self.stack[-1] not in self.wholes:
            owner["end"] = number
        notes: list[Note] = owner["notes"]
        if quoted.startswith("**") and (match := _NOTE.match(quoted)) and match[1] in _KINDS:
            kind = _KINDS[match[1]]
            if kind in (Kind.GATE, Kind.JUDGE) and not match[3].strip("`\r\t\0 "):
                self._complain(number, f"the {kind} note says nothing")
            notes.append(Note(kind, match[3], number, number, int(match[2] or 0)))
        elif quoted.startswith("-") and notes and notes[-1].kind is Kind.RESEARCH:
            joined = f"{notes[-1].text}\n{quoted}".lstrip("\n")
            notes[-1] = notes[-1]._replace(text=joined, end=number)
        else:
            owner["body"].append(line.strip())

    def spec(self) -> Spec:
        unclosed = None
        if self.closer and (self.hidden or self.stack or not self.drafts):
            what = "comment" if self.closer == "-->" else "code fence"
            hides = "what kern notes under the task" if self.stack else "what is added below it"
            hides = f"{self.hidden} task line(s)" if self.hidden else hides
            self._complain(self.opened, f"the {what} opened here is never closed and hides {hides}")
            unclosed = self.diagnostics[-1]
        self._leave(-1)
        for draft in self.drafts:
            draft["notes"], draft["body"] = tuple(draft["notes"]), tuple(draft["body"])
        return Spec(
            tuple(Task(**draft) for draft in self.drafts), tuple(self.diagnostics), unclosed
        )


def _malformed(mark: str) -> str:
    hint = "use [x] or delete it" if mark == "-" else "use [ ], [~] or [x]"
    return f"malformed task marker [{mark}]: {hint}"


def _opens(stripped: str) -> str:
    """What will close the fence or comment that the line opens, by itself or as a list item."""
    if stripped[0] in _BULLETS and (item := _BULLET.match(stripped)):
        stripped = stripped[item.end() :]
    if stripped.startswith("<!--"):
        return "" if "-->" in stripped else "-->"
    fence = _FENCE.match(stripped.rstrip())
    return fence[1] or fence[2] if fence else ""


def _columns(margin: str) -> int:
    """The width of white space; a byte order mark has none."""
    return len(margin.replace("\ufeff", "").expandtabs(4))
