"""What stage 2 and the commands of a project may not do: undone, and said."""

import contextlib
from collections.abc import Iterator, Sequence

from kern import plain
from kern.config import Gate
from kern.events import GateStarted
from kern.git import history, index, operations, protect, refs, staging
from kern.git.history import Commit
from kern.git.protect import Restored
from kern.git.refs import StartRef
from kern.git.repository import Head
from kern.model import LEARNINGS, SPEC, Key, Result
from kern.pipeline import guarded
from kern.pipeline.guarded import Papers
from kern.pipeline.site import Site
from kern.plain import some
from kern.system import process

MOST_TOLD = 5  # commits


def enforce(site: Site, head: Head, start: StartRef, *, gate: str = "", by: str = "stage 2") -> str:
    """Put back a branch, commits, hooks and configuration; what fails the attempt, in words.
    `gate`: what ran instead of the agent; `by`: the pattern of whose commits are taken back.
    """
    who = gate or "the agent"
    planted = restore(site, start, who)
    told: list[str] = []
    if what := operations.under_way(site.repo):
        operations.abort(site.repo)
        index.reset(site.repo, f"{start.index}^{{tree}}")
        told.append(f"it left a mess ({what}); cleared")
    at = site.repo.plain_head()
    if at is None or at.branch != head.branch:
        if history.restore_branch(site.repo, head, start.base):
            told.append(f"it removed the branch {head.branch}; restored")
        branch = site.repo.branch()
        if branch != head.branch:
            history.switch_back(site.repo, head)
            told.append(f"it switched to {branch or 'a detached HEAD'}; switched back")
    _undo_commits(site, start, by, who)
    if not gate:
        site.keeper.index_back(start)
    for line in told:
        site.warn(f"{who} broke its limits: {line}")
    if back := protect.restore_hiding(site.repo, f"{start.guard}^{{tree}}"):
        site.warn(f"{who} changed files that git is told to overlook: {some(back)}; restored")
    return "; ".join([*planted, *told])


def restore(site: Site, start: StartRef, who: str = "the agent") -> list[str]:
    """What is guarded, before git is asked anything: it would obey that. What had changed, in
    words.
    """
    # Of git's configuration, what a submodule's coming writes there.
    site.keeper.nested.unregister()
    changed = Restored()
    site.keeper.guard.restore(start.guard, start.tree, changed)
    told: list[str] = []
    if changed.back:
        process.sweep(site.caller.mark)  # what was planted may have started something
        site.keeper.guard.restore(start.guard, start.tree, changed)
        told.append(f"it changed {some([*dict.fromkeys(changed.back)])}; restored")
    if changed.lost:
        lost = some([*dict.fromkeys(changed.lost)])
        told.append(f"it changed {lost}, of which kern has no sound copy: look at it yourself")
    for line in told:
        site.warn(f"{who} broke its limits: {line}")
    if changed.kept:
        site.warn(f"what stood in the place of what was restored is kept in {changed.kept}")
    return told


def _undo_commits(site: Site, start: StartRef, by: str, who: str) -> None:
    head = site.repo.head()
    if head.commit == start.base or take_back(site, start, start.base, by, who):
        return
    since = history.since(site.repo, start.base, head.commit) or ()
    site.warn(
        "HEAD was moved meanwhile, and not by an agent that says so: what is there stays"
        f"{commits(since)}",
        kept=True,
    )


def take_back(site: Site, start: StartRef, base: str, by: str, who: str) -> bool:
    """Where kern's own children alone have moved HEAD since the base (commits, an amend, a reset):
    that is kept under a ref, HEAD back. A person's commits stay.
    """
    head = site.repo.head()
    if not history.moved_by(site.repo, head, base, by):
        return False
    tip = history.commit(site.repo, head.commit)
    ref = site.keeper.keep(start.task, f"{start.attempt}-commit", tip.tree, tip.sha)
    history.move_head(site.repo, base, head.commit, "an agent's commit taken back")
    site.warn(f"{who} committed by itself: the commit was undone and saved as {ref}")
    return True


