"""Edits of SPEC.md and LEARNINGS.md: an edit changes the characters that it must and no others."""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise, takewhile

from kern import plain
from kern.model import Key, Marker
from kern.spec.checklist import Kind, Note, Spec, Task, parse

NOTE_LIMIT = 300  # characters
NO_TASKS = "# Tasks\n"  # a SPEC.md to begin with


def mark(text: str, task: Task, marker: Marker) -> str:
    """Change the one character between the brackets."""
    return mark_all(text, [(task, marker)])


def mark_all(text: str, wanted: Iterable[tuple[Task, Marker]]) -> str:
    lines = text.split("\n")
    for task, marker in wanted:
        line = lines[task.line - 1]
        lines[task.line - 1] = line[: task.column] + marker + line[task.column + 1 :]
    return "\n".join(lines)


def tick(text: str, spec: Spec, task: Task, *, proved: bool = True) -> str:
    """Mark the task done, and every ancestor of which it was the last open subtask."""
    for done in ticked(spec, task, proved=proved):
        text = mark(text, done, Marker.DONE)
    return text


def reopen(text: str, spec: Spec, task: Task) -> str:
    """Mark the task pending, and every ancestor that was done with it."""
    above = (spec.tasks[index] for index in spec.above(task))
    again = [task, *takewhile(lambda one: one.marker is Marker.DONE, above)]
    return mark_all(text, [(one, Marker.PENDING) for one in again])


def untick(text: str, spec: Spec, task: Task, count: int) -> str:
    """What ticking marked, `count` tasks from this one upwards, goes back where it still stands:
    the task is in progress, those above it are pending.
    """
    above = [spec.tasks[index] for index in spec.above(task)][: max(count - 1, 0)]
    wanted = [(task, Marker.ACTIVE), *((one, Marker.PENDING) for one in above)]
    return mark_all(text, [pair for pair in wanted if pair[0].marker is Marker.DONE])


def ticked(spec: Spec, task: Task, *, proved: bool = True) -> list[Task]:
    """The task, and every ancestor that is done with it. What is not `proved` ends below those that
    have checks of their own.
    """
    done = [task]
    for parent in spec.above(task):
        above = spec.tasks[parent]
        lines = {one.line for one in done}
        open_ones = [
            t
            for t in spec.tasks
            if t.parent == parent and t.marker is not Marker.DONE and t.line not in lines
        ]
        unchecked = not proved and (above.of(Kind.GATE) or above.of(Kind.JUDGE))
        if open_ones or unchecked or above.marker is Marker.DONE:
            break
        done.append(above)
    return done


def note(kind: Kind, text: str, number: int = 0) -> str:
    """One quote line as it stands under a task, without its margin."""
    label = f"{kind} {number}" if number else f"{kind}"
    return f"> **{label}:** {plain.line(text, NOTE_LIMIT)}"


def research(findings: Sequence[tuple[str, str]]) -> list[str]:
    """The research note: a heading line and one line per finding, say ("Files", "a.py:1-20")."""
    lines = [f"> **{Kind.RESEARCH}:**"]
    lines += [f">   - {label}: {plain.line(text, NOTE_LIMIT)}" for label, text in findings]
    return lines


def annotate(text: str, task: Task, notes: Sequence[str]) -> str:
    """Put quote lines under the task, after what it has and before its subtasks."""
    return annotate_all(text, [(task, notes)])


def annotate_all(text: str, wanted: Iterable[tuple[Task, Sequence[str]]]) -> str:
    lines = text.split("\n")
    places = [
        # in order, even below subtasks
        (max(task.end, *(note.end for note in task.notes), 0), task, notes)
        for task, notes in wanted
    ]
    for after, task, notes in sorted(places, key=lambda place: (-place[0], -place[1].end)):
        margin = task.margin + " " * (len(task.bullet) + 1)
        _insert(lines, after, [margin + line for line in notes])  # upwards: lines stay true
    return "\n".join(lines)


def put_below(text: str, note: Note, line: str) -> str:
    """Put a quote line right below a note, as far in as that."""
    lines = text.split("\n")
    above = lines[note.end - 1]
    _insert(lines, note.end, [above[: len(above) - len(above.lstrip())] + line])
    return "\n".join(lines)


def strike(text: str, numbers: Collection[int]) -> str:
    """Take lines (1-based) out, with their line ends."""
    lines = text.split("\n")
    kept = [line for number, line in enumerate(lines, 1) if number not in numbers]
    if kept and len(lines) in numbers:  # the file ended in it, without a line end
        kept[-1] = kept[-1].removesuffix("\r")
    return "\n".join(kept)


def without(text: str, task: Task, kind: Kind) -> str:
    """Without the task's notes of that kind."""
    lines = (range(note.line, note.end + 1) for note in task.of(kind))
    return strike(text, {number for one in lines for number in one})


