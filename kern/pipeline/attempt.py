"""An attempt at a task: begun by a ref, its children looked after, its tree kept or put back.

In a room no child can do what is kern's to do, and what it leaves goes with the next filling. In
the person's own tree mistakes are undone after each child, and said.
"""

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kern import events, plain
from kern.checks.result import Red
from kern.config import Gate
from kern.events import Event
from kern.git import history, in_place, refs
from kern.git.environment import GitFailed
from kern.git.in_place import Ignored
from kern.git.refs import StartRef
from kern.git.repository import Entry, Head
from kern.model import LEARNINGS, SPEC, Cause, Key, Stage
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import some
from kern.sandbox.confine import unheld
from kern.sandbox.wall import Room
from kern.spec import edit, reapply
from kern.spec.file import real
from kern.spec.parse import Kind
from kern.stages import belief, briefs, record
from kern.stages.call import Said
from kern.stages.prompts import Prompt
from kern.stages.record import StageRecord
from kern.system import workspace

_YOURS = Key("", "your tree", 1)
UNCHANGED_TWICE = "two attempts found nothing to change: tick it, or say what is missing"


class Objection(Exception):
    """What stands against the change: the attempt has failed."""

    def __init__(self, why: str, cause: Cause, red: Red | None = None) -> None:
        super().__init__(why)
        self.facts: dict[str, object] = {"cause": cause, "red": red}


def failure(
    key: Key, number: int, reason: str, ref: str, cause: str, how: str = "("
) -> tuple[str, Event]:
    """What SPEC.md and the journal say of one that failed."""
    tail = f" {how}kept: {ref})"
    words = plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail
    facts = {"task": key.text, "reason": reason, "ref": ref, "cause": cause}
    return edit.note(Kind.ATTEMPT, words, number), events.new("attempt", attempt=number, **facts)


def begin(site: Site, at: Situation) -> StartRef:
    """The start ref: from now on the attempt has begun."""
    key, mounted = at.opened[0], site.rooms.mounted
    if not mounted:
        ignored(site).take(key, at.attempt)
    return refs.begin(site.repo, at.head, key, at.attempt, mounted=mounted)


def ask(
    site: Site,
    at: Situation,
    prompt: Prompt,
    who: str,
    fill: Callable[[], Room | None],
    *,
    tree: str,
    back: str = "",
    red: Collection[Gate] = (),
    again: Callable[[], object] | None = None,
    **how: Any,
) -> tuple[Said, list[str]]:
    """What the stage says, asked once more where that is not to be believed; and what it did that
    breaks limits. `fill` makes its room, `again` that anew for a retry; `red`: gates, before the
    task.
    """
    again = again or fill
    how |= {"task": at.opened[0].text, "attempt": at.attempt, "again": again, "room": fill()}
    form, task = site.templates[prompt.stage], at.opened[1]
    listed = cache(lambda: "\n".join(site.repo.paths("ls-tree", "-rz", "--name-only", tree)))
    own = "\n".join((briefs.task_text(task), *(n.text for n in task.of(Kind.GATE, Kind.JUDGE))))
    own_gate = next((gate.label for gate in red if not gate.name), "")

    def knows(name: str) -> bool:
        name = name.removeprefix(f"{site.repo.root}/").rstrip("/.")
        whole = rf"(?i)(?<![^\W_]){re.escape(name)}(?![^\W_])"
        return bool(re.search(whole, listed())) or os.path.exists(site.repo.root / name)

    def once(one: Prompt) -> Said:
        reply = site.caller.call(one, **how)
        parts = (reply.reply.text, f"{form.contract}\n{form.text}", own, own_gate, knows)
        return replace(reply, doubt="" if reply.fault else belief.doubt(one.stage, *parts))

    with watched(site, who, back) as broken:
        reply = once(prompt)
        if reply.doubt:
            site.warn(f"{prompt.stage}: {reply.doubt}: asked once more")
            again()
            reply = once(
                replace(prompt, text=prompt.text + belief.again(prompt.stage, reply.doubt))
            )
    return reply, broken


def earlier(site: Site, at: Situation) -> StageRecord | None:
    """What came of the attempt before at the same task."""
    last = record.read(site.scope, Stage.IMPLEMENT, at.attempt - 1) if at.attempt > 1 else None
    return last if last and last.key == at.key else None


def ignored(site: Site) -> Ignored:
    """The copies of ignored files, which an agent in place works on."""
    return Ignored(site.repo, site.warn, site.memory.told)


def candidate(site: Site, at: Situation) -> str:
    """What is to be committed on HEAD. Raises Objection where a commit of the person's collides."""
    start, tree = at.second.change
    onto = site.repo.tree(at.head.commit)
    if onto == start:
        return tree
    merged, conflicts = history.merge(site.repo, start, onto, tree)
    if conflicts:
        raise Objection(f"the change overlaps your commit in {some(conflicts)}", Cause.COLLISION)
    return merged


