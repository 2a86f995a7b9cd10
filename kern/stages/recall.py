"""Which entries of LEARNINGS.md a stage is told."""

import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence

from kern.errors import KernError
from kern.events import Event, Recalled, Warned
from kern.git import ignore
from kern.git.repository import Repo
from kern.memory import capture
from kern.memory.entries import Entry
from kern.memory.select import (
    IRRELEVANT,
    LEAST,
    NOTHING,
    Selection,
    Told,
    fits,
    paths,
    select,
)
from kern.stages.prompt import Prompt

_MOST_NAMED = 20  # of the entries that are left out


def told(repo: Repo, entries: Sequence[Entry], query: str, budget: int) -> Selection:
    """Within `budget` tokens. Where all entries fit, nobody searches."""
    if not entries or not budget:
        return NOTHING
    if fits(entries, budget):
        return select(entries, None, budget, gone=_gone(repo, entries))
    wanted = [entry for entry in entries if not entry.unwanted]
    if len(wanted) == 1:  # a file without headings, say: its beginning is better than nothing
        return Selection((Told(wanted[0], 0.0, "the only one, cut"),), (), budget)
    found = relevance(repo, entries, query)
    near = [entry for entry in wanted if found.get(entry.id, 0.0) >= LEAST]
    return select(entries, found, budget, gone=_gone(repo, near))


def relevance(repo: Repo, entries: Sequence[Entry], query: str) -> Mapping[str, float]:
    """0 to 1 by id."""
    words = {word.lower() for word in capture.tokens(query)}
    found = {one.id: {w.lower() for w in capture.tokens(one.text + one.title)} for one in entries}
    held = Counter(word for those in found.values() for word in those)
    weigh = {name: sum(1 / held[w] for w in words & those) for name, those in found.items()}
    most = max(weigh.values(), default=0.0) or 1.0
    return {name: weight / most for name, weight in weigh.items()}


def _gone(repo: Repo, entries: Sequence[Entry]) -> dict[str, str]:
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


def events(prompt: Prompt, task: str) -> list[Event]:
    """What a person is told of a prompt: what it holds of the learnings, and its notices."""
    notices: list[Event] = [Warned(notice) for notice in prompt.notices]
    memory = prompt.memory
    if not memory.chosen and not memory.left_out:
        return notices
    told = {one.entry.id: one.why for one in memory.chosen}
    named = {one.id: why for one, why in memory.left_out if not why.startswith(IRRELEVANT)}
    irrelevant = len(memory.left_out) - len(named)
    left = dict(list(named.items())[:_MOST_NAMED])
    return [Recalled(prompt.stage, task, told, left, irrelevant, memory.tokens), *notices]
