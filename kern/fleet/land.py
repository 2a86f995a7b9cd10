"""The landing: a finished task becomes one commit of the branch, proven on the tree on which it
lands, and nothing of it is lost where it cannot.

One transaction moves the branch. With it comes a ref for the task and its base, which can be made
once: so nothing lands twice. The work branch goes last: until then a killed landing goes on.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import PurePath

from kern import plain
from kern.checks import result
from kern.checks.result import Red
from kern.config import Gate
from kern.errors import KernError
from kern.events import AttemptNoted, Traced
from kern.fleet import documents
from kern.fleet.work import Dropped, Landed, Landing, SentBack, Waiting, Work
from kern.git import history, index, landing, operations, refs
from kern.git.ignore import DOCUMENTS, bare
from kern.git.repository import Repo
from kern.memory.changes import merged
from kern.model import LEARNINGS, SPEC, Cause, Key, Marker, Result, Saved, Stage
from kern.pipeline import facts, project, verify
from kern.pipeline import loop as single
from kern.pipeline.site import Site
from kern.plain import some
from kern.spec import edit
from kern.spec.parse import Kind, Spec, Task, parse
from kern.stages import record
from kern.stages.record import StageRecord
from kern.system import workspace
from kern.system.workspace import Scope

LANDED = "refs/kern/landed"
_SIDES = ("branch", "task")  # of the two, where they are in conflict
_MOST_MOVES = 8  # of the branch, beneath one landing
_MOST_NAMED = 3  # commits, in a note
_KEPT = re.compile(r"kept: kern/(attempts/\S+)\)$")
_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}

# A tree, the commit that it comes upon, and the gates that must pass there: the one that does not,
# and what stands behind the tree, in words.
Check = Callable[[str, str, Sequence[Gate]], tuple[Result | None, str]]


def land(site: Site, work: Work, check: Check) -> Landing:
    """Durable when it returns. Raises KernError where a person is needed, and what `check` raises:
    then it is as before.
    """
    for _ in range(_MOST_MOVES):
        if end := _tried(site, work, check):
            return end
        site.sink(Traced(f"the branch moved while a task was landing: {work.text}"))
    return Waiting(work, "the branch moves on and on")


def _tried(site: Site, work: Work, check: Check) -> Landing | None:
    """None where the branch has moved meanwhile."""
    repo, head = site.repo, site.repo.head()
    if head.branch != site.scope.branch:
        raise single.switched(site.scope.branch, head.name)
    if why := operations.begun(repo):
        return Waiting(work, why)
    if landed := landed_as(repo, work, head.commit):
        finish(site, work)
        return Dropped(work, f"it has landed as {landed[:7]}")
    parsed = site.papers.spec()[1]
    task = documents.found(parsed, work.key)
    if task is None or task.marker is Marker.DONE:
        ref = _keep(site, work, head.commit, repo.tree(work.commit))
        why = "you ticked it yourself" if task else f"it is no longer in {SPEC}"
        site.warn(f"{why}: {plain.line(work.text, 200)}: what was finished is saved as {ref}")
        return Dropped(work, why, ref)
    merged, conflicts = _merged(repo, work, head.commit)
    if conflicts:
        return _collided(site, work, head.commit, merged, conflicts)
    tree = project.with_documents(site, merged, _papers(site, work))
    if mine := landing.in_the_way(repo, head.commit, tree):
        return Waiting(work, f"you have uncommitted changes in {some(mine)}")
    gates = project.checks(site, task).gates
    proved = work.proved if head.commit == work.base else ""
    if gates and not proved:
        red, proved = check(tree, head.commit, gates)
        if red:
            return _red(site, work, head.commit, merged, red)
        if proved:
            changed = changes(repo, work)
            proved += verify.doubted(repo, gates, changed, work.base, work.commit)
    own = history.commit(repo, work.commit)
    commit = own.sha
    if (own.tree, own.parents) != (tree, (head.commit,)):
        timeout = site.caller.settings.total(Stage.COMMIT)
        commit = history.transplanted(repo, own.sha, tree, head.commit, timeout)
    if landing.in_the_way(repo, head.commit, tree):
        return None
    if not landing.advance(repo, head, commit, own.subject, {mark(work): commit}):
        return None
    finish(site, work)
    return Landed(work, commit, proved)


def mark(work: Work) -> str:
    """The ref that names the commit as which it has landed."""
    return f"{LANDED}/{refs.slug(work.key)}/{work.base}"


def landed_as(repo: Repo, work: Work, head: str) -> str:
    """Empty where it has not. One that a person has taken out of the branch is forgotten."""
    commit = repo.store.id(mark(work))
    if commit and not history.is_within(repo, commit, head):
        refs.delete(repo, mark(work), commit)
        return ""
    return commit


def finish(site: Site, work: Work) -> None:
    """Files, index and documents follow the branch; twice is once."""

    def replay(name: str, text: str, _: str) -> str:
        if name == SPEC:
            return documents.ticked(text, work.key, work.spec)
        return _taught(site.repo, work, text)

    landing.follow(site.repo, replay)
    site.papers.edit(lambda text, _: documents.ticked(text, work.key, work.spec))
    before = site.papers.read(LEARNINGS) or ""
    if (after := _taught(site.repo, work, before)) != before:
        site.papers.write(LEARNINGS, after)


def _papers(site: Site, work: Work) -> dict[str, str | None]:
    """The two as they stand on the disk, with what the task does to them."""
    spec = documents.ticked(site.papers.spec_text(), work.key, work.spec)
    lessons = _taught(site.repo, work, site.papers.read(LEARNINGS) or "")
    return {SPEC: documents.committed(spec), LEARNINGS: lessons}


def _taught(repo: Repo, work: Work, text: str) -> str:
    """LEARNINGS.md with the entries and votes that are its own."""
    after = _text(repo, work.commit, LEARNINGS) if work.learnings is None else work.learnings
    return merged(text, _text(repo, work.base, LEARNINGS), after)


def _text(repo: Repo, revision: str, name: str) -> str:
    return plain.decode(repo.content(revision, name) or b"")


# ---------------------------------------------------------------- the tree


def changes(repo: Repo, work: Work) -> list[str]:
    """The paths that the task changed, beside the documents."""
    found = repo.changed(work.base, work.commit)
    return [path for path in found if path not in DOCUMENTS]


def _merged(repo: Repo, work: Work, onto: str) -> tuple[str, list[str]]:
    """The tree, and the paths in conflict: there both sides stand between markers. The documents
    stay as that commit has them.
    """
    head = repo.tree(onto)
    papers = {path: repo.entry(head, path) for path in DOCUMENTS}
    base, task = (repo.tree_with(repo.tree(one), papers) for one in (work.base, work.commit))
    if bare(repo, head) == bare(repo, base):
        return task, []
    return index.merged(repo, base, head, task, _SIDES)


# ---------------------------------------------------------------- what goes back


def _collided(site: Site, work: Work, head: str, tree: str, paths: Sequence[str]) -> SentBack:
    other = _other(site.repo, work, head, paths)
    subject = plain.line(history.commit(site.repo, other).subject, 60)
    reason = f"it collides with {other[:7]} ({subject}) in {some(sorted(paths))}"
    ours, theirs = _SIDES
    told = (
        f"{reason}. The task was finished on an older commit, and its change is merged into the "
        f"tree; where both changed the same lines, both stand there: <<<<<<< {ours} is what the "
        f"branch has by now, >>>>>>> {theirs} what the task made of it. Make one of them, so that "
        "both intents hold, and leave no such marker"
    )
    return _send_back(site, work, (head, tree), reason, told)


def _other(repo: Repo, work: Work, head: str, paths: Iterable[str]) -> str:
    """The newest commit since the task was begun that touches the paths; else the newest."""
    above = {str(one) for path in paths for one in (path, *PurePath(path).parents)} - {"."}
    argv = ("log", "-1", "--no-show-signature", "--format=%H", f"{work.base}..{head}", "--")
    _, out, _ = repo.run(*argv, *sorted(above)[:20], env=_LITERAL)
    return out.decode().strip() or head


def _red(site: Site, work: Work, head: str, tree: str, ended: Result) -> SentBack:
    since = history.since(site.repo, work.base, head) or ()
    names = [f"{one.sha[:7]} ({plain.line(one.subject, 40)})" for one in since[-_MOST_NAMED:]]
    without = f"; it was green without {', '.join(names)}" if names else ""
    reason = f"{result.objection(ended)}{without}"
    told = (
        f"{reason}. The task was finished on an older commit, its gates were green there, and its "
        "change is merged into the tree; with what has landed since, this gate is red"
    )
    return _send_back(site, work, (head, tree), reason, told, result.evidence(ended))


def _send_back(
    site: Site, work: Work, made: tuple[str, str], reason: str, told: str, shown: Red | None = None
) -> SentBack:
    """The ref first, then one write of SPEC.md: the worker's notes, the attempt, `[ ]`."""
    noted = documents.noted(site.papers.spec_text(), work.key, work.spec)
    task = documents.found(parse(noted), work.key)
    number = task.attempts + 1 if task else 1
    said = history.commit(site.repo, work.commit).subject
    failure = {"told": told, "said": said, "red": asdict(shown) if shown else None}
    more = f"Kern-Attempt: {number}\nKern-Failure: {json.dumps(failure)}\n"
    ref = _keep(site, work, *made, str(number), more)
    tail = f" (kept: {ref})"
    line = plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail

    def apply(text: str, _: Spec) -> tuple[str, bool]:
        text = documents.noted(text, work.key, work.spec)
        task = documents.found(parse(text), work.key)
        if task is None or any(tail in note.text for note in task.of(Kind.ATTEMPT)):
            return text, False
        if task.marker is Marker.ACTIVE:
            text = edit.mark(text, task, Marker.PENDING)
        return edit.annotate(text, task, [edit.note(Kind.ATTEMPT, line, number)]), True

    if site.papers.update(apply):
        site.sink(AttemptNoted(work.text, number, reason, ref, str(Cause.COLLISION)))
    return SentBack(work, reason)


