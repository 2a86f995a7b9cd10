"""The landing of a worker's task: one commit of the branch, proven on the tree on which it lands,
and nothing of it is lost where it cannot.

The work branch goes last: until then a killed landing goes on, and a commit of the branch that says
and ticks the same tells that it is there already.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kern import config, plain
from kern.fleet import work, worker, worktree
from kern.fleet.work import End, Landing, Work
from kern.fleet.worktree import Yard
from kern.git import history
from kern.git import landing as branch
from kern.git.repository import DOCUMENTS, Repo
from kern.memory.changes import merged
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline import facts, landing, loop, session
from kern.pipeline.site import Options, Site
from kern.spec.file import Documents
from kern.stages import record
from kern.system.workspace import Scope

_SEEN = (SPEC, LEARNINGS, config.FILE)  # as they stand in the person's tree, where git has none


@dataclass
class Lander:
    """Of one run, in its main thread; to be closed."""

    site: Site  # the person's own tree
    yard: Yard
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _apart: Site | None = None

    def land(self, done: Work) -> Landing:
        """Durable when it returns. Raises KernError where a person is needed: then it is as
        before.
        """
        while not (end := self._try(done)):
            pass
        return end

    def _try(self, done: Work) -> Landing | None:
        """None where the branch has moved meanwhile."""
        site, repo, key = self.site, self.site.repo, done.job.key
        head, own = repo.head(), history.commit(repo, done.commit)
        if why := history.begun(repo):
            return Landing(End.PAUSED, why)
        if head.branch != site.scope.branch:
            raise loop.switched(site.scope.branch, head.name)
        for one in history.since(repo, done.job.base, head.commit) or ():
            if one.message == own.message and facts.ticks(repo, one, key):
                _finish(site, done)
                return Landing(End.DROPPED, f"it has landed as {one.sha[:7]}")
        task = work.find(site.papers.spec()[1], key)
        if task is None or task.marker is Marker.DONE:
            ref = site.keep(key, "finished", own.tree, head.commit)
            why = "you ticked it yourself" if task else f"it is no longer in {SPEC}"
            site.warn(f"{why}: {plain.line(done.text, 200)}: what was finished is saved as {ref}")
            return Landing(End.DROPPED, why, ref)
        texts, proved = _papers(site, done), done.proved
        try:
            new, proof = landing.on_top(
                *(site, own, head.commit, task), texts=texts, proof=proved, where=self._where
            )
        except landing.InTheWay as exc:
            return Landing(End.WAITING, f"you have uncommitted changes in {exc}")
        except landing.Refused as exc:
            site.papers.edit(lambda text, _: work.noted(text, key, done.spec))
            failed = landing.give_back(site, task.key, own, exc, head.commit)
            return Landing(
                End.SENT_BACK,
                str(exc),
                repo.commit_object(exc.tree, (head.commit,), "to be mended\n"),
                failed=(failed.written, *_researched(site.scope, task.key)),
            )
        if branch.in_the_way(repo, head.commit, new):
            return None
        if not branch.advance(repo, head, new, own.subject):
            return None
        _finish(site, done)
        return Landing(End.LANDED, commit=new, proved=proof)

    def _where(self) -> Site:
        """Where gates prove what lands: where they have no room, a worktree of the landing's own,
        set up, and a session in it.
        """
        site = self.site
        if self._apart or site.rooms.mounted:
            return self._apart or site
        made = worktree.make(self.yard, worktree.PROVING, site.repo.head().commit, "--detach")
        self._open.callback(worktree.remove, self.yard, worktree.PROVING)
        texts = ((name, Documents(site.repo.root).read(name)) for name in _SEEN)
        worker.write(made, ((name, text) for name, text in texts if text))
        worktree.equip(made, site.repo, self.yard.many)
        own = site.options
        options = Options(allow_red=own.allow_red, leave=own.leave, tick=own.tick)
        how = {"empty": True, "commits": False, "paid": False, "lands": True}
        apart = self._open.enter_context(session.begin(made.root, options, site.sink, **how))
        apart.caller.programs, apart.caller.heed = site.caller.programs, lambda: None
        if apart.rooms.place:
            apart.rooms.place.save = lambda known, now: None  # what gates leave there is nobody's
        worktree.set_up(apart)
        self._apart = apart
        return apart

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
    lessons = _taught(site.repo, done, site.papers.read(LEARNINGS) or "")
    return {SPEC: work.committed(spec), LEARNINGS: lessons}


def _taught(repo: Repo, done: Work, text: str) -> str:
    """LEARNINGS.md with the entries and votes that are its own."""
    before = plain.decode(repo.content(done.job.base, LEARNINGS) or b"")
    return merged(text, before, done.learnings)


def changes(repo: Repo, done: Work) -> list[str]:
    """The paths that the task changed, beside the documents."""
    found = repo.changed(done.job.base, done.commit)
    return [path for path in found if path not in DOCUMENTS]


def _researched(scope: Scope, key: Key) -> Iterator[str]:
    """The newest, among what is known of the branch's tasks. As begun now: it is another walk."""
    for place in sorted(scope.folder.glob("history/*/stage1.json"), reverse=True):
        past = replace(scope, branch=f"{scope.branch}/history/{place.parent.name}")
        found = record.read(past, Stage.RESEARCH)
        if found and found.key == key:
            yield found.noting(time=record.now()).written
            return
