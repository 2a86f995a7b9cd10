"""The landing: a finished task becomes one commit of the branch, proven on the tree on which it
lands, and nothing of it is lost where it cannot.

One transaction moves the branch. The work branch goes last: until then a killed landing goes on,
and a commit of the branch that says and ticks the same tells that it is there already.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kern import config, plain
from kern.checks import result
from kern.checks.result import Red
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.events import AttemptNoted, GateEnded
from kern.fleet import documents, worker, worktree
from kern.fleet.work import End, Landing, Work
from kern.fleet.worktree import Yard
from kern.git import history, landing, refs
from kern.git.repository import DOCUMENTS, Repo
from kern.memory.changes import merged
from kern.model import LEARNINGS, SPEC, Cause, Key, Marker, Result, Saved, Stage
from kern.pipeline import facts, project, session, verify
from kern.pipeline import loop as single
from kern.pipeline.site import Options, Site
from kern.plain import some
from kern.spec import edit
from kern.spec.file import Documents
from kern.spec.parse import Kind, Spec, parse
from kern.stages import record
from kern.system.workspace import Scope

_SIDES = ("branch", "task")  # of the two, where they are in conflict
_MOST_MOVES = 8  # of the branch, beneath one landing
_MOST_NAMED = 3  # commits, in a note
_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_SEEN = (SPEC, LEARNINGS, config.FILE)  # as they stand in the person's tree, where git has none


@dataclass
class Lander:
    """Of one run, in its main thread; to be closed."""

    site: Site  # the person's own tree
    yard: Yard
    options: Options
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _apart: Site | None = None  # where gates prove what lands, if they have no room
    _blamed: bool = False  # a person was told where all is that a gate printed

    def land(self, work: Work) -> Landing:
        """Durable when it returns. Raises KernError where a person is needed: then it is as
        before.
        """
        for _ in range(_MOST_MOVES):
            if end := self._try(work):
                return end
        return Landing(End.WAITING, "the branch moves on and on")

    def _try(self, work: Work) -> Landing | None:
        """None where the branch has moved meanwhile."""
        site, repo, key = self.site, self.site.repo, work.job.key
        head, own = repo.head(), history.commit(repo, work.commit)
        if why := history.begun(repo):
            return Landing(End.PAUSED, why)
        if head.branch != site.scope.branch:
            raise single.switched(site.scope.branch, head.name)
        for one in history.since(repo, work.job.base, head.commit) or ():
            if one.message == own.message and facts.ticks(repo, one, key):
                finish(site, work)
                return Landing(End.DROPPED, f"it has landed as {one.sha[:7]}")
        task = documents.find(site.papers.spec()[1], key)
        if task is None or task.marker is Marker.DONE:
            ref = site.keep(key, "finished", own.tree, head.commit)
            why = "you ticked it yourself" if task else f"it is no longer in {SPEC}"
            site.warn(f"{why}: {plain.line(work.text, 200)}: what was finished is saved as {ref}")
            return Landing(End.DROPPED, why, ref)
        merged, conflicts = _merged(repo, work, head.commit)
        if conflicts:
            return _collided(site, work, head.commit, merged, conflicts)
        tree = project.with_documents(site, merged, _papers(site, work))
        if mine := landing.in_the_way(repo, head.commit, tree):
            return Landing(End.WAITING, f"you have uncommitted changes in {some(mine)}")
        gates = project.checks(site, task).gates
        proved = work.proved if head.commit == work.job.base else ""
        if gates and not proved:
            red, proved = self._prove(tree, head.commit, gates)
            if red:
                return _red(site, work, head.commit, merged, red)
            proved += verify.doubted(repo, gates, changes(repo, work), work.job.base, own.sha)
        commit = own.sha
        if (own.tree, own.parents) != (tree, (head.commit,)):
            timeout = site.caller.settings.total(Stage.COMMIT)
            commit = history.transplanted(repo, own.sha, tree, head.commit, timeout)
        if landing.in_the_way(repo, head.commit, tree):
            return None
        if not landing.advance(repo, head, commit, own.subject):
            return None
        finish(site, work)
        return Landing(End.LANDED, commit=commit, proved=proved)

    # ------------------------------------------------------------ gates

    def _prove(self, tree: str, head: str, gates: Sequence[Gate]) -> tuple[Result | None, str]:
        """The gate that holds it up, and what stands behind the tree, in words. Where one is red
        without the task all the same, the task is not to blame; a task's own says what done means.
        """
        results = list[Result]()
        for gate in gates:
            ended = self._run(gate, tree, head)
            if ended.cannot_run:
                raise self._refused(UsageError, ended, "where merged tasks are checked")
            if ended.red and gate.name:
                before = self._run(gate, self.site.repo.tree(head), head)
                allowed = gate.known_red or self.options.allow_red
                if before.red and not allowed:
                    where = f"that is {head[:7]}, without any task that waits to land"
                    raise self._refused(KernError, before, where)
                ended = ended.against(before.red)
            if ended.blocks:
                self._blamed = True
                return ended, ""
            results.append(ended)
        return None, result.proved(results)

    def _refused(self, kind: type[KernError], ended: Result, where: str) -> KernError:
        self._blamed = True
        message, hint = result.refusal([ended])
        more = "; [worktree] of kern.toml says what a worktree needs (copy, setup)"
        return kind(f"{message}\n{where}", hint=hint + more)

    def _run(self, gate: Gate, tree: str, head: str) -> Result:
        """Asked again for the same files, it is remembered."""
        site = self.site if self.site.rooms.mounted else self._beside_the_tree(tree, head)
        if known := site.gates.known(gate, project.subject(site, tree)):
            return known
        ended = project.run_gate(site, gate, tree)
        self.site.sink(GateEnded(ended))
        return ended

    def _beside_the_tree(self, tree: str, head: str) -> Site:
        """A worktree of the landing's own with the files of that tree, set up, and a session on
        it.
        """
        repo, own = self.site.repo, self.options
        commit = repo.commit_object(tree, (head,), "merged, to be checked\n")
        made = worktree.make(self.yard, worktree.PROVING, commit, "--detach")
        texts = ((name, Documents(repo.root).read(name)) for name in _SEEN)
        new = ((name, text) for name, text in texts if text and not repo.entry(commit, name))
        worker.write(made, new)
        if self._apart is None:
            self._open.callback(worktree.remove, self.yard, worktree.PROVING)
            worker.equip(made, repo, self.yard.many)
            options = Options(allow_red=own.allow_red, leave=own.leave, tick=own.tick)
            how = {"empty": True, "commits": False, "paid": False}
            begun = session.begin(made.root, options, self.site.sink, **how)
            self._apart = self._open.enter_context(begun)
            self._apart.caller.heed = lambda: None  # a person is heeded between two turns
            worker.set_up(self._apart)
        return self._apart

    def close(self) -> None:
        site, self._apart = self._apart, None
        self._open.close()
        if site and not self._blamed:
            worktree.forget_runs(site.scope.base, site.repo.root)


# ---------------------------------------------------------------- the tree


def finish(site: Site, work: Work) -> None:
    """Files, index and documents follow the branch; twice is once."""

    landing.follow(site.repo)
    site.papers.edit(lambda text, _: documents.ticked(text, work.job.key, work.spec))
    before = site.papers.read(LEARNINGS) or ""
    if (after := _taught(site.repo, work, before)) != before:
        site.papers.write(LEARNINGS, after)


def _papers(site: Site, work: Work) -> dict[str, str | None]:
    """The two as they stand on the disk, with what the task does to them."""
    spec = documents.ticked(site.papers.spec_text(), work.job.key, work.spec)
    lessons = _taught(site.repo, work, site.papers.read(LEARNINGS) or "")
    return {SPEC: documents.committed(spec), LEARNINGS: lessons}


def _taught(repo: Repo, work: Work, text: str) -> str:
    """LEARNINGS.md with the entries and votes that are its own."""
    before = plain.decode(repo.content(work.job.base, LEARNINGS) or b"")
    return merged(text, before, work.learnings)


def changes(repo: Repo, work: Work) -> list[str]:
    """The paths that the task changed, beside the documents."""
    found = repo.changed(work.job.base, work.commit)
    return [path for path in found if path not in DOCUMENTS]


def _merged(repo: Repo, work: Work, onto: str) -> tuple[str, list[str]]:
    """The tree, and the paths in conflict: there both sides stand between markers. The documents
    stay as that commit has them.
    """
    head = repo.tree(onto)
    papers = {path: repo.entry(head, path) for path in DOCUMENTS}
    base, task = (repo.tree_with(repo.tree(one), papers) for one in (work.job.base, work.commit))
    if repo.bare(head) == repo.bare(base):
        return task, []
    return history.merge(repo, base, head, task, _SIDES)


# ---------------------------------------------------------------- what goes back


def _collided(site: Site, work: Work, head: str, tree: str, paths: Sequence[str]) -> Landing:
    argv = ("log", "-1", "--no-show-signature", "--format=%H", f"{work.job.base}..{head}", "--")
    newest = site.repo.run(*argv, *sorted(paths)[:20], env=_LITERAL)[1].decode().strip()
    other = newest or head
    subject = plain.line(history.commit(site.repo, other).subject, 60)
    reason = f"it collides with {other[:7]} ({subject}) in {some(sorted(paths))}"
    ours, theirs = _SIDES
    more = (
        f"where both changed the same lines, both stand there: <<<<<<< {ours} is what the branch "
        f"has by now, >>>>>>> {theirs} what the task made of it. Make one of them, so that both "
        "intents hold, and leave no such marker"
    )
    return _send_back(site, work, (head, tree), reason, more)


def _red(site: Site, work: Work, head: str, tree: str, ended: Result) -> Landing:
    since = history.since(site.repo, work.job.base, head) or ()
    names = [f"{one.sha[:7]} ({plain.line(one.subject, 40)})" for one in since[-_MOST_NAMED:]]
    without = f"; it was green without {', '.join(names)}" if names else ""
    reason = f"{result.objection(ended)}{without}"
    more = "its gates were green there, and with what has landed since this one is red"
    return _send_back(site, work, (head, tree), reason, more, result.evidence(ended))


def _send_back(
    site: Site, work: Work, made: tuple[str, str], reason: str, more: str, red: Red | None = None
) -> Landing:
    """The ref first, then one write of SPEC.md: the worker's notes, the attempt, `[ ]`. The next
    attempt begins with the merged tree, and with what research found.
    """
    key, repo, (head, tree) = work.job.key, site.repo, made
    noted = documents.find(parse(documents.noted(site.papers.spec_text(), key, work.spec)), key)
    number = noted.attempts + 1 if noted else 1
    known = [ref for ref, _ in refs.kept(repo, refs.slug(key)) if repo.tree(ref) == tree]
    ref = known[0].removeprefix("refs/") if known else site.keep(key, str(number), tree, head)
    tail = f" (kept: {ref})"
    line = plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail

    def apply(text: str, _: Spec) -> tuple[str, bool]:
        text = documents.noted(text, key, work.spec)
        task = documents.find(parse(text), key)
        if task is None or any(tail in note.text for note in task.of(Kind.ATTEMPT)):
            return text, False  # a killed landing has noted it
        text = edit.mark(text, task, Marker.PENDING)
        return edit.annotate(text, task, [edit.note(Kind.ATTEMPT, line, number)]), True

    if site.papers.update(apply):
        site.sink(AttemptNoted(work.text, number, reason, ref, str(Cause.COLLISION)))
    told = (
        f"{reason}. The task was finished on an older commit, and its change is merged into the "
        f"tree; {more}"
    )
    one = record.new(
        Stage.IMPLEMENT,
        {"result": history.commit(repo, work.commit).subject},
        key,
        number,
        base=head,
        start=repo.tree(head),
        tree=tree,
        outcome=f"{Saved.FAILED}: {told}",
        cause=str(Cause.COLLISION),
        red=red,
    )
    kept = repo.commit_id(f"refs/{ref}")
    return Landing(End.SENT_BACK, reason, kept, failed=(one.written, *_researched(site.scope, key)))


def _researched(scope: Scope, key: Key) -> Iterator[str]:
    """The newest, among what is known of the branch's tasks. As begun now: it is another walk."""
    for place in sorted(scope.folder.glob("history/*/stage1.json"), reverse=True):
        past = replace(scope, branch=f"{scope.branch}/history/{place.parent.name}")
        found = record.read(past, Stage.RESEARCH)
        if found and found.key == key:
            yield found.noting(time=record.now()).written
            return
