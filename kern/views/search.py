"""`kern search`: what the learnings, the tasks and documents of a project say about a question."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.memory import chunks, index, search, vectors
from kern.memory.chunks import Chunk, Source
from kern.memory.index import Index
from kern.memory.search import Found, Mode
from kern.model import LEARNINGS, SPEC, Stage
from kern.spec.file import real
from kern.spec.parse import Kind, parse
from kern.stages import record
from kern.system import workspace
from kern.system.workspace import Scope

KINDS = (*chunks.KINDS, "research", "attempt", "spec", "file")
_LARGEST = 32 << 20  # bytes of a document
_WIDEST = 100  # columns
_SHOWN = 3  # lines of a result's text
_INSTALL = "install wordllama with kern, as its extra: KERN_EXTRAS=semantic kern --update"


def shown(
    folder: Path, query: str, word: str, kinds: Sequence[str], limit: int, *, as_json: bool
) -> str:
    """What `kern search` prints. `word`: fts, semantic or hybrid; empty for the best there is."""
    mode = Mode(word) if word else None
    if not query.strip():
        raise UsageError("nothing to search for", hint='kern search "retry of uploads"')
    if strange := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"no such kind: {strange[0]}", hint=f"known: {', '.join(KINDS)}")
    if limit < 1:
        raise UsageError("--limit must be 1 or more", hint="leave it out for 10")
    model = None if mode is Mode.FTS else vectors.load()
    if model is None and mode in (Mode.SEMANTIC, Mode.HYBRID):
        raise UsageError(f"--{mode} needs word vectors, which are not installed", hint=_INSTALL)
    repo = repository.open_at(folder, reading=True)
    texts = list(_sources(repo))

    def look(base: Index) -> list[dict[str, object]]:
        base.refresh(texts, all_of_them=True)
        hits = search.search(base, query, model, mode=mode or Mode.HYBRID, kinds=kinds, limit=limit)
        return [_told(base, hit) for hit in hits]

    hits, remark = index.using(repo.common_dir / "kern", look)
    if remark:
        print(f"kern: {plain.line(remark)}", file=sys.stderr)
    return plain.data(hits) if as_json else _text(hits, len(texts))


def _told(base: Index, hit: Found) -> dict[str, object]:
    """Keys are stable: they are what `--json` prints."""
    one = hit.chunk
    before, after = base.neighbours(hit.id)
    return {
        "path": one.path,
        "first": one.first,
        "last": one.last,
        "kind": one.kind,
        "id": one.key or None,
        "heading": one.heading,
        "text": one.text,
        "relevance": hit.relevance,
        "before": before.text if before else None,
        "after": after.text if after else None,
    }


def _text(hits: Sequence[dict[str, object]], texts: int) -> str:
    if not hits:
        return f"nothing found in {plain.count(texts, 'text')}"
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    return "\n\n".join("\n".join(_rows(hit, width)) for hit in hits)


def _rows(hit: dict[str, object], width: int) -> Iterator[str]:
    first, last = hit["first"], hit["last"]
    lines = f":{first}" if first == last else f":{first}-{last}"
    name = plain.line(" ".join(str(one) for one in (hit["id"], hit["kind"]) if one))
    place = plain.line(f"{hit['path']}{lines}", 200)
    yield f"{place}  {name}  {hit['relevance']:.2f}"
    if heading := plain.line(str(hit["heading"])):
        yield from wrap(heading, width, initial_indent="  ", subsequent_indent="  ")
    text = plain.line(str(hit["text"]), _SHOWN * (width - 4))
    rows = wrap(text, width, initial_indent="    ", subsequent_indent="    ")
    yield from rows[:_SHOWN]


# ---------------------------------------------------------------- what is searched


def _sources(repo: Repo) -> Iterator[Source]:
    learned = _bytes(repo.root, LEARNINGS)
    if learned is not None:
        yield chunks.learnings(learned)
    spec = _bytes(repo.root, SPEC)
    noted: set[str] = set()
    if spec is not None:
        pieces = list(_of_tasks(plain.decode(spec)))
        noted = {one.heading for one in pieces if one.kind == "research"}
        yield Source(SPEC, spec, lambda: pieces)
    with contextlib.suppress(KernError):  # before the first commit nothing was tried
        scope = workspace.scope(repo.root, repo.head().name, create=False)
        yield from _of_history(scope, noted)


def _bytes(root: Path, name: str) -> bytes | None:
    """None for what is no text, is too large or lies elsewhere: said, unless it is not there."""
    try:
        place = real(root, name)
        if place.exists() and place.stat().st_size > _LARGEST:
            raise UsageError(f"{name} is larger than {_LARGEST >> 20} MiB")
        data = workspace.read(place)
    except (KernError, OSError) as exc:
        print(f"kern: not searched: {plain.line(str(exc))}", file=sys.stderr)
        return None
    return None if data is None or (name != LEARNINGS and b"\0" in data[:8192]) else data


def _of_tasks(text: str) -> Iterator[Chunk]:
    """Each task, and each of its notes that tells what was found or tried."""
    told = {Kind.RESEARCH: "research", Kind.ATTEMPT: "attempt"}
    for task in parse(text).tasks:
        body = plain.block("\n".join((task.text, *task.body)))
        yield from chunks.parts(
            Chunk(SPEC, "spec", "", body, task.line, task.line + len(task.body))
        )
        for note in task.notes:
            if kind := told.get(note.kind):
                said = plain.block(note.text)
                yield from chunks.parts(Chunk(SPEC, kind, task.text, said, note.line, note.end))


def _of_history(scope: Scope, noted: Iterable[str]) -> Iterator[Source]:
    """What the agents of finished tasks found and tried, where SPEC.md does not say it any more."""
    folder = scope.folder / "history"
    known = set(noted)
    for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
        walk = replace(scope, branch=f"{scope.branch}/history/{name}")
        for file in sorted(walk.folder.glob("*.json")):
            number = file.stem.removeprefix("attempt")
            if file.name == "stage1.json":
                found = record.read(walk, Stage.RESEARCH)
            elif number.isdigit():
                found = record.read(walk, Stage.IMPLEMENT, int(number))
            else:
                continue
            if found and not (found.stage is Stage.RESEARCH and found.key.text in known):
                yield _of_record(str(file), found)


def _of_record(path: str, found: record.StageRecord) -> Source:
    kind = "research" if found.stage is Stage.RESEARCH else "attempt"
    said = plain.block("\n".join(filter(None, (found.outcome, found.said))))
    whole = Chunk(path, kind, found.key.text, said, 1, 1)
    return Source(path, said.encode("utf-8", "replace"), lambda: chunks.parts(whole))
