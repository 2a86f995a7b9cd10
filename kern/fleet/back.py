"""A finished task that cannot land goes back: its work is kept, a note says what it collided with,
and the next attempt begins with that work merged onto the branch.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from kern import plain
from kern.checks import result
from kern.checks.result import Red
from kern.errors import KernError
from kern.events import AttemptNoted
from kern.fleet import merging, papers
from kern.fleet.work import Work
from kern.git import history, refs
from kern.git.repository import Repo
from kern.model import Cause, Key, Marker, Result, Saved, Stage
from kern.pipeline import witness
from kern.pipeline.site import Site
from kern.plain import some
from kern.spec import edit
from kern.spec.parse import Kind, Spec, Task, parse
from kern.stages import record
from kern.system import workspace
from kern.system.workspace import Scope

_MOST = 3  # commits that a note names
_KEPT = re.compile(r"kept: kern/(attempts/\S+)\)$")


def collided(site: Site, work: Work, head: str, tree: str, other: str, paths: Sequence[str]) -> str:
    """`tree`: as merged onto `head`, with both sides between markers; the ref that keeps it."""
    subject = plain.line(history.commit(site.repo, other).subject, 60)
    reason = f"it collides with {other[:7]} ({subject}) in {some(sorted(paths))}"
    ours, theirs = merging.NAMES
    told = (
        f"{reason}. The task was finished on an older commit, and its change is merged into the "
        f"tree; where both changed the same lines, both stand there: <<<<<<< {ours} is what the "
        f"branch has by now, >>>>>>> {theirs} what the task made of it. Make one of them, so that "
        "both intents hold, and leave no such marker"
    )
    return _send(site, work, (head, tree), reason, told, None)


def red(site: Site, work: Work, head: str, tree: str, ended: Result) -> str:
    """`tree`: as merged onto `head`; the ref that keeps it."""
    since = history.since(site.repo, work.base, head) or ()
    names = [f"{one.sha[:7]} ({plain.line(one.subject, 40)})" for one in since[-_MOST:]]
    without = f"; it was green without {', '.join(names)}" if names else ""
    reason = f"{result.objection(ended)}{without}"
    told = (
        f"{reason}. The task was finished on an older commit, its gates were green there, and its "
        "change is merged into the tree; with what has landed since, this gate is red"
    )
    return _send(site, work, (head, tree), reason, told, result.evidence(ended))


def keep(
    site: Site, work: Work, head: str, tree: str, name: str = "finished", more: str = ""
) -> str:
    """Once for each work, however often it is asked for; the ref."""
    said = f"Kern-Work: {work.commit}\n"
    for ref, _ in refs.kept(site.repo, refs.slug(work.key)):
        if said in _message(site.repo, ref):
            return ref.removeprefix("refs/")
    return site.keep(work.key, name, tree, head, said + more)


def _send(
    site: Site, work: Work, made: tuple[str, str], reason: str, told: str, shown: Red | None
) -> str:
    """The ref first, then one write of SPEC.md: the worker's notes, the attempt, `[ ]`."""
    task = papers.found(parse(papers.noted(site.papers.spec_text(), work.key, work.spec)), work.key)
    number = task.attempts + 1 if task else 1
    said = history.commit(site.repo, work.commit).subject
    facts = {"told": told, "said": said, "red": asdict(shown) if shown else None}
    more = f"Kern-Attempt: {number}\nKern-Failure: {json.dumps(facts)}\n"
    ref = keep(site, work, *made, str(number), more)
    tail = f" (kept: {ref})"
    line = plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail

    def apply(text: str, _: Spec) -> tuple[str, bool]:
        text = papers.noted(text, work.key, work.spec)
        found = papers.found(parse(text), work.key)
        if found is None or any(tail in note.text for note in found.of(Kind.ATTEMPT)):
            return text, False
        if found.marker is Marker.ACTIVE:
            text = edit.mark(text, found, Marker.PENDING)
        return edit.annotate(text, found, [edit.note(Kind.ATTEMPT, line, number)]), True

    if site.papers.update(apply):
        site.sink(AttemptNoted(work.text, number, reason, ref, str(Cause.COLLISION)))
    return ref


def mended(site: Site, task: Task) -> tuple[tuple[str, ...], str]:
    """What the next attempt needs to go on with it: the run files of the last attempt and of its
    research, and the commit that keeps its work. Nothing where that attempt was another one, or
    where the task has been done since, and is open again: it begins anew.
    """
    repo, last = site.repo, task.of(Kind.ATTEMPT)[-1:]
    kept = _KEPT.search(last[0].text) if last else None
    message = _message(repo, f"refs/kern/{kept[1]}") if kept else ""
    found = re.search(r"^Kern-Failure: (.*)$", message, re.M)
    if not (kept and found):
        return (), ""
    made = history.commit(repo, f"refs/kern/{kept[1]}")
    facts, head = json.loads(found[1]), made.parents[0]
    since = history.since(repo, head, repo.head().commit) or ()
    if any(witness.ticks(site.repo, one, task.key) for one in since):
        return (), ""
    trees = {"base": head, "start": repo.tree(head), "tree": made.tree}
    outcome = f"{Saved.FAILED}: {facts['told']}"
    why = {"outcome": outcome, "cause": str(Cause.COLLISION), "red": facts["red"]}
    one = record.new(
        Stage.IMPLEMENT, {"result": facts["said"]}, task.key, last[0].number, **trees, **why
    )
    return (one.written, *_researched(site.scope, task.key)), made.sha


def _researched(scope: Scope, key: Key) -> Iterator[str]:
    """The newest, among what is known of the branch's tasks. As begun now: it is another walk."""
    for place in sorted(scope.folder.glob("history/*/stage1.json"), reverse=True):
        with contextlib.suppress(ValueError, KeyError, KernError):
            found = record.StageRecord(Stage.RESEARCH, json.loads(workspace.read(place) or b""))
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


def _message(repo: Repo, ref: str) -> str:
    raw = repo.store.read(repo.store.id(ref), "commit") if repo.store.id(ref) else None
    return plain.decode((raw or b"").partition(b"\n\n")[2])
