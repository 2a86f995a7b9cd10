"""`kern undo`: a task's commit is taken back by a new one that also opens the task again.

Once HEAD has moved, whoever comes next brings the files after it; until then nothing has happened.
"""

import re

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import history, ignore, index, landing
from kern.git.history import Commit
from kern.git.ignore import DOCUMENTS
from kern.git.repository import Entry, Repo
from kern.model import SPEC, Key, Marker
from kern.pipeline import facts, place, preflight
from kern.pipeline.table import Do, resume
from kern.plain import some
from kern.spec import commands, order
from kern.spec.file import Documents
from kern.spec.parse import Kind, Spec, parse
from kern.stages.briefs import task_name
from kern.system.workspace import Scope

_UNDONE = "Kern-Undone:"  # a trailer
_MOST = 20  # commits, and paths, in a complaint


def undo(repo: Repo, papers: Documents, scope: Scope, wanted: str) -> list[str]:
    """Under the lock. What was done, in lines. Raises KernError where nothing was."""
    preflight.demand(preflight.of_repository(repo))
    finish(repo, papers)
    parsed = papers.spec()[1]
    at = facts.look(place.Place(repo, scope, papers))
    if resume(at.facts) is not Do.SELECT and at.key:
        raise UsageError(
            f"a task is in progress: {plain.line(at.key.text, 200)}",
            hint="kern 1 goes on with it, kern reopen TASK gives it back; then undo the other",
        )
    number = 1 + order.named(wanted, [task.text for task in parsed.tasks])
    commit = _commit(repo, parsed, number)
    head = repo.head()
    tree, conflicts = _without(repo, commit)
    if conflicts:
        raise _built_upon(repo, commit, number, conflicts)
    paths = repo.changed(head.commit, tree)
    _refuse(repo, commit, number, tree)
    key = parsed.tasks[number - 1].key
    whole, shown = _reopened(repo, tree, head.commit, key), parsed.shown(number - 1)
    said = f"undone {shown}"
    if whole == repo.tree(head.commit):
        papers.edit(lambda fresh, now: _open_again(fresh, now, key))
        gone = "" if paths else f": the change of {commit.sha[:7]} is no longer there"
        return [f"opened again {shown}{gone}", *_told(parsed, number)]
    subject = f'Revert "{commit.subject}"'
    message = f"{subject}\n\nThis reverts commit {commit.sha}.\n\n{_UNDONE} {task_name(key)}\n"
    new = history.create(repo, whole, head.commit, message, history.SIGNING_S)
    if not landing.advance(repo, head, new, subject):
        raise KernError("the branch has moved meanwhile; nothing was changed", hint="try again")
    finish(repo, papers)
    said += f": {new[:7]} takes {commit.sha[:7]} back, in {plain.count(len(paths), 'file')}"
    return [said, *_told(parsed, number)]


def finish(repo: Repo, papers: Documents) -> None:
    """The files follow a commit that took a task back, where a kill came between; twice is once."""
    if not landing.behind(repo):
        return
    tip = repo.run("log", "-1", "--format=%B")[1].decode("utf-8", "replace")
    name = re.search(rf"(?m)^{_UNDONE} (.*)$", tip)
    if not name:
        return

    def replay(path: str, text: str, came: str) -> str:
        return opened(text, parse(text)) if path == SPEC else text

    def opened(text: str, parsed: Spec) -> str:
        for task in parsed.tasks:
            if task_name(task.key) == name[1]:
                return _open_again(text, parsed, task.key)
        return text

    # The disk first: once the files have followed, nothing tells any more that this is due.
    if papers.read(SPEC) is not None:
        papers.edit(opened)
    landing.follow(repo, replay)


def _without(repo: Repo, commit: Commit) -> tuple[str, list[str]]:
    """HEAD's tree without the commit's change, or the paths in conflict; the documents stay."""
    now = {path: repo.entry(commit.sha, path) for path in DOCUMENTS}
    above = repo.tree(commit.parents[0]) if commit.parents else ""
    return index.merge(repo, commit.sha, repo.head().commit, repo.tree_with(above, now))


# ---------------------------------------------------------------- which commit, and may it be


