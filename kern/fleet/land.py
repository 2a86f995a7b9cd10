"""The landing of a worker's task: one commit of the branch, proven on the tree on which it lands,
and nothing of it is lost where it cannot.

The work branch goes last: until then a killed landing goes on, and a commit of the branch that says
and ticks the same tells that it is there already.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kern import plain
from kern.fleet import work, worktree
from kern.fleet.work import Work
from kern.fleet.worktree import Yard
from kern.git import history
from kern.git import landing as branch
from kern.git.repository import Repo
from kern.memory.changes import merged
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline import facts, landing
from kern.pipeline.site import Site
from kern.stages import record
from kern.system.workspace import Scope


@dataclass(frozen=True, slots=True)
class Landing:
    """What became of finished work: neither landed nor sent back, it was dropped."""

    landed: str = ""  # the commit, on the branch or at the ref of those that wait for the person
    proved: str = ""  # what stands behind it there, in words
    back: str = ""  # the commit with the work, which collides or is red with what has landed since
    failed: tuple[str, ...] = ()  # of that: see `Job`


@dataclass
class Lander:
    """Of one run, in its main thread; to be closed."""

    site: Site  # the person's own tree
    yard: Yard
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _apart: Site | None = None

    def land(self, done: Work) -> Landing | None:
        """Durable when it returns; None where the branch has moved meanwhile. Raises KernError
        where a person is needed: then it is as before.
        """
        site, repo, key = self.site, self.site.repo, done.job.key
        head, own = repo.head(), history.commit(repo, done.commit)
        for one in history.since(repo, done.job.base, head.commit) or ():
            if one.message == own.message and facts.ticks(repo, one, key):
                _finish(site, done)
                return Landing()
        task = site.papers.spec()[1].find(key)
        if task is None or task.marker is Marker.DONE:
            ref = site.keep(key, "finished", own.tree, head.commit)
            why = "you ticked it yourself" if task else f"it is no longer in {SPEC}"
            site.warn(f"{why}: {plain.line(done.text, 200)}: what was finished is saved as {ref}")
            return Landing()
        texts, proved = _papers(site, done), done.proved
        try:
            new, proof = landing.on_top(
                *(site, own, head.commit, task), texts=texts, proof=proved, where=self._where
            )
        except landing.Refused as exc:
            site.papers.edit(lambda text, _: work.noted(text, key, done.spec))
            failed = landing.give_back(site, task.key, own, exc, head.commit)
            back = repo.commit_object(exc.tree, (head.commit,), "to be mended\n")
            return Landing(back=back, failed=(failed.written, *_researched(site.scope, key)))
        waits = landing.waits(site, head.commit, new)
        if not (waits or branch.advance(repo, head, new, own.subject)):
            return None
        _finish(site, done)
        return Landing(new, proof)

    def _where(self) -> Site:
        """Where gates prove what lands: without a room, a worktree of the landing's own."""
        if self.site.rooms.mounted:
            return self.site
        if not self._apart:
            self._apart = self._open.enter_context(worktree.fresh(self.site, self.yard))
        return self._apart

    def close(self) -> None:
        if self._apart:
            self.site.caller.cost += self._apart.caller.cost
        self._apart = None
        self._open.close()


def _finish(site: Site, done: Work) -> None:
    """Files, index and documents follow the branch; twice is once."""
    landing.follow(site.repo, site.papers)
    site.papers.edit(lambda text, _: work.ticked(text, done.job.key, done.spec))
    before = site.papers.read(LEARNINGS) or ""
    if (after := _taught(site.repo, done, before)) != before:
        site.papers.write(LEARNINGS, after)


def _papers(site: Site, done: Work) -> dict[str, str | None]:
    """The two as they stand on the disk, with what the task does to them."""
    spec = work.ticked(site.papers.spec_text(), done.job.key, done.spec)
    return {SPEC: spec, LEARNINGS: _taught(site.repo, done, site.papers.read(LEARNINGS) or "")}


def _taught(repo: Repo, done: Work, text: str) -> str:
    """LEARNINGS.md with the entries and votes that are its own."""
    before = plain.decode(repo.content(done.job.base, LEARNINGS) or b"")
    return merged(text, before, done.learnings)


def _researched(scope: Scope, key: Key) -> Iterator[str]:
    """The newest, among what is known of the branch's tasks. As begun now: it is another walk."""
    for place in sorted(scope.folder.glob("history/*/stage1.json"), reverse=True):
        past = replace(scope, branch=f"{scope.branch}/history/{place.parent.name}")
        found = record.read(past, Stage.RESEARCH)
        if found and found.key == key:
            yield found.noting(time=record.now()).written
            return
