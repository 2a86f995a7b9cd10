"""`kern recall`, and `kern learn list` and `show`: the entries of LEARNINGS.md as a person asks."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.journal import store
from kern.memory import changes, entries, sources
from kern.memory.entries import Entry, Kind
from kern.model import LEARNINGS
from kern.spec.documents import Documents
from kern.stages import recall
from kern.views.log import local, warn

LIMIT = 5
_WIDEST = 100  # columns
_BEFORE = 22  # of a row in the list, before its text
_NONE = f'there is no entry in {LEARNINGS}; kern learn "text" writes one'


def recalled(folder: Path, query: str, kinds: Sequence[str], limit: int, *, as_json: bool) -> str:
    """What `kern recall` prints: what may be told, by score times relevance."""
    if not query.strip():
        raise UsageError("nothing to look for", hint='kern recall "how the tests are run"')
    if strange := [kind for kind in kinds if kind not in [*Kind]]:
        raise UsageError(f"no such kind: {strange[0]}", hint=f"known: {', '.join(Kind)}")
    if limit < 1:
        raise UsageError("--limit must be 1 or more", hint=f"leave it out for {LIMIT}")
    repo, text = _opened(folder)
    found = sources.relevance(repo.common_dir / "kern", plain.encode(text), query)
    if found.remark:
        warn(found.remark)
    lost = recall.gone(repo, entries.parse(text))
    near = [
        (entry, found.by_id[entry.id])
        for entry in entries.parse(text)
        if found.by_id.get(entry.id, 0.0) >= found.least
        and not (entry.unwanted or entry.id in lost)
        and (not kinds or entry.kind in kinds)
    ]
    near.sort(key=lambda one: -one[0].score * one[1])
    rows = [{**_row(entry, {}), "relevance": round(value, 4)} for entry, value in near[:limit]]
    if as_json:
        return plain.data(rows)
    if not rows:
        return f"nothing in {LEARNINGS} is relevant enough; kern search looks further"
    return "\n\n".join(
        f"{_head(row)}, relevance {row['relevance']:.2f}\n{_body(row)}" for row in rows
    )


def listed(folder: Path, *, as_json: bool) -> str:
    """What `kern learn list` prints: all of them, as they stand in the file."""
    repo, text = _opened(folder)
    found = entries.parse(text)
    lost = recall.gone(repo, found)
    rows = [_row(entry, lost) for entry in found]
    if as_json:
        return plain.data({"entries": rows, "faults": entries.faults(found)})
    for fault in entries.faults(found):
        warn(f"{LEARNINGS}: {fault}")
    return "\n".join(_line(row) for row in rows) or _NONE


def shown(folder: Path, wanted: str, *, as_json: bool) -> str:
    """What `kern learn show` prints: one entry, and what became of it."""
    repo, text = _opened(folder)
    entry = named(text, wanted)
    records = store.load(store.place(repo.common_dir), warn)
    votes = [
        {"time": one["time"], **{name: one.get(name) for name in ("task", "helpful", "reason")}}
        for one in records
        if one["kind"] == "vote" and one.get("entry") == entry.id
    ]
    told = (one for one in records if one["kind"] == "recall" and entry.id in one.get("told", ()))
    tasks = list(dict.fromkeys(str(one.get("task")) for one in told))
    row = {
        **_row(entry, recall.gone(repo, [entry])),
        "told": tasks,
        "voted": votes,
        "faults": list(entry.faults),
    }
    if as_json:
        return plain.data(row)
    lines = [_head(row), f"{LEARNINGS} line {entry.line}", "", _body(row), ""]
    on_top = f", on top of {entry.commit}" if entry.commit else ""
    facts = {"learned by": f"{entry.task}{on_top}", "said of it": entry.why}
    facts["told to no stage"] = row["unwanted"] or ""
    lines += [f"{name}: {fact}" for name, fact in facts.items() if fact]
    lines += [f"told to: {task}" for task in tasks]
    for vote in votes:
        how = "helpful" if vote["helpful"] else "harmful"
        lines.append(f"{local(vote['time'])}  {how} for: {vote['task']} ({vote['reason']})")
    lines += list(entry.faults)
    return plain.block("\n".join(lines).rstrip())


def named(text: str, wanted: str) -> Entry:
    """The entry that a person means. Raises UsageError."""
    if entry := changes.entry_of(text, wanted):
        return entry
    known = [one.id for one in entries.parse(text)]
    hint = f"there are {plain.some(known)}; kern learn list shows them" if known else _NONE
    raise UsageError(f"{LEARNINGS} has no entry {plain.line(wanted, 40)}", hint=hint)


def _opened(folder: Path) -> tuple[Repo, str]:
    repo = repository.open_at(folder, reading=True)
    return repo, Documents(repo.root).read(LEARNINGS) or ""


def _row(entry: Entry, lost: Mapping[str, str]) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. `lost`: the files that entries miss."""
    gone = f"names {lost[entry.id]}, which is gone" if entry.id in lost else ""
    return {
        "id": entry.id,
        "line": entry.line,
        "date": entry.date,
        "title": entry.title,
        "text": entry.text,
        "kind": str(entry.kind),
        "helpful": entry.helpful,
        "harmful": entry.harmful,
        "score": round(entry.score, 4),
        "task": entry.task or None,
        "commit": entry.commit or None,
        "unwanted": entry.unwanted or gone or None,
    }


def _head(row: Mapping[str, Any]) -> str:
    title = plain.line(f"{row['date']} {row['title']}".strip(), 120)
    votes = f"{row['helpful']} helpful, {row['harmful']} harmful"
    return f"{row['id']}  {title}\n{row['kind']}, score {row['score']:.2f} ({votes})"


def _body(row: Mapping[str, Any]) -> str:
    lines = plain.block(row["text"]).split("\n")
    return "\n".join(part for line in lines for part in wrap(line, _columns()) or [""])


def _line(row: Mapping[str, Any]) -> str:
    why = f"[{plain.line(row['unwanted'], 60)}] " if row["unwanted"] else ""
    said = plain.line(f"{why}{row['text'] or row['title']}", max(_columns() - _BEFORE, 20))
    return f"{row['id']:5} {row['score']:.2f}  {row['kind']:8}  {said}"


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, _WIDEST)