def _commit(repo: Repo, parsed: Spec, number: int) -> Commit:
    task = parsed.tasks[number - 1]
    shown = parsed.shown(number - 1)
    if task.marker is not Marker.DONE:
        raise UsageError(
            f"it is not done, so there is nothing to undo: {shown}",
            hint=f"kern show {number} tells how it stands",
        )
    if parts := [n for n, one in enumerate(parsed.tasks, 1) if one.parent == number - 1]:
        raise UsageError(
            f"it was carried out as its subtasks {', '.join(map(str, parts))}: {shown}",
            hint=f"undo those, the last one first: kern undo {parts[-1]}",
        )
    for commit in history.ticking(repo, SPEC, task.text):
        ticked = _ticked(repo, commit)
        named = commit.trailer == task_name(task.key)
        if not named and not any(key.text == task.text for key in ticked):
            continue
        own = {task.text, *(parsed.tasks[index].text for index in parsed.above(task))}
        others = [key.text for key in ticked if key.text not in own]
        if others or len(commit.parents) != 1:
            what = f"also finished: {some(others)}" if others else "is the first or a merge"
            raise UsageError(
                f"{commit.sha[:7]}, which finished {shown}, {what}",
                hint=f"by hand: git revert {commit.sha[:7]}, then kern reopen {number}",
            )
        return commit
    raise UsageError(
        f"no commit of this branch finished it: {shown}",
        hint=f"kern reopen {number} opens it again and changes nothing else",
    )


def _ticked(repo: Repo, commit: Commit) -> set[Key]:
    """The tasks that became done with it."""
    done = _done(repo, commit.sha)
    return done - _done(repo, commit.parents[0]) if commit.parents else done


def _done(repo: Repo, revision: str) -> set[Key]:
    tasks = parse(plain.decode(repo.content(revision, SPEC) or b"")).tasks
    return {task.key for task in tasks if task.marker is Marker.DONE}


def _built_upon(repo: Repo, commit: Commit, number: int, conflicts: list[str]) -> UsageError:
    argv = ("log", f"-{_MOST}", "--no-show-signature", "--format=%h %s", f"{commit.sha}..HEAD")
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    _, out, _ = repo.run(*argv, "--", *conflicts[:_MOST], env=literal)
    later = [f"  {plain.line(one, 160)}" for one in plain.decode(out).splitlines()]
    said = f"later commits build on {commit.sha[:7]}, in {some(conflicts)}; nothing was changed"
    by_hand = f"git revert {commit.sha[:7]}, resolve it, then kern reopen {number}"
    return UsageError(
        "\n".join([f"{said}:" if later else said, *later]),
        hint=f"undo those tasks first, the newest first; or by hand: {by_hand}",
    )


def _refuse(repo: Repo, commit: Commit, number: int, tree: str) -> None:
    if mine := landing.in_the_way(repo, repo.head().commit, tree):
        raise UsageError(
            f"it would change what you have not committed: {some(mine)}",
            hint=f"git commit or git stash -u it, then: kern undo {number}",
        )
    moved = repo.changed(commit.parents[0], commit.sha).items()
    if linked := [p for p, both in moved if "160000" in {one.mode for one in both if one}]:
        raise UsageError(
            f"{commit.sha[:7]} moves a submodule: {some(linked)}",
            hint=f"by hand: git revert {commit.sha[:7]}, then kern reopen {number}",
        )


# ---------------------------------------------------------------- SPEC.md


def _open_again(text: str, parsed: Spec, key: Key) -> str:
    task = parsed.find(key)
    if task is None or task.marker is not Marker.DONE:
        return text
    return commands.reopened(text, parsed, task)


def _reopened(repo: Repo, tree: str, head: str, key: Key) -> str:
    """The tree with the task open in its SPEC.md, where git tracks that."""
    known = repo.entry(head, SPEC)
    if known is None or known.mode == "120000" or ignore.ignored(repo, SPEC):
        return tree
    text = plain.decode(repo.data(known.blob))
    new = _open_again(text, parse(text), key)
    blob = known.blob if new == text else repo.blob(plain.encode(new))
    return repo.tree_with(tree, {SPEC: Entry(known.mode, blob)})


def _told(parsed: Spec, number: int) -> list[str]:
    """What else depended on it, and what is next."""
    task = parsed.tasks[number - 1]
    name, told = order.name(task.text), []
    above = task.parent
    if above is not None and parsed.tasks[above].marker is Marker.DONE:
        told.append(f"open again with it: {above + 1}: {plain.line(parsed.tasks[above].text, 160)}")
    for at, one in enumerate(parsed.tasks, 1):
        if any(order.name(note.text) == name for note in one.of(Kind.AFTER)):
            done = one.marker is Marker.DONE
            how = "done after it, look whether it still works" if done else "waits for it again"
            told.append(f"{how}: {at}: {plain.line(one.text, 160)}")
    return [*told, f'next: kern note {number} "what to do otherwise", then: kern']
