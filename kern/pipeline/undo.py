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
from kern.journal import store
from kern.model import SPEC, Key, Marker
from kern.pipeline import preflight
from kern.plain import some
from kern.spec import commands, order
from kern.spec.file import Documents
from kern.spec.parse import Spec, parse
from kern.stages.briefs import task_name

_UNDONE = "Kern-Undone:"  # a trailer


def undo(repo: Repo, papers: Documents, wanted: str) -> str:
    """Under the lock. What was done. Raises KernError where nothing was."""
    preflight.demand(preflight.of_repository(repo))
    finish(repo, papers)
    parsed, head = papers.spec()[1], repo.head()
    if busy := parsed.active:
        raise UsageError(
            f"a task is in progress: {plain.line(busy[0].text, 200)}",
            hint="kern 1 goes on with it, [ ] in kern edit gives it back; then undo the other",
        )
    number = 1 + order.named(wanted, [task.text for task in parsed.tasks])
    commit = _commit(repo, parsed, number)
    key, shown = parsed.tasks[number - 1].key, parsed.shown(number - 1)
    kept = {path: repo.entry(commit.sha, path) for path in DOCUMENTS}
    above = repo.tree_with(repo.tree(commit.parents[0]), kept)
    tree, conflicts = index.merge(repo, commit.sha, head.commit, above)
    by_hand = f"git revert {commit.sha[:7]}, resolve it, then [ ] in kern edit"
    if conflicts:
        raise UsageError(
            f"later commits build on {commit.sha[:7]}, in {some(conflicts)}; nothing was changed",
            hint=f"undo those tasks first, the newest first; or by hand: {by_hand}",
        )
    if mine := landing.in_the_way(repo, head.commit, tree):
        raise UsageError(
            f"it would change what you have not committed: {some(mine)}",
            hint=f"git commit or git stash -u it, then: kern undo {number}",
        )
    files = plain.count(len(repo.changed(head.commit, tree)), "file")
    subject = f'Revert "{commit.subject}"'
    message = f"{subject}\n\nThis reverts commit {commit.sha}.\n\n{_UNDONE} {task_name(key)}\n"
    whole = _with_task_open(repo, tree, head.commit, key)
    new = history.create(repo, whole, head.commit, message, history.SIGNING_S)
    if not landing.advance(repo, head, new, subject):
        raise KernError("the branch has moved meanwhile; nothing was changed", hint="try again")
    finish(repo, papers)
    return f"undone {shown}: {new[:7]} takes {commit.sha[:7]} back, in {files}"


def finish(repo: Repo, papers: Documents) -> None:
    """The files follow a commit that took a task back, where a kill came between; twice is once."""
    tip = history.commit(repo, "HEAD").message if landing.behind(repo) else ""
    if not (name := re.search(rf"(?m)^{_UNDONE} (.*)$", tip)):
        return

    def opened(text: str, parsed: Spec) -> str:
        keys = [task.key for task in parsed.tasks if task_name(task.key) == name[1]]
        return _opened(text, keys[0]) if keys else text

    def replay(path: str, text: str, came: str) -> str:
        return opened(text, parse(text)) if path == SPEC else text

    # The disk first: once the files have followed, nothing says any more that this is due.
    if papers.read(SPEC) is not None:
        papers.edit(opened)
    landing.follow(repo, replay)


def _commit(repo: Repo, parsed: Spec, number: int) -> Commit:
    """The one that finished the task, as kern made it. Raises UsageError."""
    task, shown = parsed.tasks[number - 1], parsed.shown(number - 1)
    if task.marker is not Marker.DONE:
        raise UsageError(
            f"it is not done, so there is nothing to undo: {shown}",
            hint=f"kern show {number} tells how it stands",
        )
    commit = history.naming(repo, task_name(task.key))
    if commit is None:
        raise UsageError(
            f"no commit of kern's on this branch finished it: {shown}",
            hint="[ ] in kern edit opens it again and changes nothing else",
        )
    rows = store.tail(store.place(repo.common_dir), having=b'"commit"')
    made = {str(row["commit"]) for row in rows if row.get("commit")}
    change = history.patch(repo, commit.sha)
    if commit.sha not in made and all(history.patch(repo, sha) != change for sha in made):
        raise UsageError(
            f"{commit.sha[:7]} is not as kern made it here: squashed, amended, or made elsewhere",
            hint=f"by hand: git revert {commit.sha[:7]}, then [ ] in kern edit",
        )
    return commit


def _opened(text: str, key: Key) -> str:
    parsed = parse(text)
    task = parsed.find(key)
    done = task is not None and task.marker is Marker.DONE
    return commands.reopened(text, parsed, task) if task and done else text


def _with_task_open(repo: Repo, tree: str, head: str, key: Key) -> str:
    """In its SPEC.md, where git tracks that."""
    known = repo.entry(head, SPEC)
    if known is None or known.mode == "120000" or ignore.ignored(repo, SPEC):
        return tree
    text = _opened(plain.decode(repo.data(known.blob)), key)
    return repo.tree_with(tree, {SPEC: Entry(known.mode, repo.blob(plain.encode(text)))})