def left(site: Site, start: StartRef) -> tuple[str, str]:
    """The tree as the agent left it; as it began, and why, where git cannot add that."""
    try:
        return site.rooms.work.candidate(), ""
    except GitFailed as exc:
        if exc.is_environment:
            raise
        return start.tree, f"git cannot add what it left: {plain.line(exc.stderr, 200)}"


def put_aside(site: Site, at: Situation, start: StartRef, why: str, *, again: bool = False) -> None:
    """What an agent that was cut off has left, under a ref and out of the tree."""
    work, tree = site.rooms.work, start.tree
    if start.held:  # as its agent left it: a gate may have been there since
        tree = site.repo.tree(start.held[0])
    elif work.index.exists():
        tree, lost = left(site, start)
        if lost:
            site.warn(lost)
    if site.repo.changed(start.tree, tree):
        ref = site.keep(start.task, f"{start.attempt}-killed", tree, start.base)
        work.accept(tree)
        site.warn(f"{why}: what it left is saved: git show {ref}")
    restore(site, at, again=again)


def restore(site: Site, at: Situation, *, again: bool = False) -> None:
    """In place: the tree as it is committed, and what git ignores as it was before the attempt,
    which may begin `again`.
    """
    if not (place := site.rooms.place):
        return
    place.fill(site.repo.tree(site.repo.head().commit))
    if at.key:
        number = at.start.attempt if at.start else at.attempt
        ignored(site).restore(at.key, number, again=again)


def take_in(site: Site, second: StageRecord, who: str, changed: Mapping[str, Entry | None]) -> None:
    """What a gate or a hook rewrote is part of the task: the gates decide anew."""
    tree = site.repo.tree_with(second.tree, changed)
    record.save(site.scope, second.undecided(tree=tree, fixed=second.fixed + 1))
    names = some(sorted(changed))
    site.warn(f"{who} changed {names}: now part of the task; the gates run again")


# ---------------------------------------------------------------- after each child


@contextlib.contextmanager
def watched(site: Site, who: str, back: str = "") -> Iterator[list[str]]:
    """Around a child: what of that breaks limits, in words. `back`: the tree is that again, after
    one that was to look only.
    """
    broken: list[str] = []
    if not site.rooms.place:
        yield broken
        return
    documents, head = site.documents, site.repo.head()
    staged = workspace.read(site.repo.git_dir / "index")
    before = [
        (name, real(documents.root, name), text)
        for name in (SPEC, LEARNINGS)
        if (text := documents.read(name)) is not None
    ]
    try:
        yield broken
    finally:
        for name, place, text in before:
            with documents.alone():
                _reapply(site, name, place, text)
        broken += undo_mistakes(site, head, who)
        in_place.restore_index(site.repo, staged if site.repo.head() == head else None)
        if back:
            site.rooms.put_back(back)


def _reapply(site: Site, name: str, place: Path, before: str) -> None:
    """kern's own lines once more, where a child could write them; which words are gone, is said."""
    if what := site.documents.restore(name, place, before):
        site.warn(f"{name} was {what} while an agent ran: restored")
    fixed = text = site.documents.read(name) or ""
    if text == before or site.caller.hold is not unheld:
        return
    if name == SPEC:
        fixed, warnings = reapply.reapply(before, text)
        for line in warnings:
            site.warn(line)
        if fixed != text:
            site.documents.write(name, fixed)
    if {*re.findall(r"\w\w+", before)} - {*re.findall(r"\w\w+", fixed)}:
        kept = site.keep_document(name, before)
        site.warn(f"words are gone from {name}; as before an agent ran: {kept}")


def undo_mistakes(site: Site, head: Head, who: str) -> list[str]:
    """What a child did to git on top of `head`, its commits kept by a ref; what of that breaks
    limits, in words.
    """
    if not site.rooms.place:
        return []
    broken = in_place.undo_mistakes(site.repo, head)
    for line in broken:
        site.warn(f"{who} broke its limits: {line}")
    now = site.repo.head()
    if now.commit == head.commit:
        return broken
    made = site.repo.text("rev-list", f"{head.commit}..{now.commit}").split()
    if {now.commit, *made} <= history.moved(site.repo):
        ref = site.keep(_YOURS, "commit", site.repo.tree(now.commit), now.commit)
        why = "kern: an agent's commit taken back"
        site.repo.git("update-ref", "-m", why, "HEAD", head.commit, now.commit)
        site.warn(f"{who} committed by itself: the commit was undone and saved as {ref}")
    return broken


def save(site: Site, before: str, now: str) -> None:
    """Before it is undone: what nobody has kept, since it may be a person's."""
    if paths := sorted(site.repo.changed(before, now)):
        ref = site.keep(_YOURS, "changed", now, site.repo.head().commit)
        site.warn(
            f"{some(paths)} changed while kern worked in your tree: undone, and saved: "
            f"git checkout {ref} -- PATH",
            kept=True,
        )