def add_subtasks(text: str, spec: Spec, task: Task, titles: Sequence[str]) -> str:
    """Append the titles under the task, each pending, without those that are there already."""
    index = spec.tasks.index(task)
    there = {other.text for other in spec.tasks if other.parent == index}
    bullet = task.bullet if task.bullet in "-*+" else "-"
    beside = [other.margin for other in spec.tasks if other.parent == index]
    margin = beside[-1] if beside else task.margin + " " * (len(task.bullet) + 1)
    new = [title for title in titles if title not in there]
    lines = text.split("\n")
    _insert(lines, task.block_end, [f"{margin}{bullet} [ ] {title}" for title in new])
    return "\n".join(lines)


def add_tasks(text: str, spec: Spec, block: Sequence[str]) -> str:
    """Append top-level tasks, given as lines from the left margin, after the last one there is; in
    a text without any at its end.
    """
    tops = [task for task in spec.tasks if task.parent is None]
    if not block:
        return text
    if tops:
        lines = text.split("\n")
        margin = tops[-1].margin
        _insert(lines, tops[-1].block_end, [(margin + line).rstrip() for line in block])
        return "\n".join(lines)
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip() else newline if text.endswith("\n") else 2 * newline
    return text + gap + newline.join(block) + newline


def _insert(lines: list[str], after: int, new: Sequence[str]) -> None:
    """Insert lines after the 1-based line `after`, with its line ending."""
    if not new:
        return
    anchor = lines[after - 1]
    last = after == len(lines)
    crlf = anchor.endswith("\r") or (last and len(lines) > 1 and lines[-2].endswith("\r"))
    added = [line + ("\r" if crlf else "") for line in new]
    if last and crlf:  # the file has no final newline: the old last line gets one, the new one none
        lines[after - 1] = anchor.removesuffix("\r") + "\r"
        added[-1] = added[-1].removesuffix("\r")
    lines[after:after] = added


_HEADING = r"(?m)^## (.+?)\r?$"


def topic(task: str) -> str:
    """A task's text as the heading of what it taught."""
    return plain.line(task, 120)


def learning(text: str, date: str, about: str, body: str) -> str:
    """What is to be appended for `## <date> - <about>` and its body: nothing if it is there."""
    heading = f"## {date} - {topic(about)}"
    more = appended(text, [f"{heading}\n\n{_shield(plain.block(body).strip())}"])
    return "" if more.strip() in learnings(text) else more


def appended(text: str, entries: Sequence[str]) -> str:
    """What is to be appended to LEARNINGS.md for these entries, with its line ends."""
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    more = gap + "\n\n".join(entries) + "\n" if entries else ""
    return more.replace("\n", "\r\n" if "\r\n" in text else "\n")


def unlearn(text: str, added: str) -> str:
    """What was appended goes, wherever it stands by now and in whatever form a formatter gave it;
    where its words were edited it stays.
    """
    at = text.rfind(added)
    if at >= 0:
        return text[:at] + text[at + len(added) :]
    for words in (re.findall(r"\w+", one) for one in learnings(added)):
        for entry in learnings(text):
            if re.findall(r"\w+", entry) == words:
                before, _, after = text.rpartition(entry)
                parts = [part for part in (before.strip("\r\n"), after.strip("\r\n")) if part]
                text = "\n\n".join(parts) + "\n" if parts else ""
                break
    return text


def _shield(body: str) -> str:
    """Headings in an entry's body go one level down, so that entries stay apart."""
    return re.sub(r"^#{1,2} ", "### ", body, flags=re.M)


def learnings(text: str) -> list[str]:
    """The entries of LEARNINGS.md, oldest first; what stands before the first heading is one as
    well.
    """
    starts = [match.start() for match in re.finditer(_HEADING, text)]
    edges = [0, *starts, len(text)]
    parts = (text[a:b].strip() for a, b in pairwise(edges))
    return [part for part in parts if part]


# ---------------------------------------------------------------- the same in another text


def noted(text: str, task: Task, came: str, theirs: Task) -> str:
    """With the notes that the task has in another text."""
    lines = came.split("\n")
    known = {(note.kind, note.number, note.text) for note in task.notes}
    new = [
        line.strip()
        for note in theirs.notes
        if (note.kind, note.number, note.text) not in known
        for line in lines[note.line - 1 : note.end]
    ]
    return annotate(text, task, new)


def replayed(text: str, came: str, key: Key) -> str:
    """With what `came`, the committed SPEC.md, says of the task: its notes, the ticks above it."""
    new = parse(came)
    there, done = parse(text).find(key), new.find(key)
    if there is None or done is None:
        return text
    text = noted(text, there, came, done)
    parsed = parse(text)
    chain = [task for task in parsed.tasks if task.key == key]
    chain += [parsed.tasks[index] for index in parsed.above(chain[0])]
    done_too = [other.key for other in new.tasks if other.marker is Marker.DONE]
    return mark_all(text, [(one, Marker.DONE) for one in chain if one.key in done_too])
