"""`kern undo`: a task's commit is taken back by a new one that also opens the task again.

A record comes before HEAD moves, so that whoever comes next brings the files after it; until then
nothing has happened.
"""

import json
from pathlib import Path

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import along, history, ignore, index
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
from kern.system import workspace
from kern.system.workspace import Scope


def undo(repo: Repo, papers: Documents, scope: Scope, wanted: str) -> list[str]:
    """Under the lock. What was done, in lines. Raises KernError where nothing was."""
    preflight.demand(preflight.of_repository(repo))
    earlier = finish(repo, papers)
    parsed = papers.spec()[1]
    at = facts.look(place.Place(repo, scope, papers))
    if resume(at.facts) is not Do.SELECT and at.key:
        raise UsageError(
            f"a task is in progress: {plain.line(at.key.text, 200)}",
            hint="kern 1 goes on with it, kern reopen TASK gives it back; then undo the other",
        )
    number = 1 + order.named(wanted, [task.text for task in parsed.tasks])
    commit = _commit(repo, parsed, number)
    head = repo.head().commit
    tree, conflicts = along.without(repo, commit, DOCUMENTS)
    if conflicts:
        raise _built_upon(repo, commit, number, conflicts)
    paths = repo.changed(head, tree)
    _refuse(repo, commit, number, list(paths))
    key = parsed.tasks[number - 1].key
    whole, shown = _reopened(repo, tree, head, key), parsed.shown(number - 1)
    said = [*earlier, f"undone {shown}"]
    if whole == repo.tree(head):
        papers.edit(lambda fresh, now: _open_again(fresh, now, key))
        gone = "" if paths else f": the change of {commit.sha[:7]} is no longer there"
        return [*earlier, f"opened again {shown}{gone}", *_told(parsed, number)]
    message = f'Revert "{commit.subject}"\n\nThis reverts commit {commit.sha}.\n'
    new = along.committed(repo, whole, head, message)
    _note(repo, {"old": head, "new": new, "task": list(key)})
    history.move_head(repo, new, head, f"undo {commit.sha[:7]}")
    said[-1] += f": {new[:7]} takes {commit.sha[:7]} back, in {plain.count(len(paths), 'file')}"
    return [*said, *finish(repo, papers), *_told(parsed, number)]


def finish(repo: Repo, papers: Documents) -> list[str]:
    """The files follow a commit that took a task back, where a kill came between; what a person
    should know of it.
    """
    found = _noted(repo)
    if found is None:
        return []
    old, new, key = found
    told = []
    if repo.head().commit == new:
        if left := along.follow(repo, old, new, DOCUMENTS):
            told.append(f"changed meanwhile, and left as it is: {some(left)}")
        if entry := repo.entry(new, SPEC):
            _stage(repo, old, entry, key)
        if papers.read(SPEC) is not None:
            papers.edit(lambda text, parsed: _open_again(text, parsed, key))
    _place(repo).unlink(missing_ok=True)
    return told


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
    later = [f"  {plain.line(one, 160)}" for one in along.later(repo, commit, conflicts)]
    said = f"later commits build on {commit.sha[:7]}, in {some(conflicts)}; nothing was changed"
    by_hand = f"git revert {commit.sha[:7]}, resolve it, then kern reopen {number}"
    return UsageError(
        "\n".join([f"{said}:" if later else said, *later]),
        hint=f"undo those tasks first, the newest first; or by hand: {by_hand}",
    )


def _refuse(repo: Repo, commit: Commit, number: int, paths: list[str]) -> None:
    if mine := along.uncommitted(repo, paths):
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


# ---------------------------------------------------------------- SPEC.md, in three places


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


def _stage(repo: Repo, old: str, entry: Entry, key: Key) -> None:
    """What a person has staged of SPEC.md stays staged, with the task open."""
    staged = index.entry(repo, SPEC)
    if not staged or entry == repo.entry(old, SPEC):
        return
    if staged != repo.entry(old, SPEC):
        text = plain.decode(repo.data(staged.blob))
        new = _open_again(text, parse(text), key)
        if new == text:
            return
        entry = Entry(entry.mode, repo.blob(plain.encode(new)))
    index.update(repo, {SPEC: entry})


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


# ---------------------------------------------------------------- the record


def _place(repo: Repo) -> Path:
    return repo.scratch.parent / "undo.json"


def _note(repo: Repo, record: dict[str, object]) -> None:
    folder = _place(repo).parent
    with workspace.reported(folder):
        folder.mkdir(parents=True, exist_ok=True)
    workspace.replace(_place(repo), json.dumps(record).encode())


def _noted(repo: Repo) -> tuple[str, str, Key] | None:
    try:
        found = json.loads(workspace.read(_place(repo)) or b"")
        parent, text, nth = found["task"]
        return str(found["old"]), str(found["new"]), Key(str(parent), str(text), int(nth))
    except (ValueError, RecursionError, KeyError, TypeError, KernError):
        return None
