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
from kern.memory import changes, entries, search, select
from kern.memory.entries import Entry, Kind
from kern.model import LEARNINGS, Stage
from kern.spec.file import Documents
from kern.stages import recall
from kern.stages.prompts import BUDGET
from kern.views.log import local, warn

LIMIT = 5
_WIDEST = 100  # columns
_NARROW = 60
_NONE = f'there is no entry in {LEARNINGS}; kern learn "text" writes one'


def recalled(folder: Path, query: str, kinds: Sequence[str], limit: int, *, as_json: bool) -> str:
    """What `kern recall` prints: what comes nearest, by score times relevance, and which of that a
    stage is told.
    """
    if not query.strip():
        raise UsageError("nothing to look for", hint='kern recall "how the tests are run"')
    if strange := [kind for kind in kinds if kind not in [*Kind]]:
        raise UsageError(f"no such kind: {strange[0]}", hint=f"known: {', '.join(Kind)}")
    if limit < 1:
        raise UsageError("--limit must be 1 or more", hint=f"leave it out for {LIMIT}")
    repo, text = _opened(folder)
    known, data = entries.parse(text), plain.encode(text)
    found = search.of_learnings(repo.common_dir / "kern", data, query)
    if found.remark:
        warn(found.remark)
    room = BUDGET[Stage.RESEARCH]
    told = {one.entry.id for one in recall.told(repo, known, data, query, room).chosen}
    lost = recall.gone(repo, known)
    near = [
        (entry, value)
        for entry in known
        if (value := found.by_id.get(entry.id, 0.0))
        and not (entry.unwanted or entry.id in lost)
        and (not kinds or entry.kind in kinds)
    ]
    near.sort(key=lambda one: (one[0].id not in told, -one[0].score * one[1]))
    rows = [
        {**_row(entry, {}), "relevance": round(value, 4), "told": entry.id in told}
        for entry, value in near[:limit]
    ]
    return plain.data(rows) if as_json else _ranked(rows, whole=select.fits(known, room))


def _ranked(rows: Sequence[Mapping[str, Any]], *, whole: bool) -> str:
    """The most useful first; those that a stage is not told stand below a line that says so."""
    if not rows:
        return f"nothing in {LEARNINGS} comes near it; kern search looks further"
    parts = [f"{_head(row)}\n{_body(row)}" for row in rows]
    if below := sum(not row["told"] for row in rows):
        parts.insert(len(rows) - below, "Below what a stage is told:")
    if whole:
        parts.append(_wrapped(f"A stage is told all of {LEARNINGS}, as long as that fits."))
    return "\n\n".join(parts)


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
    facts["needed for"] = entry.when
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
        "when": entry.when or None,
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
    counted = f"{row['kind']}, score {row['score']:.2f} ({votes})"
    near = f", relevance {row['relevance']:.2f}" if "relevance" in row else ""
    return "\n".join(map(_wrapped, (f"{row['id']}  {title}", counted + near)))


def _body(row: Mapping[str, Any]) -> str:
    return "\n".join(map(_wrapped, plain.block(row["text"]).split("\n")))


def _wrapped(line: str) -> str:
    return "\n".join(wrap(line, _columns()))


def _line(row: Mapping[str, Any]) -> str:
    """Where columns are few, the kind goes."""
    why = f"[{plain.line(row['unwanted'], 60)}] " if row["unwanted"] else ""
    kind = f"{row['kind']:8}  " if _columns() >= _NARROW else ""
    head = f"{row['id']:5} {row['score']:.2f}  {kind}"
    said = why + (row["text"] or row["title"])
    return f"{head}{plain.line(said, _columns() - len(head))}"


def _columns() -> int:
    return max(min(shutil.get_terminal_size().columns, _WIDEST), 20)
