"""Tasks from elsewhere as lines for SPEC.md: a checklist, a prd.json, JSON lines, issues. Pure.

What comes from outside says what is to be done and nothing else: no note, no second task, no
trailer of a commit can stand in it.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kern import plain
from kern.errors import UsageError
from kern.frozen import frozen
from kern.model import Marker
from kern.spec import commands, edit, order
from kern.spec.parse import Spec, Task, parse

MOST_BYTES = 2 << 20  # of a file
MOST_TASKS = 500
LONGEST_TITLE = 200  # characters; a longer one goes on below the task
LONGEST_BODY = 6000
_CUT = "[cut here: the rest is where it came from]"
_REFS = r"(?a)Refs:[ \t]+((?:[\w.-]+/[\w.-]+)?#\d{1,9}|[A-Za-z][\w.]*-[\w.-]{1,40})"
_ID = r"(?a)[A-Za-z][\w.]*-[\w.-]{1,40}"
_BOXES = r"(?m)^\s*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?\[[ xX~]\][ \t]"
_BARE_BOX = r"(?m)^(\s*)(\[[ xX~]\][ \t])"
_PLAIN_BULLET = r"(?m)^([ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+)(?=\S)"
_DONE = ("done", "closed", "completed", "complete", "merged", "cancelled", "canceled")


@frozen
class Item:
    title: str
    body: str = ""
    ref: str = ""  # `#12`, `owner/name#12`, `bd-a1b2`
    done: bool = False
    parts: tuple["Item", ...] = ()


class Import(NamedTuple):
    block: tuple[str, ...]  # lines for SPEC.md, from the left margin
    new: tuple[str, ...]  # the titles, parts included
    known: int  # that are there already
    done: int  # that are done where they come from


def references(task: Task) -> tuple[str, ...]:
    """What the lines `Refs: …` under a task name, for the commit's trailers."""
    found = (re.fullmatch(_REFS, line.strip()) for line in task.body)
    return tuple(dict.fromkeys(match[1] for match in found if match))


# ---------------------------------------------------------------- read


def read(data: bytes, origin: str, repository: str = "", *, most: int = MOST_BYTES) -> list[Item]:
    """The tasks that a file or a command's output lists. `repository`: the `owner/name` whose
    issues are called `#N`, empty for any. Raises UsageError.
    """
    if len(data) > most:
        raise UsageError(
            f"{origin} is larger than {most >> 20} MiB: that is no list of tasks",
            hint="name a smaller file, or cut it in parts",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
        raise UsageError(
            f"{origin} is no text: it holds binary data, or is UTF-16",
            hint=f"a text in another encoding: iconv -f UTF-16 -t UTF-8 {origin}",
        )
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise UsageError(
            f"{origin} is not UTF-8, from line {line} on",
            hint=f"iconv -f LATIN1 -t UTF-8 {origin} | kern add --from -",
        ) from None
    begins = text.lstrip()
    if begins[:1] in ("{", "[") and not re.match(_BOXES, begins):
        found = _records(text, origin, repository)
    else:
        found = _checklist(text)
    if not found:
        raise UsageError(
            f"{origin} lists no task",
            hint="a checklist (- [ ] text), a prd.json with userStories, or a JSON object a line",
        )
    if (count := sum(1 for _ in _all(found))) > MOST_TASKS:
        raise UsageError(
            f"{origin} lists {count} tasks: at most {MOST_TASKS} are sensible at a time",
            hint="take out what is not to be done soon",
        )
    return found


def _all(items: Sequence[Item]) -> Iterator[Item]:
    for item in items:
        yield item
        yield from _all(item.parts)


def _records(text: str, origin: str, repository: str) -> list[Item]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _by_line(text, origin)
    stories = value.get("userStories") if isinstance(value, dict) else None
    if isinstance(stories, list):
        value = sorted(stories, key=_priority)
    elif isinstance(value, dict):
        inner = (value.get(key) for key in ("tasks", "issues", "items", "stories"))
        value = next((one for one in inner if isinstance(one, list)), [value])
    return [_record(one, origin, repository) for one in value]


def _by_line(text: str, origin: str) -> list[Any]:
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError) as exc:
                why = getattr(exc, "msg", "nested too deep")
                raise UsageError(
                    f"{origin} is no JSON, from line {number} on: {why}",
                    hint="one JSON value, or one JSON object a line; or a checklist: - [ ] text",
                ) from None
    return found


def _priority(story: Any) -> float:
    value = story.get("priority") if isinstance(story, dict) else None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and abs(value) < 1e9 else 1e9  # type: ignore[arg-type]


