"""Which entries of LEARNINGS.md a stage is told."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from kern.errors import KernError
from kern.git import ignore
from kern.git.repository import Repo
from kern.memory.entries import Entry
from kern.memory.select import NOTHING, Selection, Told, fits, paths, select


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

    found = search.of_learnings(None if reading else repo.common_dir / "kern", data, query)
    lost = gone(repo, wanted)
    chosen = select(entries, found.by_id, budget, least=found.least, gone=lost)
    return replace(chosen, remark=found.remark)


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
