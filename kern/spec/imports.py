"""New tasks as lines for SPEC.md: a person's, a planner's, those of `kern add -` (a checklist, or a
JSON object a line). Pure.

What comes from outside says what is to be done and nothing else: no note, no second task, no
trailer of a commit can stand in it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import NamedTuple

from kern import plain
from kern.errors import UsageError
from kern.model import Marker
from kern.spec import edit, order
from kern.spec.parse import EXAMPLE, Task, parse

MOST_BYTES = 2 << 20
MOST_TASKS = 500
LONGEST_BODY = 6000  # each prompt of the task holds it
_CUT = "[cut here: the rest is where it came from]"
_FIELDS = ("title", "body", "number")  # of a JSON object
_REFS = r"(?a)Refs:[ \t]+((?:[\w.-]+/[\w.-]+)?#\d{1,9}|[A-Za-z][\w.]*-[\w.-]{1,40})"


class Item(NamedTuple):
    title: str
    body: str = ""
    ref: str = ""  # `#12`
    done: bool = False
    parent: int | None = None  # index among the items
    notes: Sequence[str] = ()  # lines


class Added(NamedTuple):
    text: str  # SPEC.md with them
    new: tuple[str, ...]  # the titles, parts included
    left_out: int  # what is done, or there already


def references(task: Task) -> tuple[str, ...]:
    """What the lines `Refs: …` under a task name, for the commit's trailers."""
    matches = (re.fullmatch(_REFS, line.strip()) for line in task.body)
    return tuple(dict.fromkeys(match[1] for match in matches if match))


def read(data: bytes) -> list[Item]:
    """The tasks that it lists. Raises UsageError."""
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"that is more than {MOST_BYTES >> 20} MiB: no list of tasks", hint="cut it in parts"
        )
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError("that is no UTF-8 text", hint="iconv -f LATIN1 -t UTF-8 FILE | kern add -")
    items = _records(text) if text.lstrip().startswith("{") else _checklist(text)
    if not 0 < len(items) <= MOST_TASKS:
        raise UsageError(
            f"that lists {len(items) or 'no'} tasks: at most {MOST_TASKS} are sensible at a time",
            hint='a checklist (- [ ] text), or a JSON object a line ({"title": "…"})',
        )
    return items


def _records(text: str) -> list[Item]:
    items = []
    for at, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            title, body, number = map(json.loads(line).get, _FIELDS)
        except (ValueError, RecursionError, AttributeError):
            title = body = number = None
        if not isinstance(title, str) or not title.strip():
            raise UsageError(
                f"line {at} is no JSON object with a title: {plain.line(line, 80)}",
                hint='one a line: {"title": "…", "body": "…", "number": 12}',
            )
        ref = f"#{number}" if type(number) is int else ""
        items.append(Item(title, body if isinstance(body, str) else "", ref))
    return items


def _checklist(text: str) -> list[Item]:
    lines = text.split("\n")
    return [
        Item(
            *(task.text, "\n".join(lines[task.line : task.end]), ""),
            task.marker is Marker.DONE,
            task.parent,
        )
        for task in parse(text).tasks
    ]


def added(text: str, items: Sequence[Item]) -> Added:
    """What of them is new to that SPEC.md, neither by its text nor by what it refers to."""
    spec = parse(text)
    present = {order.name(task.text) for task in spec.tasks}
    present |= {ref.lower() for task in spec.tasks for ref in references(task)}
    block, new, margins = list[str](), list[str](), dict[int | None, str]()
    for index, item in enumerate(items):
        title = as_title(item.title)
        names = {order.name(title), item.ref} - {""}
        margin = margins[index] = margins.get(item.parent, "")
        if not (item.done or names & present):  # else what is open below it is still to be done
            present |= names
            new.append(title)
            block += [f"{margin}- [ ] {title}", *(f"{margin}  {line}" for line in _below(item))]
            margins[index] = f"{margin}  "
    return Added(edit.add_tasks(text, spec, block), tuple(new), len(items) - len(new))


# ---------------------------------------------------------------- words that say only themselves

_BOX = r"(?:(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?\[[ ~xX]?\](?:[ \t]+|$))+"
# A line that would be read as a task, a note, a fence, a comment or a reference.
_ACTIVE = r"\A(\s*)(?=>|Refs:|(?:(?:[-*+]|\d+[.)])\s*)?(?:```|~~~|<!--|\[[^\[\]]{0,3}\]))"


def as_title(text: str) -> str:
    """One line; a checkbox that was typed along goes."""
    flat = re.sub(rf"\A{_BOX}", "", plain.line(text, len(text)))
    if not flat:
        raise UsageError("the task says nothing", hint=f'kern add "{EXAMPLE[6:]}"')
    return flat


def _below(item: Item) -> Iterator[str]:
    """Its lines, as they can stand under a task: with the backslash that makes plain text of one
    in Markdown.
    """
    body = item.body
    if len(body) > LONGEST_BODY:
        body = "\n".join([body[:LONGEST_BODY].rsplit("\n", 1)[0], _CUT])
    for line in dedent(plain.block(body)).split("\n"):
        if line.strip():
            yield re.sub(_ACTIVE, r"\1\\", line.rstrip())
    yield from item.notes
    if item.ref:
        yield f"Refs: {item.ref}"
