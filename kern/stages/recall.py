"""Which entries of LEARNINGS.md a stage is told."""

import contextlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import replace

from kern.errors import KernError
from kern.git import ignore
from kern.git.repository import Repo
from kern.journal import store
from kern.memory.entries import Entry
from kern.memory.select import (
    NOTHING,
    Pair,
    Selection,
    Told,
    fits,
    paths,
    select,
)


def told(
    repo: Repo,
    entries: Sequence[Entry],
    data: bytes,
    query: str,
    budget: int,
    *,
    reading: bool = False,
) -> Selection:
    """Within `budget` tokens. Where all entries fit, nobody searches. `data`: LEARNINGS.md.
    `reading`: nothing is written, no index either.
    """
    if not entries or not budget:
        return NOTHING
    if fits(entries, budget):
        return select(entries, None, budget, gone=gone(repo, entries))
    wanted = [entry for entry in entries if not entry.unwanted]
    if len(wanted) == 1:  # a file without headings, say: its beginning is better than nothing
        return Selection((Told(wanted[0], 0.0, "the only one, cut"),), (), budget)
    from kern.memory import search  # with SQLite: most runs need none

    folder = None if reading else repo.common_dir / "kern"
    found = search.of_learnings(folder, data, query)
    near = [entry for entry in wanted if found.by_id.get(entry.id, 0.0) >= found.least]
    chosen = select(
        entries,
        found.by_id,
        budget,
        least=found.least,
        gone=gone(repo, near),
        together=_together(repo),
    )
    return replace(chosen, remark=found.remark)


def _together(repo: Repo) -> set[Pair]:
    """The entries that helped the same task, by the votes at the journal's end."""
    voted: dict[tuple[str, str], set[str]] = {}
    for record in store.tail(store.place(repo.common_dir), having=b'"kind": "vote"'):
        if record["kind"] == "vote" and record.get("helpful") is True:
            task = record["run"], record.get("task", "")
            voted.setdefault(task, set()).add(str(record.get("entry")))
    return {pair for ids in voted.values() for pair in itertools.combinations(sorted(ids), 2)}


def gone(repo: Repo, entries: Sequence[Entry]) -> dict[str, str]:
    """Of the entries that name files of the repository those of which one is not there any more,
    by id. One that git ignores may be made by a command; one below a folder that is not there
    is somebody else's.
    """
    lost: dict[str, list[str]] = {}
    for entry in entries:
        for path in paths(entry.text):
            top = path.partition("/")[0]
            if (repo.root / top).is_dir() and not os.path.lexists(repo.root / path):
                lost.setdefault(path, []).append(entry.id)
    ignored: set[str] = set()
    if lost:
        with contextlib.suppress(KernError):  # one that lies beyond a link, say
            ignored = ignore.ignored(repo, *lost)
    return {name: path for path in lost if path not in ignored for name in lost[path]}