def commits(made: Sequence[Commit]) -> str:
    """What a person is to know of those that came while an agent worked."""
    if not made:
        return ""
    made = made[-MOST_TOLD:]
    told = ", ".join(f"{one.sha[:7]} {plain.line(one.subject, 60)!r}" for one in made)
    undo = " ".join(one.sha[:7] for one in reversed(made))
    return f": {told}; if that was not you: git show {made[-1].sha[:7]}, git revert {undo}"


def left(site: Site, head: Head, start: StartRef, papers: Papers) -> tuple[str, dict[str, object]]:
    """What stage 2 may not have done is undone; what it has left is stage2.json's."""
    planted = restore(site, start)
    staged = staging.tree(site.repo, start)
    told = [*planted, enforce(site, head, start)]
    guarded.settle(site, papers)
    told.append(site.keeper.nested.strays(start))
    site.keeper.name_large(start.tree)
    after = site.snapshots.take(start.tree)
    found = staging.of(site.repo, site.snapshots, start, staged, after)
    if found:
        site.warn(staging.words(found))
    trees = {"base": head.commit, "start": start.tree, "tree": after}
    return "; ".join(filter(None, told)), {**trees, "index": staging.noted(found)}


# ---------------------------------------------------------------- a command of the project


def standing(site: Site, head: Head, tree: str, key: Key, attempt: int) -> StartRef:
    """What a command of the project is held to, where no stage 2 has begun."""
    site.keeper.remember(tree, durable=False)
    own = site.keeper.guard.take(tree)
    return refs.begun(site.repo, head, tree, index.tree(site.repo), own, key, attempt)


def back_to(site: Site, start: StartRef, name: str, who: str, when: str = "") -> None:
    """The whole tree, after commands that were to look only."""
    if ref := site.keeper.back_to(start, name):
        paths = sorted(site.repo.changed(start.tree, f"{ref}^{{tree}}"))
        site.warn(
            f"{some(paths)} changed while {who} ran{when}; restored. "
            f"Build output? Add it to .gitignore. Yours? git checkout {ref} -- PATH"
        )


def gate(
    site: Site,
    gate: Gate,
    tree: str,
    head: Head,
    start: StartRef | None,
    *,
    exact: str = "",
    before: bool = False,
) -> Result:
    """One gate on the working tree, which is `tree` now, or in the room, which holds
    `exact`; `before`: the task. Its end is for the caller to tell.
    """
    site.sink(GateStarted(gate.label, gate.command, before=before))
    if site.gates.apart(gate):
        known_by = subject(site, gate, exact, tree)
        return site.gates.run(gate, known_by, before=before, exact=exact)
    with contained(site, gate.label, head, start):
        return site.gates.run(gate, tree, before=before)


def subject(site: Site, gate: Gate, exact: str, tree: str) -> str:
    """The tree by which it is known how a gate ended: in a room what a person changes meanwhile is
    nothing to it.
    """
    gone = dict.fromkeys((SPEC, LEARNINGS))
    return site.repo.tree_with(exact, gone) if site.gates.apart(gate) else tree


@contextlib.contextmanager
def contained(site: Site, label: str, head: Head, start: StartRef | None) -> Iterator[None]:
    """A command of the project, say a gate, may still do what nothing may do between stages."""
    papers = guarded.take(site)
    staged = index.tree(site.repo)
    try:
        yield
    finally:
        guarded.settle(site, papers)
        if start:
            enforce(site, head, start, gate=label)
        touched = site.keeper.touched(head.commit)
        if lost := staging.back_to(site.repo, staged, touched):
            if start:
                name = f"{start.attempt}-staged"
                lost = site.keeper.keep(start.task, name, lost, head.commit)
            site.warn(
                f"{label}, or you, staged something; the index is restored: git ls-tree -r "
                f"{lost} lists the index as it was left"
            )