def _record(value: Any, origin: str, repository: str, depth: int = 0) -> Item:
    if isinstance(value, str):
        value = {"title": value}
    title = ""
    if isinstance(value, dict):
        names = ("title", "text", "task", "name", "summary", "content", "description")
        title = next((one for name in names if (one := _text(value.get(name))).strip()), "")
    if not title.strip():
        shown = plain.line(json.dumps(value, ensure_ascii=False), 80)
        raise UsageError(
            f"{origin}: an entry names no task: {shown}", hint='each needs a text: {"title": "…"}'
        )
    body = [_text(value.get(name)) for name in ("description", "body", "details", "notes")]
    criteria = (value.get(name) for name in ("acceptanceCriteria", "acceptance_criteria"))
    wanted = next((one for one in criteria if one), None)
    rows = wanted if isinstance(wanted, list) else str(wanted or "").split("\n")
    if told := [f"- {_text(row).strip()}" for row in rows if _text(row).strip()]:
        body += ["\n".join(["Accepted when:", *told])]
    state = str(value.get("status") or value.get("state") or "").lower()
    marked = any(value.get(name) is True for name in ("passes", "done", "completed"))
    below = next((one for name in ("subtasks", "parts") if (one := value.get(name))), ())
    parts = below if isinstance(below, list) and depth < 5 else ()
    return Item(
        title,
        "\n".join(one for one in body if one.strip() and one != title),
        _ref(value, repository),
        marked or state in _DONE,
        tuple(_record(one, origin, repository, depth + 1) for one in parts),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _ref(value: Mapping[str, Any], repository: str) -> str:
    """Of an issue at GitHub by its number, of a bead by its id; numbers of stories mean nothing
    outside of their file.
    """
    number, url = value.get("number"), _text(value.get("url"))
    if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1e9:
        place = re.match(r"https://[\w.-]+/([\w.-]+/[\w.-]+)/issues/", url, re.A)
        other = place and repository and place[1].lower() != repository.lower()
        return f"{place[1] if place and other else ''}#{number}"
    name = _text(value.get("id"))
    return name if "issue_type" in value and re.fullmatch(_ID, name) else ""


def _checklist(text: str) -> list[Item]:
    """With boxes, or else each bullet."""
    if re.search(_BOXES, text):
        text = re.sub(_BARE_BOX, r"\1- \2", text)
    else:
        text = re.sub(_PLAIN_BULLET, r"\1[ ] ", text)
    spec, lines = parse(text), text.split("\n")
    below: dict[int | None, list[int]] = {}
    for index, task in enumerate(spec.tasks):
        below.setdefault(task.parent, []).append(index)

    def item(index: int, depth: int = 0) -> Item:
        task = spec.tasks[index]
        body = "\n".join(lines[task.line : task.end])
        parts = below.get(index, ()) if depth < 20 else ()
        done = task.marker is Marker.DONE
        return Item(task.text, body, "", done, tuple(item(one, depth + 1) for one in parts))

    return [item(index) for index in below.get(None, ())]


# ---------------------------------------------------------------- into SPEC.md


def planned(text: str, items: Sequence[Item]) -> Import:
    """What of them is new to that SPEC.md, neither by its text nor by what it refers to."""
    spec = parse(text)
    names = {order.name(task.text) for task in spec.tasks}
    refs = {ref.lower() for task in spec.tasks for ref in references(task)}
    block: list[str] = []
    new: list[str] = []
    counts = {"known": 0, "done": 0}

    def take(items: Sequence[Item], margin: str) -> None:
        for item in items:
            title, rest = _title(item.title)
            name = order.name(title)
            if item.done:
                counts["done"] += 1
            elif name in names or item.ref.lower() in refs:
                counts["known"] += 1
            else:
                names.add(name)
                refs.update({item.ref.lower()} - {""})
                new.append(title)
                block.extend(f"{margin}{line}" for line in _lines(title, rest, item))
                take(item.parts, f"{margin}  ")
                continue
            take(item.parts, margin)  # what is open below it is still to be done

    take(items, "")
    return Import(tuple(block), tuple(new), counts["known"], counts["done"])


def added(text: str, items: Sequence[Item]) -> str:
    """SPEC.md with them. Raises UsageError where they would not be read as they came."""
    spec, found = parse(text), planned(text, items)
    whole = edit.add_tasks(text, spec, found.block)
    _make_sure(spec, parse(whole), found.new)
    return whole


def _make_sure(before: Spec, after: Spec, new: Collection[str]) -> None:
    """Whatever the texts hold: each is one pending task without notes, and nothing else changed."""
    old = {task.key for task in before.tasks}
    came = [task for task in after.tasks if task.key not in old]
    sound = [task.text for task in came] == [*new] and len(after.tasks) == len(old) + len(new)
    if not sound or any(task.notes for task in came) or after.unclosed != before.unclosed:
        raise UsageError(
            "these texts cannot stand in SPEC.md as they are",
            hint='kern add "…" adds one task, kern note what stands below it',
        )


def _lines(title: str, rest: str, item: Item) -> list[str]:
    body = "\n".join(filter(str.strip, (rest, item.body)))
    if len(body) > LONGEST_BODY:
        body = "\n".join([body[:LONGEST_BODY].rsplit("\n", 1)[0], _CUT])
    told = [
        f"\\{line}" if re.match(_REFS, line.strip()) else line for line in commands.as_body(body)
    ]
    named = [f"Refs: {item.ref}"] if re.fullmatch(_REFS, f"Refs: {item.ref}") else []
    return [f"- [ ] {title}", *(f"  {line}" for line in (*told, *named))]


def _title(text: str) -> tuple[str, str]:
    """One line, and what of it is too long for that."""
    title = commands.as_title(plain.line(text, len(text) + 1) or "…")
    if len(title) <= LONGEST_TITLE:
        return title, ""
    at = title.rfind(" ", LONGEST_TITLE // 2, LONGEST_TITLE)
    at = at if at > 0 else LONGEST_TITLE
    return f"{title[:at].rstrip()} …", f"… {title[at:].strip()}"
