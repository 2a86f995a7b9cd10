"""SPEC.md and LEARNINGS.md while stage 3 is at work: on the disk as its commit is to hold them.

A hook that stashes what differs from the index finds nothing of kern's then. A record in
stage2.json comes before it; where the commit does not come, both files go back.
"""

import contextlib
from collections.abc import Callable, Iterator

from kern import plain
from kern.errors import KernError
from kern.git import history, ignore
from kern.git.repository import Entry
from kern.memory import changes
from kern.memory.changes import Change, Taught
from kern.model import LEARNINGS, SPEC, Key
from kern.pipeline import guarded, lessons
from kern.pipeline.site import CLOSE, Site
from kern.plain import decode, encode
from kern.spec import edit, reconcile
from kern.spec.checklist import Spec
from kern.stages import record
from kern.stages.record import EarlyTick
from kern.system.workspace import Scope


@contextlib.contextmanager
def at_work(
    site: Site, key: Key, change: tuple[str, str], said: Taught, date: str, *, proved: bool = True
) -> Iterator[Callable[[str], str]]:
    """The two files as the commit is to hold them stand on the disk until it came or did not;
    what puts them into a tree.
    """
    base = site.repo.head().commit
    try:
        papers = _write(site, key, said, date, proved=proved)
        with guarded.while_hooks_run(site):
            yield lambda tree: site.repo.tree_with(tree, papers)
    finally:
        made, site.memory.standing = site.memory.standing, None
        if made and not _came(site, base, key, change):
            take_back(site, site.scope, key, made)


def _came(site: Site, base: str, key: Key, change: tuple[str, str]) -> bool:
    since = history.since(site.repo, base, site.repo.head().commit) or ()
    return any(site.witness.proves(commit, key, change) for commit in since)


def _write(
    site: Site, key: Key, said: Taught, date: str, *, proved: bool
) -> dict[str, Entry | None]:
    """The record, SPEC.md, then LEARNINGS.md. What git ignores stays as it is, and all of it
    where no stage2.json is left for the record.
    """
    before = site.papers.read(LEARNINGS)
    asked = (SPEC, LEARNINGS) if said.learned or before is not None else (SPEC,)
    ignored = ignore.ignored(site.repo, *asked)
    entries: dict[str, Entry | None] = {}
    added, change = "", Change()
    if LEARNINGS not in ignored:
        added, change = lessons.written(before or "", date, key, said)

    def note(ticked: int) -> None:
        whole = bool(added) and before is None
        made = EarlyTick(
            site.caller.run, ticked, added, new=whole, swaps=change.swaps, votes=change.votes
        )
        site.memory.standing = made if record.note_early(site.scope, key, made) else None

    def apply(text: str, parsed: Spec) -> tuple[str, Entry]:
        task = parsed.find(key)
        if task is None:
            raise KernError(f"the task is no longer in {SPEC}: {key.text}", hint="run kern again")
        note(len(edit.ticked(parsed, task, proved=proved)))
        new = edit.tick(text, parsed, task, proved=proved)
        return new if site.memory.standing else text, _entry(site, SPEC, new)

    if SPEC in ignored:
        note(0)
    else:
        entries[SPEC] = site.papers.update(apply)
    if LEARNINGS not in ignored:
        text = site.papers.read(LEARNINGS) or ""
        if added or change.swaps:
            voted = changes.applied(text, change.swaps)
            text = voted + edit.appended(voted, edit.learnings(plain.lf(added)))
            if site.memory.standing:
                site.papers.write(LEARNINGS, text)
        if text:
            entries[LEARNINGS] = _entry(site, LEARNINGS, text)
    return entries


def formed(site: Site, tree: str) -> str:
    """The tree with the two files, of those that it holds, as they stand on the disk by now: hooks
    may have brought them into another form, which no gate reads.
    """
    held = [name for name in (SPEC, LEARNINGS) if site.repo.entry(tree, name)]
    texts = {name: site.papers.read(name) for name in held}
    found = {
        name: _entry(site, name, text)
        for name, text in texts.items()
        if text and not reconcile.in_conflict(text)
    }
    return site.repo.tree_with(tree, found)


def _entry(site: Site, name: str, text: str) -> Entry:
    known = site.repo.entry(site.repo.head().commit, name)
    mode = known.mode if known and known.mode != "120000" else "100644"
    return Entry(mode, site.repo.blob(encode(text), path=name))


def take_back(site: Site, scope: Scope, key: Key, made: EarlyTick) -> None:
    """In the other order, as far as it still stands there; the record goes last."""
    _unlearn(site, made)

    def apply(text: str, parsed: Spec) -> str:
        if task := parsed.find(key):
            return edit.untick(text, parsed, task, made.ticked)
        if parsed.unclosed:  # the line may be there
            raise KernError(parsed.unclosed.said, hint=CLOSE)
        site.warn(
            f"no longer in {SPEC}: {key.text}; if it stands there in other words, its [x] is "
            "kern's: set it to [ ]"
        )
        return text

    if made.ticked:
        site.papers.edit(apply)
    head = site.repo.head().commit
    carried = site.witness.ticked(head, key)
    if carried:
        site.warn(
            f"your commit {head[:7]}, or one below it, has an [x] that kern had set early: "
            f"the task is not done by that, back to [~] in {SPEC}: {key.text}"
        )
    record.note_early(scope, key, None, carried=head if carried else "")


def _unlearn(site: Site, made: EarlyTick) -> None:
    text = site.papers.read(LEARNINGS)
    if not (made.learned or made.swaps) or text is None:
        return
    known = decode(site.repo.content(site.repo.head().commit, LEARNINGS) or b"")
    committed = edit.learnings(plain.lf(known))
    theirs = [pair for pair in made.swaps if plain.lf(pair[1]) in committed]
    left = changes.undone(text, [pair for pair in made.swaps if pair not in theirs])
    if any(entry not in committed for entry in edit.learnings(plain.lf(made.learned))):
        left = edit.unlearn(left, made.learned)  # else a person committed it
    if made.new and not left:
        site.papers.remove(LEARNINGS)
    elif left != text:
        site.papers.write(LEARNINGS, left)