def _keep(
    site: Site, work: Work, head: str, tree: str, name: str = "finished", more: str = ""
) -> str:
    """Once for each work, however often it is asked for; the ref."""
    said = f"Kern-Work: {work.commit}\n"
    for ref, _ in refs.kept(site.repo, refs.slug(work.key)):
        if said in _message(site.repo, ref):
            return ref.removeprefix("refs/")
    return site.keep(work.key, name, tree, head, said + more)


def _message(repo: Repo, ref: str) -> str:
    raw = repo.store.read(repo.store.id(ref), "commit") if repo.store.id(ref) else None
    return plain.decode((raw or b"").partition(b"\n\n")[2])


def sent_back(site: Site, task: Task) -> tuple[tuple[str, ...], str]:
    """What the next attempt needs to go on with a task that was: the run files of the last attempt
    and of its research, and the commit that keeps its work. Nothing where that attempt was another
    one, or where the task has been done since, and is open again: it begins anew.
    """
    repo, last = site.repo, task.of(Kind.ATTEMPT)[-1:]
    kept = _KEPT.search(last[0].text) if last else None
    message = _message(repo, f"refs/kern/{kept[1]}") if kept else ""
    found = re.search(r"^Kern-Failure: (.*)$", message, re.M)
    if not (kept and found):
        return (), ""
    made = history.commit(repo, f"refs/kern/{kept[1]}")
    failure, head = json.loads(found[1]), made.parents[0]
    since = history.since(repo, head, repo.head().commit) or ()
    if any(facts.ticks(repo, one, task.key) for one in since):
        return (), ""
    trees = {"base": head, "start": repo.tree(head), "tree": made.tree}
    outcome = f"{Saved.FAILED}: {failure['told']}"
    why = {"outcome": outcome, "cause": str(Cause.COLLISION), "red": failure["red"]}
    answered = {"result": failure["said"]}
    one = record.new(Stage.IMPLEMENT, answered, task.key, last[0].number, **trees, **why)
    return (one.written, *_researched(site.scope, task.key)), made.sha


def _researched(scope: Scope, key: Key) -> Iterator[str]:
    """The newest, among what is known of the branch's tasks. As begun now: it is another walk."""
    for place in sorted(scope.folder.glob("history/*/stage1.json"), reverse=True):
        with contextlib.suppress(ValueError, KeyError, KernError):
            found = StageRecord(Stage.RESEARCH, json.loads(workspace.read(place) or b""))
            if found.key == key:
                yield found.noting(time=record.now()).written
                return


def lay(made: Repo, before: Sequence[str]) -> None:
    """Into the run files of a worktree, whose kern then finds them."""
    for text in before:
        scope, kern = workspace.scope(made.root, made.head().name), json.loads(text)["kern"]
        stage = Stage(kern["stage"])
        attempt = kern["attempt"] if stage is Stage.IMPLEMENT else 0
        workspace.replace(scope.stage_file(stage, attempt), text.encode())
